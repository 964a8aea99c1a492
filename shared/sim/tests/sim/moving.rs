//! A subscription changes at any moment, and the host that acts on that may die at any await: nothing is lost, nothing stays behind.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::cell::RefCell;
use std::time::Duration;

use holdfast_core::engine::SubscriptionPatch;
use holdfast_core::ids::EventKey;
use holdfast_core::ports::{Clock, Store};
use holdfast_core::records::{Record, Subscription};
use holdfast_core::rules::delivery::{DeliveryState, Reason};
use holdfast_core::rules::health::OperatorAction;
use holdfast_core::time::Timestamp;
use holdfast_sim::crash::{Crash, World};
use holdfast_sim::{block_on, me};

const URL: &str = "http://shop.test/hook";
const NEW: &str = "http://new.test/hook";
const HOUR: Duration = Duration::from_secs(3600);
const THREE_DAYS: Duration = Duration::from_secs(3 * 86_400);

fn to_url(url: &str) -> SubscriptionPatch {
    SubscriptionPatch { url: Some(url.to_owned()), ..SubscriptionPatch::default() }
}

fn active(active: bool) -> SubscriptionPatch {
    SubscriptionPatch { active: Some(active), ..SubscriptionPatch::default() }
}

fn arrived(world: &World, url: &str) -> usize {
    world.receiver.requests().into_iter().filter(|seen| seen.url == url).count()
}

/// Runs the scenario with the host dying after 1, 2, 3 … polls, until it is over before the host dies.
fn at_every_await(scenario: impl Fn(&mut World)) {
    for after_polls in 1.. {
        let mut world = World::new(after_polls as u64, Some(Crash { after_polls }));
        scenario(&mut world);
        world.check();
        world.check_settled();
        if !world.has_crashed() {
            assert!(after_polls > 100, "only {after_polls} places to die");
            return;
        }
    }
}

/// One delivery waits, two are parked: their URL was frozen in between.
fn with_live_deliveries(world: &mut World) -> Subscription {
    let subscription = world.subscribe(URL);
    world.receiver.answer(URL, 500);
    world.post("waiting");
    while world.work() {}
    world.change_url_state(&subscription, OperatorAction::Freeze);
    world.post("parked");
    world.post("parked too");
    // Long enough for another host to take over, not for the retry to come due.
    world.run_for(Duration::from_secs(60));
    subscription
}

#[test]
fn live_deliveries_move_to_the_new_url() {
    at_every_await(|world| {
        let subscription = with_live_deliveries(world);
        world.change(&subscription.id, &to_url(NEW));
        let before = arrived(world, URL);
        world.run_for(THREE_DAYS);
        assert_eq!(arrived(world, URL), before, "nothing more at the old URL");
        for record in world.deliveries() {
            assert_eq!((record.progress.state, record.url.as_str()), (DeliveryState::Delivered, NEW));
        }
        let delivered: std::collections::BTreeSet<_> =
            world.receiver.requests().into_iter().filter(|s| s.url == NEW).map(|s| s.delivery).collect();
        assert_eq!(delivered.len(), 3);
    });
}

#[test]
fn live_deliveries_move_to_a_frozen_url_and_stay_parked_there() {
    at_every_await(|world| {
        let other = world.subscribe(NEW);
        world.change_url_state(&other, OperatorAction::Freeze);
        assert!(block_on(world.engine.delete_subscription(&world.tenant, &other.id, me())).unwrap());
        let subscription = with_live_deliveries(world);
        world.change(&subscription.id, &to_url(NEW));
        world.run_for(HOUR);
        for record in world.deliveries().into_iter().filter(|d| d.key.subscription_id == subscription.id) {
            assert_eq!((record.progress.state, record.url.as_str()), (DeliveryState::Parked, NEW));
        }
        world.change_url_state(&other, OperatorAction::Enable);
        world.run_for(THREE_DAYS);
        assert!(world.deliveries().iter().all(|record| record.progress.state == DeliveryState::Delivered));
    });
}

