//! The body is stored before the record that needs it, and kept for as long as it may be needed.

use std::time::Duration;

use futures_util::FutureExt;
use holdfast_core::engine::AcceptError;
use holdfast_core::ids::EventKey;
use holdfast_core::ports::{BodyKey, Clock, Inbox, QueueName, Received, Settlement};
use holdfast_core::records::{Record, Subscription};
use holdfast_core::rules::delivery::{DeliveryState, Reason};
use holdfast_core::rules::health::OperatorAction;
use holdfast_core::time::Timestamp;
use holdfast_sim::crash::World;
use holdfast_sim::{StoreCall, block_on, me};

use super::{DAY, HOUR, REDELIVERED, URL, event};

fn fails(world: &World, _: &Subscription) {
    world.receiver.answer(URL, 500);
}

fn is_frozen(world: &World, subscription: &Subscription) {
    world.change_url_state(subscription, OperatorAction::Freeze);
}

fn is_unsubscribed(world: &World, subscription: &Subscription) {
    assert!(block_on(world.engine.delete_subscription(&world.tenant, &subscription.id, me())).unwrap());
}

#[test]
fn without_its_body_a_delivery_has_no_record() {
    for why in [fails, is_frozen, is_unsubscribed] {
        let mut world = World::new(1, None);
        let subscription = world.subscribe(URL);
        world.post("one");
        why(&world, &subscription);
        world.scripted.fail_next(StoreCall::PutBodies);
        assert!(matches!(world.handle(QueueName::First)[..], [Settlement::RetryAfter(_)]));
        assert_eq!(world.deliveries(), []);
        world.pass(REDELIVERED);
        assert_eq!(world.handle(QueueName::First), [Settlement::Delete]);
        assert_eq!(world.deliveries().len(), 1);
        world.check();
    }
}

#[test]
fn a_message_received_a_third_time_has_no_record_without_its_body() {
    let mut world = World::new(2, None);
    world.subscribe(URL);
    world.post("one");
    for _ in 0..2 {
        world.receiver.hold_next(URL);
        drop(world.begin(QueueName::First));
        world.pass(REDELIVERED);
    }
    world.scripted.fail_next(StoreCall::PutBodies);
    assert!(matches!(world.handle(QueueName::First)[..], [Settlement::RetryAfter(_)]));
    assert_eq!(world.deliveries(), []);
}

#[test]
fn one_body_that_cannot_be_stored_does_not_hold_up_what_needs_none() {
    let mut world = World::new(3, None);
    world.subscribe(URL);
    world.subscribe("http://other.test/hook");
    world.receiver.answer(URL, 500);
    world.post("one");
    // The failure's body; the success's is stored for its log, side by side.
    world.scripted.fail_after(StoreCall::PutBodies, 1);
    let settlements = world.handle(QueueName::First);
    assert_eq!(
        settlements.iter().filter(|settlement| **settlement == Settlement::Delete).count(),
        1,
        "{settlements:?}"
    );
}

#[test]
fn one_damaged_body_does_not_hold_up_the_others_of_its_batch() {
    let world = World::new(7, None);
    world.subscribe(URL);
    // Too large for its message, so that the body is loaded from the store.
    let large = format!("\"{}\"", "x".repeat(160_000));
    let events = ["one", "two"].map(|id| event(id, &large)).to_vec();
    block_on(world.engine.accept(&world.tenant, events)).unwrap();
    assert_eq!(world.handle(QueueName::First), [Settlement::Delete, Settlement::Delete], "the fan-outs");
    let damaged = EventKey::of("one", world.clock.now());
    world.scripted.damage_body(BodyKey::new(&world.tenant, &damaged));
    let settlements = world.handle(QueueName::First);
    let delivered = settlements.iter().filter(|settlement| **settlement == Settlement::Delete).count();
    assert_eq!((settlements.len(), delivered), (2, 1), "{settlements:?}");
    assert_eq!(world.receiver.requests().len(), 1);
}

#[test]
fn a_fan_out_whose_body_cannot_be_stored_is_not_accepted() {
    let world = World::new(4, None);
    for n in 0..101 {
        world.subscribe(&format!("http://many.test/{n}"));
    }
    world.scripted.fail_next(StoreCall::PutBodies);
    let answer = block_on(world.engine.accept(&world.tenant, vec![event("big", "1")]));
    assert!(matches!(answer, Err(AcceptError::Unavailable(_))));
    assert!(!world.store.all().iter().any(|record| matches!(record, Record::Job(_))));
    assert!(world.queue.is_empty(QueueName::First));
}

