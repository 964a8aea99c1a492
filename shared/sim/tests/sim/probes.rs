//! A disabled URL is probed with one real delivery, once in 10 minutes.

use std::time::Duration;

use holdfast_core::ports::{Clock, QueueName, Settlement};
use holdfast_core::records::Message;
use holdfast_core::records::Subscription;
use holdfast_core::rules::delivery::{DeliveryState, Reason};
use holdfast_core::rules::health::{OperatorAction, UrlState};
use holdfast_sim::crash::World;

use super::{HOUR, MINUTE, URL};

const TEN_MINUTES: Duration = Duration::from_secs(600);
const FUNCTION_TIMEOUT: Duration = Duration::from_secs(30);

/// Two deliveries, accepted a second apart, are parked at a URL that was disabled by hand.
fn world_with_parked(speed: u32) -> (World, Subscription) {
    let mut world = World::with_speed(1, speed);
    let subscription = world.subscribe(URL);
    world.change_url_state(&subscription, OperatorAction::Disable);
    world.handle(QueueName::Retry);
    for id in ["one", "two"] {
        world.post(id);
        world.handle(QueueName::First);
        world.pass(Duration::from_secs(1));
    }
    (world, subscription)
}

fn send_probe_ticket(world: &World, subscription: &Subscription) {
    let (tenant, url_id) = (world.tenant.clone(), subscription.url_id.clone());
    world.send_ticket(Message::Probe { tenant, url_id });
}

fn pass_until_the_probe_is_due(world: &World, subscription: &Subscription) {
    let next_probe_at = world.url(subscription).health.next_probe_at.unwrap();
    world.pass(next_probe_at.since(world.clock.now()));
}

#[test]
fn a_probe_is_not_made_before_it_is_due() {
    let (world, subscription) = world_with_parked(1);
    let due_at = world.url(&subscription).health.next_probe_at.unwrap();
    world.pass((due_at - Duration::from_millis(1)).since(world.clock.now()));
    send_probe_ticket(&world, &subscription);
    world.handle(QueueName::Retry);
    assert_eq!(world.receiver.requests(), []);
    world.pass(Duration::from_millis(1));
    send_probe_ticket(&world, &subscription);
    world.handle(QueueName::Retry);
    assert_eq!(world.receiver.requests().len(), 1);
}

#[test]
fn the_probe_is_the_delivery_that_was_due_earliest() {
    let (world, subscription) = world_with_parked(1);
    pass_until_the_probe_is_due(&world, &subscription);
    send_probe_ticket(&world, &subscription);
    world.handle(QueueName::Retry);
    let probed: Vec<_> = world.receiver.requests().into_iter().map(|seen| seen.delivery).collect();
    assert_eq!(probed, [world.delivery("one", &subscription).id()]);
}

#[test]
fn a_probe_that_is_in_flight_is_not_joined_by_another() {
    for speed in [1, 10] {
        let (world, subscription) = world_with_parked(speed);
        pass_until_the_probe_is_due(&world, &subscription);
        send_probe_ticket(&world, &subscription);
        world.receiver.hold_next(URL);
        let probing = world.begin(QueueName::Retry);
        let leased_until = world.clock.now() + TEN_MINUTES + FUNCTION_TIMEOUT * speed;
        assert_eq!(world.url(&subscription).health.next_probe_at, Some(leased_until));
        world.pass(TEN_MINUTES + FUNCTION_TIMEOUT * speed - Duration::from_millis(10));
        send_probe_ticket(&world, &subscription);
        while world.queue.next_ready_at(QueueName::Retry).is_some_and(|at| at <= world.clock.now()) {
            world.handle(QueueName::Retry);
        }
        assert_eq!(world.receiver.requests().len(), 1, "at speed {speed}");
        drop(probing);
    }
}

#[test]
fn a_failed_probe_restarts_the_10_minutes_from_its_end_and_waits_for_its_retry() {
    let (mut world, subscription) = world_with_parked(1);
    pass_until_the_probe_is_due(&world, &subscription);
    send_probe_ticket(&world, &subscription);
    world.receiver.answer(URL, 500);
    world.receiver.hold_next(URL);
    let probing = world.begin(QueueName::Retry);
    let started_at = world.clock.now();
    world.pass(Duration::from_secs(4));
    world.receiver.release();
    assert_eq!(probing.finish(), [Settlement::Delete]);
    let health = world.url(&subscription).health;
    assert_eq!(
        (health.state, health.next_probe_at),
        (UrlState::Disabled, Some(world.clock.now() + TEN_MINUTES))
    );
    let record = world.record("one", &subscription).unwrap();
    let expected = (DeliveryState::Waiting, 1, started_at + Duration::from_millis(84_800));
    assert_eq!((record.progress.state, record.progress.next_attempt, record.progress.due_at), expected);
    world.run_for(2 * MINUTE);
    let record = world.record("one", &subscription).unwrap();
    assert_eq!(
        (record.progress.state, record.progress.next_attempt),
        (DeliveryState::Parked, 1),
        "parked again when due"
    );
    world.check();
}

#[test]
fn a_successful_probe_enables_the_url_and_releases_the_others() {
    let (mut world, subscription) = world_with_parked(1);
    world.run_for_with_a_sweep_each_minute(TEN_MINUTES + 2 * MINUTE);
    let url = world.url(&subscription);
    assert_eq!(url.health.state, UrlState::Enabled);
    let states: Vec<_> = world.deliveries().iter().map(|record| record.progress.state).collect();
    assert_eq!(states, [DeliveryState::Delivered; 2]);
    world.check();
}

#[test]
fn a_probe_makes_dead_what_has_expired_and_takes_the_next() {
    let (mut world, subscription) = world_with_parked(1);
    world.pass(52 * HOUR);
    world.post("three");
    world.handle(QueueName::First);
    world.queue.lose_all(QueueName::Retry);
    send_probe_ticket(&world, &subscription);
    world.handle(QueueName::Retry);
    for id in ["one", "two"] {
        assert_eq!(world.record(id, &subscription).unwrap().progress.reason, Some(Reason::Expired));
    }
    let probed: Vec<_> = world.receiver.requests().into_iter().map(|seen| seen.delivery).collect();
    assert_eq!(probed, [world.delivery("three", &subscription).id()]);
}

#[test]
fn a_delivery_parked_when_the_probe_is_due_is_the_probe() {
    let mut world = World::new(2, None);
    let subscription = world.subscribe(URL);
    world.change_url_state(&subscription, OperatorAction::Disable);
    world.run_for(HOUR);
    world.post("one");
    world.run_for(Duration::from_secs(1));
    assert_eq!(world.receiver.requests().len(), 1);
    assert_eq!(world.record("one", &subscription).unwrap().progress.state, DeliveryState::Delivered);
    world.check();
}