#[test]
fn live_deliveries_end_when_the_subscription_is_deactivated() {
    at_every_await(|world| {
        let subscription = with_live_deliveries(world);
        world.change(&subscription.id, &active(false));
        let before = arrived(world, URL);
        world.run_for(HOUR);
        assert_eq!(arrived(world, URL), before, "nothing more is attempted");
        assert!(world.deliveries().iter().all(|record| record.progress.reason == Some(Reason::Inactive)));
        world.change(&subscription.id, &active(true));
        world.change_url_state(&subscription, OperatorAction::Enable);
        world.receiver.answer(URL, 200);
        world.post("later");
        world.run_for(HOUR);
        let later = world.delivery("later", &subscription);
        let view = block_on(world.engine.view_delivery(&later)).unwrap().unwrap();
        assert_eq!(view.state, DeliveryState::Delivered);
    });
}

/// Ten thousand deliveries of the past, each under an event of its own.
fn with_a_history(world: &World, subscription: &Subscription) {
    let before = world.delivery("waiting", subscription);
    let stored = world.deliveries().into_iter().find(|record| record.key == before).unwrap();
    let history = (0..10_000).map(|n| {
        let mut record = stored.clone();
        record.key.event_key = EventKey::of(&format!("event {n}"), record.accepted_at);
        record.progress.succeed(record.accepted_at, THREE_DAYS);
        Record::Delivery(record)
    });
    assert!(block_on(world.store.put_each(history.collect())).unwrap().is_empty());
}

#[test]
fn a_change_reads_what_is_alive_and_not_the_history() {
    for patch in [to_url(NEW), active(false)] {
        let mut world = World::new(1, None);
        let subscription = with_live_deliveries(&mut world);
        with_a_history(&world, &subscription);
        let before = world.scripted.listed();
        world.change(&subscription.id, &patch);
        world.run_for(Duration::from_secs(10));
        assert_eq!(world.scripted.listed() - before, 3, "three are alive");
    }
}

/// Every request went where the subscription was. At the very moment of a change it may go to either place.
fn check_places(world: &World, places: &[(Timestamp, String)]) {
    for seen in world.receiver.requests() {
        let from = places.partition_point(|(at, _)| *at < seen.at) - 1;
        let allowed = places[from..].iter().take_while(|(at, _)| *at <= seen.at);
        assert!(allowed.map(|(_, url)| url).any(|url| *url == seen.url), "{seen:?} {places:?}");
    }
}

