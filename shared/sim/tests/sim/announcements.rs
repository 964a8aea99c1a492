//! How often changes of a URL's state are announced, however often a program changes it.

use std::time::Duration;

use holdfast_core::engine::NewSubscription;
use holdfast_core::ports::QueueName;
use holdfast_core::records::{Message, Record, Subscription};
use holdfast_core::rules::health::{OperatorAction, UrlState};
use holdfast_core::rules::quota::QuotaPatch;
use holdfast_sim::crash::World;
use holdfast_sim::{block_on, me};

use super::{MINUTE, URL};

const OWN: &str = "http://own.test/hook";

/// A world with a URL, and another one that hears of its changes.
fn world() -> (World, Subscription) {
    let world = World::new(1, None);
    let subscription = world.subscribe(URL);
    let own = NewSubscription::to(OWN, "holdfast.url.*");
    block_on(world.engine.subscribe(&world.tenant, own, me())).unwrap();
    (world, subscription)
}

/// How many announcements were sent.
fn sent(world: &World) -> usize {
    world.receiver.requests().into_iter().filter(|request| request.url == OWN).count()
}

/// What the newest event of Holdfast says. Their ids are in the order of the changes.
fn last_announced(world: &World) -> Option<String> {
    let records = world.store.all().into_iter();
    let events = records.filter_map(|record| match record {
        Record::Event(event) if event.event_type.starts_with("holdfast.url.") => Some(event),
        _ => None,
    });
    events.max_by(|one, other| one.id.cmp(&other.id)).map(|event| event.event_type)
}

fn flip(world: &World, subscription: &Subscription, times: usize) {
    for _ in 0..times {
        world.change_url_state(subscription, OperatorAction::Freeze);
        world.change_url_state(subscription, OperatorAction::Enable);
    }
}

#[test]
fn the_first_changes_are_announced_at_once() {
    let (mut world, subscription) = world();
    for count in 1..=5 {
        flip(&world, &subscription, 1);
        while world.work() {}
        assert_eq!(sent(&world), count * 2);
    }
}

#[test]
fn a_url_that_is_changed_in_a_loop_is_announced_ten_times_a_minute() {
    let (mut world, subscription) = world();
    for second in 0..120 {
        flip(&world, &subscription, 5);
        world.run_for_with_a_sweep_each_minute(Duration::from_secs(1));
        let most = 10 + second / 6;
        assert!(sent(&world) <= most, "{} in {second} s", sent(&world));
    }
    assert!(sent(&world) > 20, "{}", sent(&world));
    world.change_url_state(&subscription, OperatorAction::Freeze);
    world.run_for_with_a_sweep_each_minute(2 * MINUTE);
    assert_eq!(last_announced(&world).as_deref(), Some("holdfast.url.frozen"), "the last state is announced");
    assert!(world.urls().values().all(|url| url.announcement.is_none()));
    assert_eq!(world.urls()[subscription.url_id.as_str()].health.state, UrlState::Frozen);
    let view = block_on(world.engine.view_url(&world.tenant, &subscription.url_id)).unwrap().unwrap();
    assert!(view.details.unwrap().history.len() > 20, "the history has them all");
}

#[test]
fn changes_that_wait_to_be_announced_have_one_ticket() {
    let (world, subscription) = world();
    flip(&world, &subscription, 50);
    let tickets = world.queue.messages(QueueName::Retry);
    let announce = tickets.iter().filter(|(message, _)| matches!(message, Message::Announce { .. })).count();
    assert_eq!(announce, 1);
}

#[test]
fn announcements_count_towards_the_rate_of_their_tenant_and_none_is_lost() {
    let (mut world, _) = world();
    let quota = QuotaPatch { events_per_second: Some(Some(2)), ..QuotaPatch::default() };
    block_on(world.engine.set_quotas(&world.tenant, quota, me())).unwrap();
    for n in 0..10 {
        let subscription = world.subscribe(&format!("http://shop.test/{n}"));
        world.change_url_state(&subscription, OperatorAction::Freeze);
    }
    while world.work() {}
    assert_eq!(sent(&world), 4, "one second's worth, and the same in debt");
    for _ in 0..5 {
        world.run_for(6 * MINUTE);
    }
    assert_eq!(sent(&world), 10);
}
