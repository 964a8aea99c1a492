//! A retry is claimed before it is made: one host at a time, and only for a while.

use std::time::Duration;

use holdfast_core::engine::Settings;
use holdfast_core::ports::{Clock, QueueName, Settlement};
use holdfast_core::rules::delivery::{AttemptOutcome, DeliveryState};
use holdfast_core::rules::health::OperatorAction;
use holdfast_core::time::Timestamp;
use holdfast_sim::StoreCall;
use holdfast_sim::block_on;
use holdfast_sim::crash::World;

use super::{HOUR, REDELIVERED, URL, sent_on_ticket_of, subscription_with_a_retry_due, ticket_of};

#[test]
fn a_ticket_that_meets_a_live_lease_is_sent_on_to_its_end() {
    for speed in [1, 10] {
        let mut world = World::with_speed(1, speed);
        let subscription = subscription_with_a_retry_due(&mut world);
        world.receiver.hold_next(URL);
        let dying = world.begin(QueueName::Retry);
        let record = world.record("one", &subscription).unwrap();
        world.send_ticket(ticket_of(&record));
        world.pass(Duration::from_secs(10));
        assert_eq!(world.handle(QueueName::Retry), [Settlement::Delete]);
        let left = record.progress.lease.unwrap().until_real.since(world.clock.now_real());
        let (message, ready_at) = world.queue.messages(QueueName::Retry).pop().unwrap();
        assert_eq!((message, ready_at), (sent_on_ticket_of(&record), world.clock.now() + left * speed));
        // The host dies: the ticket that was sent on finds the lease lapsed.
        drop(dying);
        world.receiver.answer(URL, 200);
        world.clock.advance(left);
        assert_eq!(world.handle(QueueName::Retry), [Settlement::Delete]);
        assert_eq!(world.record("one", &subscription).unwrap().progress.state, DeliveryState::Delivered);
        world.check();
    }
}

/// After a crash, retries that were being made waited until their leases had lapsed.
#[test]
fn the_lease_of_a_process_that_has_ended_is_taken_at_once_where_there_is_no_other() {
    let starts_later = |settings: &mut Settings| settings.only_process_since_real = Some(Timestamp::MAX);
    let mut world = World::with_settings(2, starts_later);
    let subscription = subscription_with_a_retry_due(&mut world);
    let ticket = ticket_of(&world.record("one", &subscription).unwrap());
    for requests in [2, 3] {
        world.receiver.hold_next(URL);
        let dying = world.begin(QueueName::Retry);
        assert_eq!(world.receiver.requests().len(), requests);
        drop(dying);
        world.send_ticket(ticket.clone());
    }
    // It still counts as a take: what killed two processes is not given to a third one.
    assert_eq!(world.handle(QueueName::Retry), [Settlement::Delete]);
    assert_eq!(world.receiver.requests().len(), 3);
    assert!(outcomes(&world, &subscription).contains(&AttemptOutcome::Interrupted));
}

#[test]
fn a_lease_of_this_process_is_waited_for_where_there_is_no_other() {
    let started_before = |settings: &mut Settings| settings.only_process_since_real = Some(Timestamp::ZERO);
    let mut world = World::with_settings(2, started_before);
    let subscription = subscription_with_a_retry_due(&mut world);
    world.receiver.hold_next(URL);
    let _in_flight = world.begin(QueueName::Retry);
    world.send_ticket(ticket_of(&world.record("one", &subscription).unwrap()));
    assert_eq!(world.handle(QueueName::Retry), [Settlement::Delete]);
    assert_eq!(world.receiver.requests().len(), 2);
}

#[test]
fn a_ticket_that_meets_a_live_lease_attempts_nothing() {
    let mut world = World::new(2, None);
    let subscription = subscription_with_a_retry_due(&mut world);
    world.receiver.hold_next(URL);
    let in_flight = world.begin(QueueName::Retry);
    world.send_ticket(ticket_of(&world.record("one", &subscription).unwrap()));
    world.handle(QueueName::Retry);
    assert_eq!(world.receiver.requests().len(), 2, "the first attempt and the retry that is under way");
    world.receiver.release();
    assert_eq!(in_flight.finish(), [Settlement::Delete]);
    world.check_nothing_repeated();
}

