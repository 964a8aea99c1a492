//! Retries are made when they are due: never earlier, and not much later.

use std::time::Duration;

use holdfast_core::engine::{Counters, DeliveryLog, Settings};
use holdfast_core::ports::{AttemptResponse, Clock, QueueName, Settlement};
use holdfast_core::records::Subscription;
use holdfast_core::rules::delivery::{DeliveryState, Reason};
use holdfast_core::rules::health::OperatorAction;
use holdfast_core::rules::schedule::Schedule;
use holdfast_sim::crash::World;
use holdfast_sim::{StoreCall, block_on};

use super::{
    DAY, HOUR, MINUTE, REDELIVERED, URL, one_attempt, sent_on_ticket_of, subscription_with_a_retry_due,
    ticket_of,
};

/// Queue delays are whole seconds.
const ROUNDING: Duration = Duration::from_secs(1);
/// What the spec promises for when hints are lost.
const LATEST: Duration = Duration::from_secs(7 * 60);

fn gaps(world: &World) -> Vec<Duration> {
    let seen = world.receiver.requests();
    seen.windows(2).map(|pair| pair[1].at.since(pair[0].at)).collect()
}

#[track_caller]
fn assert_late_by_at_most(gaps: &[Duration], most: Duration) {
    let schedule = Schedule::default();
    for (gap, n) in gaps.iter().zip(1..) {
        let due = schedule.gap_before_retry(n).unwrap();
        assert!(
            *gap >= due && *gap <= due + most,
            "retry {n} came {gap:?} after the attempt before, not {due:?}"
        );
    }
}

#[test]
fn every_retry_is_made_when_it_is_due() {
    let mut world = World::new(1, None);
    let subscription = world.subscribe(URL);
    world.receiver.answer(URL, 500);
    world.post("one");
    world.run_for_with_a_sweep_each_minute(3 * DAY);
    assert_eq!(gaps(&world).len(), 11);
    assert_late_by_at_most(&gaps(&world), ROUNDING);
    assert_eq!(world.record("one", &subscription).unwrap().progress.reason, Some(Reason::Exhausted));
    world.check();
}

#[test]
fn a_retry_whose_ticket_is_lost_is_at_most_7_minutes_late() {
    let mut world = World::new(2, None);
    world.subscribe(URL);
    world.receiver.answer(URL, 500);
    world.post("one");
    for n in 1..=11 {
        // The ticket that follows the attempt is lost; the sweep's own is not.
        while world.work() {}
        world.queue.lose_all(QueueName::Retry);
        let gap = Schedule::default().gap_before_retry(n).unwrap();
        world.run_for_with_a_sweep_each_minute(gap - MINUTE);
        while world.receiver.requests().len() == n as usize {
            world.run_for_with_a_sweep_each_minute(Duration::from_secs(10));
            assert!(
                gaps(&world).len() == n as usize
                    || world.clock.now() < world.deliveries()[0].progress.due_at + LATEST
            );
        }
    }
    assert_late_by_at_most(&gaps(&world), LATEST);
}

#[test]
fn an_early_ticket_is_sent_on_to_the_due_time() {
    let mut world = World::new(3, None);
    let subscription = world.subscribe(URL);
    world.receiver.answer(URL, 500);
    world.post("one");
    world.handle(QueueName::First);
    let record = world.record("one", &subscription).unwrap();
    assert_eq!(record.progress.due_at, world.clock.now() + Duration::from_millis(84_800));
    world.queue.lose_all(QueueName::Retry);
    world.pass(Duration::from_secs(10));
    world.send_ticket(ticket_of(&record));
    assert_eq!(world.handle(QueueName::Retry), [Settlement::Delete]);
    // 74.8 s are left.
    let sent_on = (sent_on_ticket_of(&record), world.clock.now() + Duration::from_secs(75));
    assert_eq!(world.queue.messages(QueueName::Retry), [sent_on]);
    assert_eq!(world.receiver.requests().len(), 1);
}

