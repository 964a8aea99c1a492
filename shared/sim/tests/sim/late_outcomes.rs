//! An answer may come when the record has moved on. A success still counts; a failure changes nothing.

use std::time::Duration;

use holdfast_core::engine::SubscriptionPatch;
use holdfast_core::ports::{Clock, QueueName, Settlement};
use holdfast_core::records::{DeliveryRecord, Subscription};
use holdfast_core::rules::delivery::{DeliveryState, Reason};
use holdfast_core::rules::health::{Health, OperatorAction, UrlState};
use holdfast_sim::crash::World;
use holdfast_sim::{block_on, me};

use super::{MINUTE, REDELIVERED, URL, subscription_with_a_retry_due, ticket_of};

/// Retry 1 is under way while `meanwhile` happens, and is then answered with `status`.
fn late_answer(status: u16, meanwhile: impl FnOnce(&World, &Subscription)) -> (World, DeliveryRecord) {
    let mut world = World::new(1, None);
    let subscription = subscription_with_a_retry_due(&mut world);
    world.receiver.hold_next(URL);
    let in_flight = world.begin(QueueName::Retry);
    meanwhile(&world, &subscription);
    world.receiver.answer(URL, status);
    world.receiver.release();
    assert_eq!(in_flight.finish(), [Settlement::Delete]);
    world.check();
    let record = world.record("one", &subscription).unwrap();
    (world, record)
}

/// Another host takes the retry when the lease has lapsed, and its attempt fails.
fn fail_elsewhere(world: &World, _: &Subscription) {
    world.pass(REDELIVERED);
    assert_eq!(world.handle(QueueName::Retry), [Settlement::Delete]);
}

fn set_active(world: &World, subscription: &Subscription, active: bool) {
    let patch = SubscriptionPatch { active: Some(active), ..SubscriptionPatch::default() };
    block_on(world.engine.update_subscription(&world.tenant, &subscription.id, patch, me())).unwrap();
    if !active {
        world.handle(QueueName::Retry);
    }
}

fn deactivate(world: &World, subscription: &Subscription) {
    set_active(world, subscription, false);
    let record = world.record("one", subscription).unwrap();
    assert_eq!(
        (record.progress.state, record.progress.reason),
        (DeliveryState::Dead, Some(Reason::Inactive))
    );
}

fn unsubscribe(world: &World, subscription: &Subscription) {
    assert!(block_on(world.engine.delete_subscription(&world.tenant, &subscription.id, me())).unwrap());
    world.handle(QueueName::Retry);
    let record = world.record("one", subscription).unwrap();
    assert_eq!(
        (record.progress.state, record.progress.reason),
        (DeliveryState::Dead, Some(Reason::Unsubscribed))
    );
}

fn sweep_expired(world: &World, subscription: &Subscription) {
    world.pass(Duration::from_secs(52 * 3600));
    block_on(world.engine.sweep()).unwrap();
    let record = world.record("one", subscription).unwrap();
    assert_eq!((record.progress.state, record.progress.reason), (DeliveryState::Dead, Some(Reason::Expired)));
}

#[test]
fn a_late_success_is_a_success() {
    for meanwhile in [fail_elsewhere, deactivate, unsubscribe, sweep_expired] {
        let (world, record) = late_answer(200, meanwhile);
        assert_eq!((record.progress.state, record.progress.reason), (DeliveryState::Delivered, None));
        assert_eq!(record.progress.remove_at, Some(world.clock.now() + world.engine.settings().keep));
    }
}

