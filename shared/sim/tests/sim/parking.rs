//! A host that parks acts on health that may be old by then. Nothing stays parked at an enabled URL.

use std::time::Duration;

use holdfast_core::ports::{Expect, QueueName, Settlement, Store, Write};
use holdfast_core::records::{Record, Subscription, UrlRecord};
use holdfast_core::rules::delivery::DeliveryState;
use holdfast_core::rules::health::OperatorAction;
use holdfast_sim::crash::World;
use holdfast_sim::{StoreCall, block_on};

use super::{HOUR, MINUTE, REDELIVERED, URL, subscription_with_a_retry_due};

/// A person enables the URL, and the release ends because nothing is parked.
fn enable_until_the_release_is_over(world: &World, subscription: &Subscription) {
    world.change_url_state(subscription, OperatorAction::Enable);
    world.handle(QueueName::Retry);
    world.pass(MINUTE);
    world.handle(QueueName::Retry);
    assert_eq!(world.url(subscription).releasing, None);
}

fn state_of_one(world: &World, subscription: &Subscription) -> Option<DeliveryState> {
    world.record("one", subscription).map(|record| record.progress.state)
}

#[test]
fn a_first_attempt_that_is_parked_too_late_is_released() {
    let mut world = World::new(1, None);
    let subscription = world.subscribe(URL);
    world.change_url_state(&subscription, OperatorAction::Freeze);
    world.handle(QueueName::Retry);
    world.post("one");
    world.scripted.hold_next(StoreCall::Get);
    let slow = world.begin(QueueName::First);
    enable_until_the_release_is_over(&world, &subscription);
    world.scripted.release();
    assert_eq!(slow.finish(), [Settlement::Delete]);
    assert_eq!(state_of_one(&world, &subscription), Some(DeliveryState::Parked));
    world.check();
    world.run_for(Duration::from_secs(10));
    assert_eq!(state_of_one(&world, &subscription), Some(DeliveryState::Delivered));
    assert_eq!(world.receiver.requests().len(), 1);
}

#[test]
fn a_retry_that_is_parked_too_late_is_released() {
    let mut world = World::new(2, None);
    let subscription = subscription_with_a_retry_due(&mut world);
    let before = world.record("one", &subscription).unwrap();
    world.change_url_state(&subscription, OperatorAction::Freeze);
    // The announcement shares the batch and reads the URL too: the third read is of the retry's context.
    world.queue.lose_all(QueueName::Retry);
    world.send_ticket(super::ticket_of(&before));
    world.scripted.hold_after(StoreCall::Get, 1);
    let slow = world.begin(QueueName::Retry);
    enable_until_the_release_is_over(&world, &subscription);
    world.scripted.release();
    assert_eq!(slow.finish(), [Settlement::Delete]);
    let parked = world.record("one", &subscription).unwrap();
    let expected = (DeliveryState::Parked, before.progress.next_attempt, before.progress.due_at);
    assert_eq!(
        (parked.progress.state, parked.progress.next_attempt, parked.progress.due_at),
        expected,
        "no attempt is counted"
    );
    world.check();
    world.receiver.answer(URL, 200);
    world.run_for(Duration::from_secs(10));
    assert_eq!(state_of_one(&world, &subscription), Some(DeliveryState::Delivered));
}

/// A host that read the URL as frozen parks, after `meanwhile`, and dies before it reads health again.
fn park_and_die(world: &mut World, meanwhile: impl FnOnce(&World, &Subscription)) -> Subscription {
    let subscription = world.subscribe(URL);
    world.change_url_state(&subscription, OperatorAction::Freeze);
    world.handle(QueueName::Retry);
    world.post("one");
    world.scripted.hold_next(StoreCall::Get);
    let dying = world.begin(QueueName::First);
    meanwhile(world, &subscription);
    world.scripted.hold_next(StoreCall::Write);
    world.scripted.release();
    drop(dying.go_on());
    assert_eq!(state_of_one(world, &subscription), Some(DeliveryState::Parked));
    subscription
}

#[test]
fn a_message_that_meets_a_parked_record_looks_at_the_url_again() {
    let mut world = World::new(3, None);
    let subscription = park_and_die(&mut world, enable_until_the_release_is_over);
    world.pass(REDELIVERED);
    assert_eq!(world.handle(QueueName::First), [Settlement::Delete]);
    world.run_for(Duration::from_secs(10));
    assert_eq!(state_of_one(&world, &subscription), Some(DeliveryState::Delivered));
    assert_eq!(world.receiver.requests().len(), 1);
    world.check();
}

#[test]
fn a_ticket_that_meets_a_parked_record_looks_at_the_url_again() {
    let mut world = World::new(4, None);
    let subscription = park_and_die(&mut world, enable_until_the_release_is_over);
    world.send_ticket(super::ticket_of(&world.record("one", &subscription).unwrap()));
    world.queue.lose_all(QueueName::First);
    world.run_for(Duration::from_secs(10));
    assert_eq!(state_of_one(&world, &subscription), Some(DeliveryState::Delivered));
    world.check();
}