#[test]
fn a_ticket_behind_the_record_sends_the_current_one_only_if_it_was_redelivered() {
    for (redelivered, tickets) in [(false, 0), (true, 1)] {
        let mut world = World::new(4, None);
        let subscription = subscription_with_a_retry_due(&mut world);
        let behind = ticket_of(&world.record("one", &subscription).unwrap());
        world.handle(QueueName::Retry);
        world.queue.lose_all(QueueName::Retry);
        world.send_ticket(behind);
        if redelivered {
            block_on(holdfast_core::ports::Inbox::receive(&*world.queue, QueueName::Retry, 1)).unwrap();
            world.pass(super::REDELIVERED);
        }
        assert_eq!(world.handle(QueueName::Retry), [Settlement::Delete]);
        assert_eq!(world.receiver.requests().len(), 2, "nothing is attempted");
        let record = world.record("one", &subscription).unwrap();
        let sent = world.queue.messages(QueueName::Retry);
        assert_eq!(sent.len(), tickets);
        for (message, ready_at) in sent {
            assert_eq!(message, sent_on_ticket_of(&record));
            assert!(ready_at >= record.progress.due_at);
        }
    }
}

/// Two copies of the first attempt are made at once, and one of them succeeds. From then on, the receiver fails.
fn world_with_two_first_attempts(change: impl FnOnce(&mut Settings)) -> (World, Subscription) {
    let mut world = World::with_settings(1, change);
    let subscription = world.subscribe(URL);
    world.post("one");
    world.queue.duplicate_all(QueueName::First);
    world.receiver.fail_next(URL, 1);
    assert_eq!(world.handle(QueueName::First), [Settlement::Delete, Settlement::Delete]);
    assert_eq!(world.receiver.requests().iter().map(|seen| seen.status).collect::<Vec<_>>(), [500, 200]);
    world.receiver.answer(URL, 500);
    (world, subscription)
}

#[test]
fn a_first_attempt_that_succeeded_in_another_copy_is_not_retried() {
    let (mut world, subscription) = world_with_two_first_attempts(|_| {});
    world.run_for_with_a_sweep_each_minute(HOUR);
    assert_eq!(world.receiver.requests().len(), 2);
    assert_eq!(world.record("one", &subscription).unwrap().progress.state, DeliveryState::Delivered);
    world.check();
}

#[test]
fn a_first_attempt_that_succeeded_in_another_copy_is_not_the_probe() {
    let (mut world, subscription) = world_with_two_first_attempts(|_| {});
    world.change_url_state(&subscription, OperatorAction::Disable);
    world.run_for_with_a_sweep_each_minute(HOUR);
    assert_eq!(world.receiver.requests().len(), 2);
    assert_eq!(world.record("one", &subscription).unwrap().progress.state, DeliveryState::Delivered);
}

#[test]
fn a_first_attempt_that_succeeded_late_in_another_copy_is_not_the_probe() {
    let mut world = World::new(3, None);
    let subscription = world.subscribe(URL);
    world.post("one");
    world.receiver.hold_next(URL);
    let slow_copy = world.begin(QueueName::First);
    world.pass(REDELIVERED);
    world.receiver.answer(URL, 500);
    assert_eq!(world.handle(QueueName::First), [Settlement::Delete]);
    world.change_url_state(&subscription, OperatorAction::Disable);
    world.pass(Duration::from_secs(85));
    world.handle(QueueName::Retry);
    assert_eq!(world.record("one", &subscription).unwrap().progress.state, DeliveryState::Parked);
    world.receiver.answer(URL, 200);
    world.receiver.release();
    assert_eq!(slow_copy.finish(), [Settlement::Delete]);
    world.run_for_with_a_sweep_each_minute(HOUR);
    assert_eq!(world.receiver.requests().len(), 2);
    assert_eq!(world.record("one", &subscription).unwrap().progress.state, DeliveryState::Delivered);
}