/// The lease of the last attempt has lapsed, and another host has made it again in vain.
#[test]
fn a_success_of_the_last_attempt_counts_after_the_delivery_was_exhausted() {
    let mut world = World::new(2, None);
    let subscription = world.subscribe(URL);
    world.receiver.answer(URL, 500);
    world.post("one");
    let is_last = |world: &World| {
        let record = world.record("one", &subscription);
        record.is_some_and(|record| record.progress.next_attempt == 11)
    };
    while !is_last(&world) {
        world.run_for_with_a_sweep_each_minute(MINUTE);
    }
    let last = world.record("one", &subscription).unwrap();
    world.pass(last.progress.due_at.since(world.clock.now()));
    world.queue.lose_all(QueueName::Retry);
    world.send_ticket(ticket_of(&last));
    world.receiver.hold_next(URL);
    let in_flight = world.begin(QueueName::Retry);
    fail_elsewhere(&world, &subscription);
    let exhausted = world.record("one", &subscription).unwrap().progress;
    assert_eq!((exhausted.state, exhausted.reason), (DeliveryState::Dead, Some(Reason::Exhausted)));
    world.receiver.answer(URL, 200);
    world.receiver.release();
    assert_eq!(in_flight.finish(), [Settlement::Delete]);
    let progress = world.record("one", &subscription).unwrap().progress;
    assert_eq!((progress.state, progress.reason), (DeliveryState::Delivered, None));
    world.check();
}

#[test]
fn a_late_failure_changes_nothing() {
    for (meanwhile, reason) in [
        (deactivate as fn(&World, &Subscription), Reason::Inactive),
        (unsubscribe, Reason::Unsubscribed),
        (sweep_expired, Reason::Expired),
    ] {
        let (_, record) = late_answer(500, meanwhile);
        assert_eq!((record.progress.state, record.progress.reason), (DeliveryState::Dead, Some(reason)));
    }
}

#[test]
fn two_failures_of_the_same_attempt_count_once() {
    let (world, record) = late_answer(500, fail_elsewhere);
    assert_eq!((record.progress.state, record.progress.next_attempt), (DeliveryState::Waiting, 2));
    assert_eq!(record.progress.due_at, world.clock.now() + Duration::from_millis(169_600));
}

#[test]
fn a_late_answer_does_not_end_the_epoch_of_a_replay() {
    for status in [200, 500] {
        let (mut world, record) = late_answer(status, |world, subscription| {
            deactivate(world, subscription);
            set_active(world, subscription, true);
            block_on(world.engine.replay(&world.delivery("one", subscription), me())).unwrap();
        });
        assert_eq!(
            (record.progress.state, record.progress.epoch, record.progress.next_attempt),
            (DeliveryState::Waiting, 1, 0)
        );
        world.receiver.answer(URL, 200);
        world.run_for(MINUTE);
        assert_eq!(world.deliveries()[0].progress.state, DeliveryState::Delivered);
        assert_eq!(world.receiver.requests().len(), 3, "the first attempt, the retry and the replay");
    }
}

#[test]
fn a_late_success_is_the_urls_last_success_and_leaves_its_circuit_open() {
    for (action, state) in
        [(OperatorAction::Disable, UrlState::Disabled), (OperatorAction::Freeze, UrlState::Frozen)]
    {
        let mut before = None;
        let (world, _) = late_answer(200, |world, subscription| {
            world.change_url_state(subscription, action);
            before = Some(world.url(subscription).health);
            world.pass(Duration::from_secs(3));
        });
        let (before, now) = (before.unwrap(), world.urls().into_values().next().unwrap().health);
        assert_eq!(now.last_success_at, Some(world.clock.now()));
        assert_eq!(now.state, state);
        let Health { last_success_at, first_attempt_at, .. } = now;
        assert_eq!(now, Health { last_success_at, first_attempt_at, ..before });
    }
}

#[test]
fn a_late_failure_does_not_count_against_a_url_that_a_person_just_enabled() {
    let (world, _) =
        late_answer(500, |world, subscription| world.change_url_state(subscription, OperatorAction::Enable));
    let health = world.urls().into_values().next().unwrap().health;
    assert_eq!((health.state, health.streak, health.window_attempts), (UrlState::Enabled, 0, 0));
}

#[test]
fn the_next_attempt_is_counted_from_the_start_of_the_one_before() {
    let mut started_at = None;
    let (_, record) = late_answer(500, |world, _| {
        started_at = Some(world.clock.now());
        world.pass(Duration::from_secs(4));
    });
    assert_eq!(record.progress.due_at, started_at.unwrap() + Duration::from_millis(169_600));
}