#[test]
fn a_release_does_not_end_while_a_host_may_still_park() {
    let mut world = World::new(5, None);
    let subscription = park_and_die(&mut world, |world, subscription| {
        world.change_url_state(subscription, OperatorAction::Enable);
        world.handle(QueueName::Retry);
        assert!(world.url(subscription).releasing.is_some(), "nothing is parked yet");
    });
    world.queue.lose_all(QueueName::First);
    world.run_for(MINUTE + Duration::from_secs(10));
    assert_eq!(state_of_one(&world, &subscription), Some(DeliveryState::Delivered));
    world.run_for(2 * MINUTE);
    assert_eq!(world.url(&subscription).releasing, None, "and ends in the end");
    world.check();
}

#[test]
fn a_release_does_not_end_over_what_was_parked_meanwhile() {
    let mut world = World::new(7, None);
    let subscription = world.subscribe(URL);
    world.change_url_state(&subscription, OperatorAction::Freeze);
    world.handle(QueueName::Retry);
    world.post("one");
    world.scripted.hold_next(StoreCall::Get);
    let parking = world.begin(QueueName::First);
    world.change_url_state(&subscription, OperatorAction::Enable);
    world.handle(QueueName::Retry);
    world.pass(MINUTE);
    // The step that may end the release has found nothing parked.
    world.scripted.hold_next(StoreCall::Query);
    let ending = world.begin(QueueName::Retry);
    world.scripted.release();
    assert_eq!(parking.finish(), [Settlement::Delete]);
    // The ticket that parking sends is lost.
    world.queue.lose_all(QueueName::Retry);
    assert_eq!(ending.finish(), [Settlement::Delete]);
    world.check();
    world.run_for(MINUTE + Duration::from_secs(10));
    assert_eq!(state_of_one(&world, &subscription), Some(DeliveryState::Delivered));
}

/// As in a table that was restored in part.
fn lose_record_of_url(world: &World, subscription: &Subscription) {
    let key = UrlRecord::key(&world.tenant, &subscription.url_id);
    block_on(world.store.write(vec![Write::delete(key, Expect::Any)])).unwrap();
}

#[test]
fn a_url_without_a_record_is_enabled_and_gets_a_record() {
    let mut world = World::new(8, None);
    let subscription = world.subscribe(URL);
    lose_record_of_url(&world, &subscription);
    world.receiver.answer(URL, 500);
    world.post("one");
    assert_eq!(world.handle(QueueName::First), [Settlement::Delete]);
    assert_eq!(world.receiver.requests().len(), 1);
    assert_eq!(world.url(&subscription).health.streak, 1);
    world.check();
}

#[test]
fn what_is_parked_at_a_url_without_a_record_is_released() {
    let mut world = World::new(9, None);
    let subscription = world.subscribe(URL);
    world.change_url_state(&subscription, OperatorAction::Freeze);
    world.run_for(MINUTE);
    world.post("one");
    world.handle(QueueName::First);
    assert_eq!(state_of_one(&world, &subscription), Some(DeliveryState::Parked));
    lose_record_of_url(&world, &subscription);
    world.send_ticket(super::ticket_of(&world.record("one", &subscription).unwrap()));
    world.run_for(MINUTE);
    assert_eq!(state_of_one(&world, &subscription), Some(DeliveryState::Delivered));
    world.check();
}

#[test]
fn what_is_parked_at_a_frozen_url_is_left_alone() {
    let mut world = World::new(6, None);
    let subscription = world.subscribe(URL);
    world.change_url_state(&subscription, OperatorAction::Freeze);
    world.post("one");
    world.run_for(HOUR);
    let record = world.record("one", &subscription).unwrap();
    assert_eq!(
        (record.progress.state, record.progress.look_at),
        (DeliveryState::Parked, Some(record.progress.expires_at))
    );
    assert_eq!(world.url(&subscription).releasing, None);
    assert_eq!(world.receiver.requests(), []);
}

#[test]
fn the_last_thousand_changes_by_hand_are_kept() {
    let world = World::new(0, None);
    let subscription = world.subscribe("http://shop.test/hook");
    for _ in 0..600 {
        world.change_url_state(&subscription, OperatorAction::Freeze);
        world.change_url_state(&subscription, OperatorAction::Enable);
    }
    let history = world.store.all().into_iter().filter_map(|record| match record {
        Record::History(entry) => Some(entry.generation),
        _ => None,
    });
    let mut generations: Vec<u64> = history.collect();
    generations.sort_unstable();
    assert_eq!(generations, (201..=1_200).collect::<Vec<u64>>());
}
