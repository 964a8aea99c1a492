//! What is kept of an attempt tells a person why it failed.

use std::time::Duration;

use holdfast_core::engine::{DeliveryLog, Settings};
use holdfast_core::ports::{AttemptResponse, FailureKind, QueueName};
use holdfast_core::records::Attempt;
use holdfast_core::rules::delivery::AttemptOutcome;
use holdfast_sim::block_on;
use holdfast_sim::crash::World;

use super::URL;

/// The first attempt, which took 120 ms and was answered like this.
fn attempt_answered_with(answer: AttemptResponse) -> Attempt {
    let mut world = World::new(1, None);
    let subscription = world.subscribe(URL);
    world.receiver.answer_with(URL, answer);
    world.receiver.answer_after(URL, Duration::from_millis(120));
    world.post("one");
    world.handle(QueueName::First);
    let view = block_on(world.engine.view_delivery(&world.delivery("one", &subscription))).unwrap().unwrap();
    view.attempts.into_iter().next().unwrap()
}

fn status(status: u16, excerpt: &str) -> AttemptResponse {
    AttemptResponse::Status { status, excerpt: excerpt.to_owned(), retry_after: None }
}

#[test]
fn a_success_at_once_is_kept_unless_only_trouble_is_logged() {
    for (log, is_kept) in [(DeliveryLog::All, true), (DeliveryLog::Trouble, false)] {
        let mut world = World::with_settings(2, |settings| settings.delivery_log = log);
        let subscription = world.subscribe(URL);
        world.post("one");
        world.handle(QueueName::First);
        let view = block_on(world.engine.view_delivery(&world.delivery("one", &subscription))).unwrap();
        assert_eq!(view.is_some(), is_kept, "{log:?}");
    }
}

#[test]
fn an_attempt_is_kept_with_what_the_receiver_answered() {
    let refused = AttemptResponse::Failed {
        kind: FailureKind::Timeout,
        detail: "no response within 5s".to_owned(),
        is_silent: false,
    };
    let answered_503 = Some("status: the receiver answered 503");
    for (answer, outcome, code, error, excerpt) in [
        (status(204, ""), AttemptOutcome::Success, Some(204), None, None),
        (status(503, ""), AttemptOutcome::Failure, Some(503), answered_503, None),
        (status(503, "try later"), AttemptOutcome::Failure, Some(503), answered_503, Some("try later")),
        (refused, AttemptOutcome::Failure, None, Some("timeout: no response within 5s"), None),
    ] {
        let attempt = attempt_answered_with(answer);
        assert_eq!((attempt.outcome, attempt.status, attempt.ms), (outcome, code, 120));
        assert_eq!((attempt.error.as_deref(), attempt.excerpt.as_deref()), (error, excerpt));
        assert_eq!((attempt.epoch, attempt.n), (0, 0));
        let Settings { schedule, keep, .. } = Settings::default();
        assert_eq!(attempt.remove_at, attempt.at + schedule.lifetime + keep);
    }
}