/// As documented: nothing tells of the success then.
#[test]
fn where_successes_are_not_logged_the_failed_copy_is_retried() {
    let (mut world, subscription) =
        world_with_two_first_attempts(|settings| settings.delivery_log = DeliveryLog::Trouble);
    world.run_for_with_a_sweep_each_minute(2 * MINUTE);
    assert_eq!(world.receiver.requests().len(), 3);
    assert_eq!(world.record("one", &subscription).unwrap().progress.next_attempt, 2);
}

#[test]
fn a_receiver_may_ask_for_more_time() {
    let secs = Duration::from_secs;
    for (status, asked, expected) in [
        (429, secs(100), secs(104)),
        (503, secs(100), secs(104)),
        // No earlier than due, and at most until the retry after it is due.
        (429, secs(1), Duration::from_millis(84_800)),
        (429, secs(86_400), Duration::from_millis(84_800 + 169_600)),
        (503, Duration::MAX, Duration::from_millis(84_800 + 169_600)),
        (500, secs(100), Duration::from_millis(84_800)),
    ] {
        let mut world = World::new(5, None);
        let subscription = world.subscribe(URL);
        let answer = AttemptResponse::Status { status, excerpt: String::new(), retry_after: Some(asked) };
        world.receiver.answer_with(URL, answer);
        world.post("one");
        world.receiver.hold_next(URL);
        let started_at = world.clock.now();
        let in_flight = world.begin(QueueName::First);
        // It asks for time from its answer on, which comes after 4 s.
        world.pass(secs(4));
        world.receiver.release();
        assert_eq!(in_flight.finish(), [Settlement::Delete]);
        let due_at = world.record("one", &subscription).unwrap().progress.due_at;
        assert_eq!(due_at.since(started_at), expected, "{status} with retry-after {asked:?}");
    }
}

#[test]
fn a_health_write_that_fails_is_dropped_and_tallied() {
    let mut world = World::new(6, None);
    let subscription = world.subscribe(URL);
    world.receiver.answer(URL, 500);
    world.post("one");
    world.scripted.fail_next(StoreCall::CountOutcomes);
    assert_eq!(world.handle(QueueName::First), [Settlement::Delete]);
    assert_eq!(world.record("one", &subscription).unwrap().progress.next_attempt, 1);
    let expected = Counters { attempts_failed: 1, health_writes_dropped: 1, ..one_attempt() };
    assert_eq!(world.engine.take_counters(), expected);
}

#[test]
fn a_ticket_that_cannot_be_sent_is_tallied_and_sent_by_the_sweep() {
    let mut world = World::new(7, None);
    world.subscribe(URL);
    world.receiver.fail_next(URL, 1);
    world.post("one");
    world.queue.refuse_next(QueueName::Retry);
    assert_eq!(world.handle(QueueName::First), [Settlement::Delete]);
    assert_eq!(
        world.engine.take_counters(),
        Counters { attempts_failed: 1, tickets_not_sent: 1, ..one_attempt() }
    );
    world.run_for_with_a_sweep_each_minute(10 * MINUTE);
    assert_late_by_at_most(&gaps(&world), LATEST);
    assert_eq!(world.receiver.requests().len(), 2);
}

#[test]
fn the_sweep_does_not_send_a_ticket_every_minute() {
    let mut world = World::new(8, None);
    let subscription = subscription_with_a_retry_due(&mut world);
    let due_at = world.record("one", &subscription).unwrap().progress.due_at;
    let mut sent = Vec::new();
    for _ in 0..10 {
        world.queue.lose_all(QueueName::Retry);
        world.sweep();
        if !world.queue.is_empty(QueueName::Retry) {
            sent.push(world.clock.now().since(due_at).as_secs() / 60);
        }
        world.pass(MINUTE);
    }
    assert_eq!(sent, [5], "5 minutes after it was due, and not again within 5 more");
}
