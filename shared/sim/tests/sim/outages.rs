//! When our own network is down, no URL is to blame.

use std::time::Duration;

use holdfast_core::engine::{Counters, NewSubscription};
use holdfast_core::ids::Tenant;
use holdfast_core::ports::{AttemptResponse, FailureKind, QueueName, Settlement};
use holdfast_core::records::Subscription;
use holdfast_core::rules::delivery::DeliveryState;
use holdfast_core::rules::shortage::Shortage;
use holdfast_sim::crash::World;
use holdfast_sim::{block_on, me};

use super::event;

const HOSTS: [&str; 5] =
    ["http://one.test/", "http://two.test/", "http://three.test/", "http://four.test/", "http://five.test/"];

fn silent() -> AttemptResponse {
    let detail = "no response within 5s".to_owned();
    AttemptResponse::Failed { kind: FailureKind::Timeout, detail, is_silent: true }
}

/// Three hosts of the world's own tenant and two of this one, each with an event on the queue. Nobody answers.
fn five_silent_hosts(second: &str) -> (World, Vec<Subscription>) {
    let world = World::new(1, None);
    let owners = [world.tenant.clone(), Tenant::from(second)];
    let subscriptions = HOSTS.iter().enumerate().map(|(at, url)| {
        world.receiver.answer_with(url, silent());
        let new = NewSubscription::to(url, "*");
        block_on(world.engine.subscribe(&owners[at / 3], new, me())).unwrap()
    });
    let subscriptions = subscriptions.collect();
    for owner in &owners {
        block_on(world.engine.accept(owner, vec![event("one", "1")])).unwrap();
    }
    (world, subscriptions)
}

fn counted_attempts(world: &World, subscriptions: &[Subscription]) -> u64 {
    subscriptions.iter().map(|subscription| world.url(subscription).health.window_attempts).sum()
}

#[test]
fn an_attempt_in_an_outage_is_made_again_three_times_and_never_counts_on_its_url() {
    let (world, subscriptions) = five_silent_hosts("other");
    assert_eq!(world.engine.take_counters(), Counters { events_accepted: 2, ..Counters::default() });
    for _ in 0..3 {
        let settlements = world.handle(QueueName::First);
        let [Settlement::RetryAfter(wait), ..] = settlements[..] else { panic!("{settlements:?}") };
        assert_eq!(settlements, vec![Settlement::RetryAfter(wait); 5]);
        let mut expected = Counters::default();
        expected.not_attempted[Shortage::Network as usize] = 5;
        assert_eq!(world.engine.take_counters(), expected);
        world.pass(wait);
    }
    assert_eq!(world.handle(QueueName::First), vec![Settlement::Delete; 5]);
    assert_eq!(world.engine.take_counters().attempts_failed, 5);
    assert_eq!(counted_attempts(&world, &subscriptions), 0);
    let record = world.record("one", &subscriptions[0]).unwrap().progress;
    assert_eq!((record.state, record.next_attempt, record.spared), (DeliveryState::Waiting, 1, 0));
    for url in HOSTS {
        world.receiver.answer(url, 200);
    }
    world.pass(Duration::from_secs(85));
    assert_eq!(world.handle(QueueName::Retry), vec![Settlement::Delete; 5]);
    assert_eq!(counted_attempts(&world, &subscriptions), 5);
    assert_eq!(world.record("one", &subscriptions[0]).unwrap().progress.state, DeliveryState::Delivered);
}

#[test]
fn hosts_that_failed_before_say_nothing_about_our_network() {
    let (world, subscriptions) = five_silent_hosts("other");
    for url in HOSTS {
        world.receiver.answer(url, 500);
    }
    assert_eq!(world.handle(QueueName::First), vec![Settlement::Delete; 5]);
    for url in HOSTS {
        world.receiver.answer_with(url, silent());
    }
    world.pass(Duration::from_secs(85));
    assert_eq!(world.handle(QueueName::Retry), vec![Settlement::Delete; 5]);
    assert_eq!(counted_attempts(&world, &subscriptions), 10);
}

#[test]
fn silent_hosts_of_one_tenant_count() {
    let (world, subscriptions) = five_silent_hosts("default");
    assert_eq!(world.handle(QueueName::First), vec![Settlement::Delete; 5]);
    assert_eq!(counted_attempts(&world, &subscriptions), 5);
}

#[test]
fn silent_hosts_count_while_something_succeeds() {
    let (world, subscriptions) = five_silent_hosts("other");
    world.receiver.answer(HOSTS[4], 200);
    assert_eq!(world.handle(QueueName::First), vec![Settlement::Delete; 5]);
    assert_eq!(counted_attempts(&world, &subscriptions), 5);
}
