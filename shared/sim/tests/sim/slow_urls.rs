//! First attempts for URLs whose recent answers are slow have a queue of their own, on hosts that have one.

use std::time::Duration;

use holdfast_core::ports::{QueueName, Settlement};
use holdfast_core::records::{FirstAttempt, Message, Subscription};
use holdfast_core::rules::delivery::DeliveryState;
use holdfast_sim::crash::World;

use super::{REDELIVERED, URL};

const TIMEOUT: Duration = Duration::from_secs(5);
const FAST: Duration = Duration::from_millis(20);

/// The host of the first-attempt queue, with a URL that answered slowly twice.
fn world_with_a_slow_url(seed: u64, slow_queue: bool) -> (World, Subscription) {
    let mut world = World::with_settings(seed, |settings| settings.slow_queue = slow_queue);
    let subscription = world.subscribe(URL);
    world.receiver.answer_after(URL, TIMEOUT);
    for id in ["one", "two"] {
        world.post(id);
        world.handle(QueueName::First);
    }
    (world, subscription)
}

fn slow_messages(world: &World) -> Vec<FirstAttempt> {
    let messages = world.queue.messages(QueueName::Slow).into_iter();
    messages
        .map(|(message, _)| match message {
            Message::FirstAttempt(first) => first,
            other => panic!("{other:?} is no first attempt"),
        })
        .collect()
}

#[test]
fn first_attempts_for_a_slow_url_are_sent_on() {
    let (mut world, subscription) = world_with_a_slow_url(1, true);
    assert!(world.url(&subscription).recent_ms > 1_000);
    assert_eq!(world.receiver.requests().len(), 2, "until it is known to be slow");
    world.post("three");
    let waiting = world.queue.messages(QueueName::First);
    assert_eq!(world.handle(QueueName::First), [Settlement::Delete]);
    assert_eq!(world.receiver.requests().len(), 2);
    assert_eq!(world.queue.messages(QueueName::Slow)[0].0, waiting[0].0, "it is sent on as it was");
    assert_eq!(world.engine.take_counters().sent_to_slow_queue, 1);
}

#[test]
fn the_host_of_slow_urls_attempts_them() {
    let (mut world, subscription) = world_with_a_slow_url(2, false);
    world.post("three");
    world.handle(QueueName::First);
    assert_eq!(world.receiver.requests().len(), 3);
    assert!(world.queue.is_empty(QueueName::Slow));
    // Fast answers make it fast again.
    world.receiver.answer_after(URL, FAST);
    for n in 0..12 {
        world.post(&format!("fast {n}"));
        world.handle(QueueName::First);
    }
    assert!(world.url(&subscription).recent_ms < 1_000, "{} ms", world.url(&subscription).recent_ms);
    world.check();
}

#[test]
fn a_message_that_may_have_been_attempted_says_so_when_it_is_sent_on() {
    let (mut world, _) = world_with_a_slow_url(3, true);
    world.post("three");
    // A host took it and died.
    let received = holdfast_core::ports::Inbox::receive(&*world.queue, QueueName::First, 1);
    assert_eq!(holdfast_sim::block_on(received).unwrap().len(), 1);
    world.pass(REDELIVERED);
    assert_eq!(world.handle(QueueName::First), [Settlement::Delete]);
    let sent_on = slow_messages(&world);
    assert!(sent_on[0].again && sent_on[0].body.is_some());
}

#[test]
fn a_message_that_cannot_be_sent_on_is_given_back() {
    let (mut world, subscription) = world_with_a_slow_url(4, true);
    world.post("three");
    world.queue.refuse_next(QueueName::Slow);
    let settled = world.handle(QueueName::First);
    assert!(matches!(settled[..], [Settlement::RetryAfter(_)]), "{settled:?}");
    assert_eq!((world.queue.len(QueueName::First), world.queue.len(QueueName::Slow)), (1, 0));
    assert!(world.record("three", &subscription).is_none());
}

#[test]
fn a_slow_url_that_is_disabled_parks_as_any_other() {
    let (mut world, subscription) = world_with_a_slow_url(5, true);
    world.change_url_state(&subscription, holdfast_core::rules::health::OperatorAction::Freeze);
    world.post("three");
    world.handle(QueueName::First);
    let record = world.record("three", &subscription).unwrap();
    assert_eq!(record.progress.state, DeliveryState::Parked);
    assert!(world.queue.is_empty(QueueName::Slow));
}
