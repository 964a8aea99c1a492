//! The body is stored before the record that needs it, and kept for as long as it may be needed.

use std::time::Duration;

use holdfast_core::ports::QueueName;
use holdfast_core::records::{DeliveryState, Reason, Record, Subscription};
use holdfast_core::rules::health::Manual;
use holdfast_core::usecases::{AcceptError, Verdict};
use holdfast_sim::crash::World;
use holdfast_sim::{StoreCall, block_on};

use super::{DAY, HOUR, REDELIVERED, URL, event};

fn fails(world: &World, _: &Subscription) {
    world.receiver.answer(URL, 500);
}

fn is_frozen(world: &World, subscription: &Subscription) {
    world.steer(subscription, Manual::Freeze);
}

fn is_unsubscribed(world: &World, subscription: &Subscription) {
    assert!(block_on(world.engine.delete_subscription(&world.tenant, &subscription.id)).unwrap());
}

#[test]
fn without_its_body_a_delivery_has_no_record() {
    for why in [fails, is_frozen, is_unsubscribed] {
        let mut world = World::new(1, None);
        let subscription = world.subscribe(URL);
        world.post("one");
        why(&world, &subscription);
        world.scripted.fail_next(StoreCall::PutBodies);
        assert!(matches!(world.handle(QueueName::First)[..], [Verdict::Again(_)]));
        assert_eq!(world.deliveries(), []);
        world.pass(REDELIVERED);
        assert_eq!(world.handle(QueueName::First), [Verdict::Done]);
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
    assert!(matches!(world.handle(QueueName::First)[..], [Verdict::Again(_)]));
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
    let verdicts = world.handle(QueueName::First);
    assert_eq!(verdicts.iter().filter(|verdict| **verdict == Verdict::Done).count(), 1, "{verdicts:?}");
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
    assert_eq!(world.record("one", &subscription).unwrap().state, DeliveryState::Delivered);
    assert_eq!(world.receiver.seen().len(), 12);
}

#[test]
fn a_body_outlives_52_hours_of_parking() {
    let mut world = World::new(6, None);
    let subscription = world.subscribe(URL);
    world.steer(&subscription, Manual::Freeze);
    world.post("one");
    world.run_for(52 * HOUR - Duration::from_secs(60));
    world.check();
    world.steer(&subscription, Manual::Enable);
    world.run_for(Duration::from_secs(30));
    assert_eq!(world.record("one", &subscription).unwrap().state, DeliveryState::Delivered);
}

#[test]
fn what_is_over_can_be_replayed_until_it_is_removed() {
    let mut world = World::new(7, None);
    let subscription = world.subscribe(URL);
    world.receiver.answer(URL, 500);
    world.post("one");
    world.run_for(3 * DAY);
    let dead = world.record("one", &subscription).unwrap();
    assert_eq!(dead.reason, Some(Reason::Exhausted));
    let last_moment = dead.remove_at.unwrap() - Duration::from_secs(1);
    world.run_until(last_moment);
    // The replay's own retries go on beyond the time for which the body was kept at first.
    block_on(world.engine.replay(&dead.key)).unwrap();
    world.receiver.fail_next(URL, 11);
    world.receiver.answer(URL, 200);
    world.run_for(2 * DAY);
    world.check();
    world.run_for(DAY);
    let record = world.record("one", &subscription).unwrap();
    assert_eq!((record.state, record.epoch), (DeliveryState::Delivered, 1));
    assert_eq!(world.receiver.seen().len(), 24);
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