/// Many hosts that die now and then, and a person who moves the subscription to and fro, switches it off and on, and freezes,
/// disables and enables its URLs.
fn side_by_side(seed: u64, deaths: bool) {
    let mut world = World::new(seed, None);
    world.let_hosts_die(deaths);
    let subscription = world.subscribe(URL);
    // So that the other URL is there to be changed.
    let other = world.subscribe(NEW);
    assert!(block_on(world.engine.delete_subscription(&world.tenant, &other.id, me())).unwrap());
    world.receiver.fail_next(URL, 9);
    world.receiver.fail_next(NEW, 5);
    for n in 0..12 {
        world.post(&format!("event {n}"));
    }
    let places = RefCell::new(vec![(Timestamp::ZERO, URL.to_owned())]);
    let changed = |world: &World, patch: SubscriptionPatch| {
        let changed =
            block_on(world.engine.update_subscription(&world.tenant, &subscription.id, patch, me()));
        places.borrow_mut().push((world.clock.now(), changed.unwrap().url));
    };
    let change_state = |world: &World, url_id, action| {
        // A frozen URL cannot be disabled; everything else is allowed at any time.
        let _ = block_on(world.engine.change_url_state(&world.tenant, url_id, action, None, false, me()));
    };
    let until = world.clock.now() + HOUR * 6;
    world.run_side_by_side(until, |world, dice| {
        let url_id = if dice & (1 << 40) == 0 { &subscription.url_id } else { &other.url_id };
        match dice % 40 {
            0..4 => changed(world, to_url(if dice & (1 << 41) == 0 { URL } else { NEW })),
            4 => changed(world, active(false)),
            5 | 6 => changed(world, active(true)),
            7 => change_state(world, url_id, OperatorAction::Disable),
            8 => change_state(world, url_id, OperatorAction::Freeze),
            9 | 10 => change_state(world, url_id, OperatorAction::Enable),
            _ => return,
        }
        if dice & (1 << 42) == 0 {
            world.work_meanwhile();
        }
    });
    changed(&world, active(true));
    // Nothing is released where the subscription is not: what stayed behind would stay.
    let is_at = block_on(world.engine.get_subscription(&world.tenant, &subscription.id)).unwrap().unwrap();
    for url_id in [&subscription.url_id, &other.url_id] {
        change_state(
            &world,
            url_id,
            if is_at.url_id == *url_id { OperatorAction::Enable } else { OperatorAction::Freeze },
        );
    }
    let until = world.clock.now() + THREE_DAYS;
    world.run_side_by_side(until, |_, _| {});
    world.check();
    world.check_settled();
    check_places(&world, &places.into_inner());
    if !deaths {
        world.check_nothing_repeated();
    }
    for record in world.deliveries() {
        let ended = record.progress.state == DeliveryState::Delivered
            || record.progress.reason == Some(Reason::Inactive);
        assert!(
            ended,
            "seed {seed}: {} is {:?} {:?}",
            record.key.id(),
            record.progress.state,
            record.progress.reason
        );
    }
}

#[test]
fn changes_side_by_side_lose_nothing() {
    for seed in 0..60 {
        side_by_side(seed, false);
    }
}

#[test]
fn changes_beside_hosts_that_die_lose_nothing() {
    for seed in 1_000..1_060 {
        side_by_side(seed, true);
    }
}

/// From outside, whole: what a person asks for while the hosts stand somewhere.
fn change_at_once(world: &World, subscription: &Subscription, patch: SubscriptionPatch) {
    block_on(world.engine.update_subscription(&world.tenant, &subscription.id, patch, me())).unwrap();
}

#[test]
fn what_is_parked_by_a_host_that_saw_the_old_url_is_found_by_the_second_pass() {
    for seed in 0..100 {
        let mut world = World::new(seed, None);
        let subscription = world.subscribe(URL);
        world.change_url_state(&subscription, OperatorAction::Freeze);
        world.post("one");
        world.work_side_by_side(|world| {
            change_at_once(world, &subscription, to_url(NEW));
            // The first pass is over before the host that is about to park goes on.
            world.work_meanwhile();
        });
        world.run_for(HOUR);
        assert_eq!(arrived(&world, NEW), 1, "seed {seed}");
        world.check();
        world.check_settled();
    }
}

#[test]
fn a_change_while_the_job_ends_starts_it_again() {
    for seed in 0..100 {
        let mut world = World::new(seed, None);
        let subscription = world.subscribe(URL);
        world.change_url_state(&subscription, OperatorAction::Freeze);
        world.post("one");
        while world.work() {}
        let frozen_too = world.subscribe("http://other.test/hook");
        world.change_url_state(&frozen_too, OperatorAction::Freeze);
        assert!(block_on(world.engine.delete_subscription(&world.tenant, &frozen_too.id, me())).unwrap());
        world.run_for(HOUR);
        change_at_once(&world, &subscription, to_url("http://other.test/hook"));
        while world.work() {}
        // Now the second pass is due, and a host is in the middle of it.
        world.clock.advance(Duration::from_secs(66));
        world.work_side_by_side(|world| change_at_once(world, &subscription, to_url(NEW)));
        world.run_for(HOUR);
        assert_eq!(arrived(&world, NEW), 1, "seed {seed}");
        world.check();
        world.check_settled();
    }
}