#[test]
fn a_claim_is_given_back_when_the_time_is_up() {
    let mut world = World::new(3, None);
    let subscription = subscription_with_a_retry_due(&mut world);
    let needed = world.engine.settings().http_timeout + world.engine.settings().time_to_record();
    // More often than an attempt may be taken: nothing was attempted, so nothing was taken.
    for _ in 0..3 {
        world.scripted.hold_next(holdfast_sim::StoreCall::Write);
        let in_flight = world.begin_until(QueueName::Retry, world.clock.now_real() + needed);
        assert!(world.record("one", &subscription).unwrap().progress.lease.is_some());
        world.pass(Duration::from_millis(1));
        world.scripted.release();
        assert!(matches!(in_flight.finish()[..], [Settlement::RetryAfter(_)]));
        assert_eq!(world.record("one", &subscription).unwrap().progress.lease, None);
        world.pass(REDELIVERED);
    }
    assert_eq!(world.receiver.requests().len(), 1);
    world.receiver.answer(URL, 200);
    world.handle(QueueName::Retry);
    assert_eq!(world.record("one", &subscription).unwrap().progress.state, DeliveryState::Delivered);
    world.check();
}

fn outcomes(world: &World, subscription: &holdfast_core::records::Subscription) -> Vec<AttemptOutcome> {
    let key = world.delivery("one", subscription);
    let view = block_on(world.engine.view_delivery(&key)).unwrap().unwrap();
    view.attempts.into_iter().map(|attempt| attempt.outcome).collect()
}

/// A host claims the retry and dies over it.
fn die_over_the_retry(world: &World) {
    world.receiver.hold_next(URL);
    drop(world.begin(QueueName::Retry));
    world.pass(REDELIVERED);
}

#[test]
fn the_third_take_sends_nothing_and_counts_on_the_delivery_only() {
    let mut world = World::new(4, None);
    let subscription = subscription_with_a_retry_due(&mut world);
    die_over_the_retry(&world);
    die_over_the_retry(&world);
    assert_eq!(world.handle(QueueName::Retry), [Settlement::Delete]);
    assert_eq!(world.receiver.requests().len(), 3, "the first attempt and two takes of the retry");
    assert_eq!(outcomes(&world, &subscription), [AttemptOutcome::Failure, AttemptOutcome::Interrupted]);
    let health = world.url(&subscription).health;
    assert_eq!((health.streak, health.window_attempts), (1, 1), "only the first attempt counts on the URL");
    let record = world.record("one", &subscription).unwrap();
    assert_eq!(record.progress.due_at, world.clock.now() + Duration::from_millis(169_600));
    assert_eq!(world.queue.messages(QueueName::Retry).pop().unwrap().0, ticket_of(&record));
    world.check();
}

#[test]
fn parking_does_not_give_an_attempt_fresh_takes() {
    let mut world = World::new(5, None);
    let subscription = subscription_with_a_retry_due(&mut world);
    die_over_the_retry(&world);
    world.change_url_state(&subscription, OperatorAction::Freeze);
    world.handle(QueueName::Retry);
    assert_eq!(world.record("one", &subscription).unwrap().progress.state, DeliveryState::Parked);
    world.change_url_state(&subscription, OperatorAction::Enable);
    world.handle(QueueName::Retry);
    die_over_the_retry(&world);
    world.handle(QueueName::Retry);
    assert_eq!(world.receiver.requests().len(), 3);
    assert_eq!(outcomes(&world, &subscription), [AttemptOutcome::Failure, AttemptOutcome::Interrupted]);
}

#[test]
fn a_first_attempt_received_a_third_time_is_claimed() {
    let mut world = World::new(6, None);
    let subscription = world.subscribe(URL);
    world.post("one");
    for _ in 0..2 {
        world.receiver.hold_next(URL);
        drop(world.begin(QueueName::First));
        assert_eq!(world.record("one", &subscription), None, "not fenced yet");
        world.pass(REDELIVERED);
    }
    world.receiver.hold_next(URL);
    let in_flight = world.begin(QueueName::First);
    assert!(world.record("one", &subscription).unwrap().progress.is_leased(world.clock.now_real()));
    world.check();
    world.receiver.release();
    assert_eq!(in_flight.finish(), [Settlement::Delete]);
    assert_eq!(world.record("one", &subscription).unwrap().progress.state, DeliveryState::Delivered);
}

#[test]
fn a_retry_whose_success_was_logged_and_not_recorded_is_not_made_again() {
    let mut world = World::new(20, None);
    let subscription = subscription_with_a_retry_due(&mut world);
    world.receiver.answer(URL, 200);
    // The claim is written, and what follows from the attempt is not.
    world.scripted.fail_after(StoreCall::Write, 1);
    assert!(matches!(world.handle(QueueName::Retry)[..], [Settlement::RetryAfter(_)]));
    assert_eq!(world.record("one", &subscription).unwrap().progress.state, DeliveryState::Waiting);
    world.run_for(HOUR);
    assert_eq!(world.receiver.requests().len(), 2);
    assert_eq!(world.record("one", &subscription).unwrap().progress.state, DeliveryState::Delivered);
    world.check();
}
