//! An attempt starts at most 1 s after its health read began, and carries what that read found.

use std::time::Duration;

use holdfast_core::engine::SubscriptionPatch;
use holdfast_core::ports::{QueueName, Settlement};
use holdfast_core::records::Subscription;
use holdfast_core::rules::delivery::DeliveryState;
use holdfast_core::rules::health::OperatorAction;
use holdfast_sim::block_on;
use holdfast_sim::crash::World;
use holdfast_sim::{StoreCall, me};

use super::{NEW, REDELIVERED, URL, subscription_with_a_retry_due};

const TOO_LONG: Duration = Duration::from_millis(1_001);

/// A first attempt whose health read takes too long. `meanwhile` happens after the read.
fn slow_first_attempt(world: &mut World, meanwhile: impl FnOnce(&World, &Subscription)) -> Vec<Settlement> {
    let subscription = world.subscribe(URL);
    world.post("one");
    world.scripted.hold_next(StoreCall::Get);
    let in_flight = world.begin(QueueName::First);
    meanwhile(world, &subscription);
    world.pass(TOO_LONG);
    world.scripted.release();
    in_flight.finish()
}

/// A retry whose claim takes too long. `meanwhile` happens after the claim.
fn slow_retry(world: &mut World, meanwhile: impl FnOnce(&World, &Subscription)) -> Vec<Settlement> {
    let subscription = subscription_with_a_retry_due(world);
    world.scripted.hold_next(StoreCall::Write);
    let in_flight = world.begin(QueueName::Retry);
    meanwhile(world, &subscription);
    world.pass(TOO_LONG);
    world.scripted.release();
    in_flight.finish()
}

fn freeze(world: &World, subscription: &Subscription) {
    world.change_url_state(subscription, OperatorAction::Freeze);
}

fn enable(world: &World, subscription: &Subscription) {
    world.change_url_state(subscription, OperatorAction::Enable);
}

fn move_to_new(world: &World, subscription: &Subscription) {
    let patch = SubscriptionPatch { url: Some(NEW.to_owned()), ..SubscriptionPatch::default() };
    block_on(world.engine.update_subscription(&world.tenant, &subscription.id, patch, me())).unwrap();
}

#[test]
fn a_first_attempt_obeys_a_freeze_that_came_after_its_health_was_read() {
    let mut world = World::new(1, None);
    assert!(matches!(slow_first_attempt(&mut world, freeze)[..], [Settlement::RetryAfter(_)]));
    world.pass(REDELIVERED);
    assert_eq!(world.handle(QueueName::First), [Settlement::Delete]);
    assert_eq!(world.receiver.requests(), []);
    assert_eq!(world.deliveries()[0].progress.state, DeliveryState::Parked);
    world.check();
}

#[test]
fn a_retry_obeys_a_freeze_that_came_after_its_health_was_read() {
    let mut world = World::new(2, None);
    assert!(matches!(slow_retry(&mut world, freeze)[..], [Settlement::RetryAfter(_)]));
    assert_eq!(world.receiver.requests().len(), 1, "only the first attempt");
    assert_eq!(world.deliveries()[0].progress.lease, None, "the claim is given back");
    world.pass(REDELIVERED);
    world.handle(QueueName::Retry);
    assert_eq!(world.deliveries()[0].progress.state, DeliveryState::Parked);
    world.check();
}

#[test]
fn a_retry_whose_health_cannot_be_read_again_gives_its_claim_back() {
    let mut world = World::new(7, None);
    let settled = slow_retry(&mut world, |world, _| world.scripted.fail_next(StoreCall::Get));
    assert!(matches!(settled[..], [Settlement::RetryAfter(_)]), "{settled:?}");
    assert_eq!(world.receiver.requests().len(), 1, "only the first attempt");
    assert_eq!(world.deliveries()[0].progress.lease, None);
}

#[test]
fn a_retry_whose_health_is_never_read_in_time_gives_its_claim_back() {
    let mut world = World::new(8, None);
    subscription_with_a_retry_due(&mut world);
    world.scripted.hold_next(StoreCall::Write);
    let mut in_flight = world.begin(QueueName::Retry);
    for _ in 0..17 {
        world.pass(TOO_LONG);
        world.scripted.hold_next(StoreCall::Get);
        world.scripted.release();
        in_flight = in_flight.go_on();
    }
    world.pass(TOO_LONG);
    world.scripted.release();
    let settled = in_flight.finish();
    assert!(matches!(settled[..], [Settlement::RetryAfter(_)]), "{settled:?}");
    assert_eq!(world.receiver.requests().len(), 1, "only the first attempt");
    assert_eq!(world.deliveries()[0].progress.lease, None);
}

#[test]
fn an_attempt_counts_in_the_generation_that_was_read_last() {
    for attempt in [slow_first_attempt, slow_retry] {
        let mut world = World::new(3, None);
        world.receiver.answer(URL, 500);
        assert_eq!(attempt(&mut world, enable), [Settlement::Delete]);
        let url = world.urls().into_values().next().unwrap();
        assert_eq!((url.health.generation, url.health.streak, url.health.window_attempts), (1, 1, 1));
    }
}

#[test]
fn an_attempt_follows_its_subscription_to_another_url() {
    for attempt in [slow_first_attempt, slow_retry] {
        let mut world = World::new(4, None);
        world.receiver.answer(NEW, 500);
        assert_eq!(attempt(&mut world, move_to_new), [Settlement::Delete]);
        assert_eq!(world.receiver.requests().pop().unwrap().url, NEW);
        assert_eq!(world.deliveries()[0].url, NEW);
        let streaks: Vec<_> =
            world.urls().into_values().filter(|url| url.url == NEW).map(|url| url.health.streak).collect();
        assert_eq!(streaks, [1], "it counts where it was made");
        world.check();
    }
}

#[test]
fn a_retry_goes_where_its_subscription_is() {
    let mut world = World::new(5, None);
    let subscription = subscription_with_a_retry_due(&mut world);
    let ticket = super::ticket_of(&world.record("one", &subscription).unwrap());
    move_to_new(&world, &subscription);
    // The job that moves deliveries has not run yet.
    world.queue.lose_all(QueueName::Retry);
    world.send_ticket(ticket);
    world.receiver.answer(NEW, 500);
    world.handle(QueueName::Retry);
    assert_eq!(world.receiver.requests().pop().unwrap().url, NEW);
    let record = world.record("one", &subscription).unwrap();
    assert_eq!((record.url.as_str(), record.progress.next_attempt), (NEW, 2));
    world.run_for(10 * super::MINUTE);
    world.check_settled();
}

#[test]
fn a_retry_is_parked_where_its_subscription_is() {
    let mut world = World::new(6, None);
    let subscription = subscription_with_a_retry_due(&mut world);
    let ticket = super::ticket_of(&world.record("one", &subscription).unwrap());
    let other = world.subscribe(NEW);
    freeze(&world, &other);
    assert!(block_on(world.engine.delete_subscription(&world.tenant, &other.id, me())).unwrap());
    move_to_new(&world, &subscription);
    // The job that moves deliveries has not run yet.
    world.queue.lose_all(QueueName::Retry);
    world.send_ticket(ticket);
    world.handle(QueueName::Retry);
    let record = world.record("one", &subscription).unwrap();
    assert_eq!((record.url.as_str(), record.progress.state), (NEW, DeliveryState::Parked));
    world.check();
}
