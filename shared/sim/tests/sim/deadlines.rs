//! A function has so much time for a batch, and no more. What could not end in it is not begun, and goes back untouched.
#![allow(clippy::unwrap_used, reason = "in a test, what fails panics")]

use std::time::Duration;

use holdfast_core::engine::Counters;
use holdfast_core::ports::{Clock, QueueName, Settlement};
use holdfast_core::rules::delivery::DeliveryState;
use holdfast_sim::block_on;
use holdfast_sim::crash::World;

use super::one_attempt;

const URL: &str = "http://shop.test/hook";
const HOUR: Duration = Duration::from_secs(3600);

/// Hands one batch to the engine, which has so much time for it. What is done is deleted.
fn handle_within(world: &World, queue: QueueName, time: Duration) -> Vec<Settlement> {
    world.handle_until(queue, world.clock.now_real() + time)
}

/// For an attempt, and for writing down what came of it.
fn needed(world: &World) -> Duration {
    world.engine.settings().http_timeout + world.engine.settings().time_to_record()
}

#[test]
fn a_first_attempt_is_not_begun_when_it_could_not_end() {
    let mut world = World::new(1, None);
    world.subscribe(URL);
    world.post("one");
    let too_short = needed(&world) - Duration::from_millis(1);
    assert!(matches!(handle_within(&world, QueueName::First, too_short)[..], [Settlement::RetryAfter(_)]));
    assert_eq!(world.receiver.requests(), []);
    world.clock.advance(HOUR);
    assert_eq!(handle_within(&world, QueueName::First, needed(&world)), [Settlement::Delete]);
    assert_eq!(world.receiver.requests().len(), 1);
    world.check();
}

#[test]
fn a_retry_that_cannot_end_in_time_is_not_claimed() {
    let mut world = World::new(2, None);
    let subscription = world.subscribe(URL);
    world.receiver.answer(URL, 500);
    world.post("one");
    while world.work() {}
    world.clock.advance(Duration::from_secs(85));
    let settlements = handle_within(&world, QueueName::Retry, Duration::from_millis(1));
    assert!(matches!(settlements[..], [Settlement::RetryAfter(_)]), "{settlements:?}");
    let view = block_on(world.engine.view_delivery(&world.delivery("one", &subscription))).unwrap().unwrap();
    assert_eq!((view.state, view.attempts.len()), (DeliveryState::Waiting, 1));
    world.receiver.answer(URL, 200);
    world.run_for(HOUR);
    let view = block_on(world.engine.view_delivery(&world.delivery("one", &subscription))).unwrap().unwrap();
    assert_eq!((view.state, view.attempts.len()), (DeliveryState::Delivered, 2));
    world.check();
}

#[test]
fn a_fan_out_without_time_left_goes_on_with_its_ticket() {
    let mut world = World::new(3, None);
    for n in 0..130 {
        world.subscribe(&format!("http://many.test/{n}"));
    }
    world.post("big");
    assert_eq!(handle_within(&world, QueueName::First, Duration::ZERO), [Settlement::Delete]);
    assert_eq!((world.queue.len(QueueName::First), world.queue.len(QueueName::Retry)), (0, 1));
    world.run_for(HOUR);
    assert_eq!(world.receiver.requests().len(), 130);
    world.check();
}

#[test]
fn what_was_done_is_tallied_once() {
    let mut world = World::new(4, None);
    world.subscribe(URL);
    world.post("one");
    handle_within(&world, QueueName::First, HOUR);
    assert_eq!(world.engine.take_counters(), Counters { attempts_succeeded: 1, ..one_attempt() });
    world.receiver.answer(URL, 500);
    world.post("two");
    handle_within(&world, QueueName::First, HOUR);
    assert_eq!(world.engine.take_counters(), Counters { attempts_failed: 1, ..one_attempt() });
    assert_eq!(world.engine.take_counters(), Counters::default());
}