#[test]
fn a_body_outlives_the_last_retry() {
    let mut world = World::new(5, None);
    let subscription = world.subscribe(URL);
    world.receiver.fail_next(URL, 11);
    world.post("one");
    world.run_for(3 * DAY);
    assert_eq!(world.record("one", &subscription).unwrap().progress.state, DeliveryState::Delivered);
    assert_eq!(world.receiver.requests().len(), 12);
}

#[test]
fn a_body_outlives_52_hours_of_parking() {
    let mut world = World::new(6, None);
    let subscription = world.subscribe(URL);
    world.change_url_state(&subscription, OperatorAction::Freeze);
    world.post("one");
    world.run_for(52 * HOUR - Duration::from_secs(60));
    world.check();
    world.change_url_state(&subscription, OperatorAction::Enable);
    world.run_for(Duration::from_secs(30));
    assert_eq!(world.record("one", &subscription).unwrap().progress.state, DeliveryState::Delivered);
}

#[test]
fn what_is_over_can_be_replayed_until_it_is_removed() {
    let mut world = World::new(7, None);
    let subscription = world.subscribe(URL);
    world.receiver.answer(URL, 500);
    world.post("one");
    world.run_for(3 * DAY);
    let dead = world.record("one", &subscription).unwrap();
    assert_eq!(dead.progress.reason, Some(Reason::Exhausted));
    let last_moment = dead.progress.remove_at.unwrap() - Duration::from_secs(1);
    world.run_until(last_moment);
    // The replay's own retries go on beyond the time for which the body was kept at first.
    block_on(world.engine.replay(&dead.key, me())).unwrap();
    world.receiver.fail_next(URL, 11);
    world.receiver.answer(URL, 200);
    world.run_for(2 * DAY);
    world.check();
    world.run_for(DAY);
    let record = world.record("one", &subscription).unwrap();
    assert_eq!((record.progress.state, record.progress.epoch), (DeliveryState::Delivered, 1));
    assert_eq!(world.receiver.requests().len(), 24);
}

#[test]
fn what_is_over_is_removed_in_the_end() {
    let mut world = World::new(8, None);
    world.subscribe(URL);
    world.post("delivered at once");
    world.receiver.fail_next(URL, 1);
    world.post("delivered");
    world.run_for(HOUR);
    assert_eq!(world.deliveries().len(), 1);
    world.run_for(20 * DAY);
    let left = world.store.all();
    let left = left.iter().filter(|record| {
        matches!(record, Record::Event(_) | Record::Delivery(_) | Record::Logged(_) | Record::Attempt(_))
    });
    assert_eq!(left.count(), 0);
}

/// A world with one event on the queue for two URLs, whose body is in the store.
fn two_deliveries_of_a_stored_body() -> World {
    let world = World::new(8, None);
    for url in [URL, "http://other.test/hook"] {
        world.subscribe(url);
    }
    let large = format!("\"{}\"", "x".repeat(160_000));
    block_on(world.engine.accept(&world.tenant, vec![event("one", &large)])).unwrap();
    assert_eq!(world.handle(QueueName::First), [Settlement::Delete], "the fan-out");
    world
}

fn one_at_a_time(world: &World) -> [Vec<Received>; 2] {
    let mut batch = block_on(world.queue.receive(QueueName::First, 2)).unwrap();
    let second = batch.split_off(1);
    [batch, second]
}

#[test]
fn deliveries_of_one_event_read_its_body_once() {
    let world = two_deliveries_of_a_stored_body();
    let [first, second] = one_at_a_time(&world);
    world.scripted.hold_next(StoreCall::GetBodies);
    // A second read would fail.
    world.scripted.fail_after(StoreCall::GetBodies, 1);
    let mut first = Box::pin(world.engine.handle(first, Timestamp::MAX));
    let mut second = Box::pin(world.engine.handle(second, Timestamp::MAX));
    let waiting = [(&mut first).now_or_never(), (&mut second).now_or_never()];
    assert_eq!(waiting, [None, None], "both wait for the one read");
    world.scripted.release();
    assert_eq!([block_on(first), block_on(second)].concat(), [Settlement::Delete, Settlement::Delete]);
    assert_eq!(world.receiver.requests().len(), 2);
}

#[test]
fn a_body_that_could_not_be_read_is_read_again() {
    let world = two_deliveries_of_a_stored_body();
    let [first, second] = one_at_a_time(&world);
    world.scripted.fail_next(StoreCall::GetBodies);
    let [first, second] = [first, second].map(|batch| block_on(world.engine.handle(batch, Timestamp::MAX)));
    assert!(matches!(first[..], [Settlement::RetryAfter(_)]), "{first:?}");
    assert_eq!(second, [Settlement::Delete]);
}
