//! A disabled URL is probed with one real delivery, once in 10 minutes.

use std::future::Future;
use std::task::{Context, Waker};
use std::time::Duration;

use holdfast_core::engine::SubscriptionPatch;
use holdfast_core::ports::{Clock, QueueName, Settlement};
use holdfast_core::records::Message;
use holdfast_core::records::Subscription;
use holdfast_core::rules::delivery::{DeliveryState, Reason};
use holdfast_core::rules::health::{OperatorAction, UrlState};
use holdfast_sim::crash::World;
use holdfast_sim::{StoreCall, block_on, me};

use super::{HOUR, MINUTE, NEW, URL};

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

/// Every ticket is lost. Returns how many of them were for probes.
fn lose_probe_tickets(world: &World) -> usize {
    let messages = world.queue.messages(QueueName::Retry);
    world.queue.lose_all(QueueName::Retry);
    messages.iter().filter(|(message, _)| matches!(message, Message::Probe { .. })).count()
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
fn a_delivery_whose_subscription_moves_meanwhile_is_not_the_probe() {
    let (world, subscription) = world_with_parked(1);
    let frozen = world.subscribe(NEW);
    world.change_url_state(&frozen, OperatorAction::Freeze);
    assert!(block_on(world.engine.delete_subscription(&world.tenant, &frozen.id, me())).unwrap());
    pass_until_the_probe_is_due(&world, &subscription);
    world.queue.lose_all(QueueName::Retry);
    send_probe_ticket(&world, &subscription);
    world.scripted.hold_next(StoreCall::GetBodies);
    let probing = world.begin(QueueName::Retry);
    let patch = SubscriptionPatch { url: Some(NEW.to_owned()), ..SubscriptionPatch::default() };
    block_on(world.engine.update_subscription(&world.tenant, &subscription.id, patch, me())).unwrap();
    world.scripted.release();
    assert_eq!(probing.finish(), [Settlement::Delete]);
    assert_eq!(world.receiver.requests(), []);
    assert_eq!(world.record("one", &subscription).unwrap().url, NEW);
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

/// The hint that parking sends is lost, and the sweep has looked at the quiet URL in vain for days.
#[test]
fn the_first_delivery_after_days_of_quiet_does_not_depend_on_a_hint() {
    let mut world = World::new(3, None);
    let subscription = world.subscribe(URL);
    world.change_url_state(&subscription, OperatorAction::Disable);
    world.run_for_with_a_sweep_each_minute(88 * HOUR);
    world.post("one");
    world.handle(QueueName::First);
    assert_eq!(lose_probe_tickets(&world), 1);
    world.run_for_with_a_sweep_each_minute(7 * MINUTE);
    assert_eq!(world.receiver.requests().len(), 1);
    assert_eq!(world.record("one", &subscription).unwrap().progress.state, DeliveryState::Delivered);
    world.check();
}

#[test]
fn a_probe_ticket_that_comes_early_is_sent_on() {
    let (world, subscription) = world_with_parked(1);
    let due_at = world.url(&subscription).health.next_probe_at.unwrap();
    world.pass((due_at - Duration::from_millis(1_500)).since(world.clock.now()));
    send_probe_ticket(&world, &subscription);
    world.handle(QueueName::Retry);
    assert_eq!(world.receiver.requests(), []);
    world.pass(Duration::from_secs(2));
    world.handle(QueueName::Retry);
    assert_eq!(world.receiver.requests().len(), 1);
}

#[test]
fn tickets_that_lost_to_a_probe_end() {
    let (world, subscription) = world_with_parked(1);
    world.receiver.answer(URL, 500);
    pass_until_the_probe_is_due(&world, &subscription);
    for _ in 0..5 {
        send_probe_ticket(&world, &subscription);
    }
    world.handle(QueueName::Retry);
    assert_eq!(world.receiver.requests().len(), 1);
    assert_eq!(world.queue.len(QueueName::Retry), 1, "the retry of the delivery that was the probe");
}

#[test]
fn the_sweep_looks_every_5_minutes_while_something_is_due_at_a_disabled_url() {
    let (mut world, subscription) = world_with_parked(1);
    // Every ticket is lost for a day, as in an outage of the queue.
    let end = world.clock.now() + 24 * HOUR;
    let mut looks = 0;
    while world.clock.now() < end {
        world.sweep();
        looks += lose_probe_tickets(&world);
        world.pass(MINUTE);
    }
    assert!((280..=290).contains(&looks), "{looks} tickets in a day");
    world.run_for_with_a_sweep_each_minute(7 * MINUTE);
    assert_eq!(world.url(&subscription).health.state, UrlState::Enabled);
}

#[test]
fn the_sweep_looks_rarely_at_a_disabled_url_with_nothing_due() {
    let mut world = World::new(4, None);
    let subscription = world.subscribe(URL);
    world.change_url_state(&subscription, OperatorAction::Disable);
    world.queue.lose_all(QueueName::Retry);
    let end = world.clock.now() + 24 * HOUR;
    let mut looks = 0;
    while world.clock.now() < end {
        world.sweep();
        looks += lose_probe_tickets(&world);
        world.pass(MINUTE);
    }
    assert_eq!(looks, 9, "after 10 minutes, then 5, 10, 20, … minutes later");
}

/// The sweep finds nothing due, and a delivery is parked before it has written that it looks again in hours.
#[test]
fn what_is_parked_while_the_sweep_looks_is_not_overlooked() {
    let mut world = World::new(5, None);
    let subscription = world.subscribe(URL);
    world.change_url_state(&subscription, OperatorAction::Disable);
    world.run_for_with_a_sweep_each_minute(88 * HOUR);
    let look_at = world.url(&subscription).look_at.unwrap();
    world.pass(look_at.since(world.clock.now()));
    world.post("one");
    world.scripted.hold_next(StoreCall::Query);
    let mut sweeping = Box::pin(world.engine.sweep());
    let mut context = Context::from_waker(Waker::noop());
    assert!(sweeping.as_mut().poll(&mut context).is_pending(), "the query holds the sweep");
    world.handle(QueueName::First);
    world.scripted.release();
    block_on(sweeping).unwrap();
    world.queue.lose_all(QueueName::Retry);
    let url = world.url(&subscription);
    assert!(url.look_at.is_some_and(|look_at| look_at <= world.clock.now() + 5 * MINUTE), "{url:?}");
    world.run_for_with_a_sweep_each_minute(7 * MINUTE);
    assert_eq!(world.receiver.requests().len(), 1);
}

#[test]
fn a_message_whose_url_could_not_be_looked_at_after_parking_comes_again() {
    let mut world = World::new(6, None);
    let subscription = world.subscribe(URL);
    world.change_url_state(&subscription, OperatorAction::Disable);
    world.run_for_with_a_sweep_each_minute(88 * HOUR);
    world.post("one");
    // The first read is of the context, the second one looks at the URL again.
    world.scripted.fail_after(StoreCall::Get, 1);
    assert!(matches!(world.handle(QueueName::First)[..], [Settlement::RetryAfter(_)]));
    assert_eq!(world.record("one", &subscription).unwrap().progress.state, DeliveryState::Parked);
    world.run_for_with_a_sweep_each_minute(7 * MINUTE);
    assert_eq!(world.receiver.requests().len(), 1);
    world.check();
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
