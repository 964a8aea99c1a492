//! The host dies at every await in turn; the promises hold all the same.

use std::time::Duration;

use holdfast_core::engine::ReplayUrlError;
use holdfast_core::ports::{Clock, Delay, Outgoing, Queue, QueueName};
use holdfast_core::records::Message;
use holdfast_core::records::UrlReplay;
use holdfast_core::rules::delivery::{DeliveryState, Reason};
use holdfast_core::rules::health::{OperatorAction, UrlState};
use holdfast_sim::crash::{Crash, World};
use holdfast_sim::{block_on, me};

const URL: &str = "http://shop.test/hook";
const OTHER: &str = "http://other.test/hook";
const HOUR: Duration = Duration::from_secs(3600);
const THREE_DAYS: Duration = Duration::from_secs(3 * 86_400);

/// Runs the scenario with the host dying after 1, 2, 3 … polls, until it is over before the host dies.
fn at_every_await(scenario: impl Fn(&mut World)) {
    let mut runs = 0;
    for after_polls in 1.. {
        let mut world = World::new(after_polls as u64, Some(Crash { after_polls }));
        scenario(&mut world);
        world.check();
        runs += 1;
        if !world.has_crashed() {
            break;
        }
    }
    // A scenario without awaits would prove nothing.
    assert!(runs > 20, "only {runs} places to die");
}

fn all_are(world: &World, state: DeliveryState) {
    for record in world.deliveries() {
        assert_eq!(record.progress.state, state, "{} {:?}", record.key.id(), record.progress.reason);
    }
}

fn received(world: &World, url: &str) -> usize {
    let seen = world.receiver.requests().into_iter().filter(|s| s.url == url && s.status == 200);
    seen.map(|s| s.delivery).collect::<std::collections::BTreeSet<_>>().len()
}

#[test]
fn events_that_fail_a_few_times_are_delivered() {
    at_every_await(|world| {
        world.subscribe(URL);
        world.subscribe(OTHER);
        world.receiver.fail_next(URL, 5);
        world.post("one");
        world.post("two");
        world.run_for(THREE_DAYS);
        all_are(world, DeliveryState::Delivered);
        assert_eq!((received(world, URL), received(world, OTHER)), (2, 2));
    });
}

#[test]
fn an_event_that_always_fails_is_exhausted_and_can_be_replayed() {
    at_every_await(|world| {
        let subscription = world.subscribe(URL);
        world.receiver.answer(URL, 500);
        world.post("one");
        world.run_for(THREE_DAYS);
        let delivery = world.delivery("one", &subscription);
        assert_eq!(world.deliveries()[0].progress.reason, Some(Reason::Exhausted));
        world.receiver.answer(URL, 200);
        block_on(world.engine.replay(&delivery, me())).unwrap();
        world.run_for(HOUR);
        all_are(world, DeliveryState::Delivered);
    });
}

#[test]
fn a_disabled_url_is_probed_and_released() {
    at_every_await(|world| {
        let subscription = world.subscribe(URL);
        world.change_url_state(&subscription, OperatorAction::Disable);
        world.receiver.fail_next(URL, 2);
        for id in ["one", "two", "three", "four", "five"] {
            world.post(id);
        }
        world.run_for(HOUR * 4);
        assert_eq!(world.urls()[subscription.url_id.as_str()].health.state, UrlState::Enabled);
        world.run_for(THREE_DAYS);
        all_are(world, DeliveryState::Delivered);
        assert_eq!(received(world, URL), 5);
    });
}

#[test]
fn a_frozen_url_is_left_alone_until_a_person_enables_it() {
    at_every_await(|world| {
        let subscription = world.subscribe(URL);
        world.change_url_state(&subscription, OperatorAction::Freeze);
        for id in ["one", "two", "three"] {
            world.post(id);
        }
        world.run_for(HOUR * 24);
        assert_eq!(world.receiver.requests(), []);
        all_are(world, DeliveryState::Parked);
        world.change_url_state(&subscription, OperatorAction::Enable);
        world.run_for(HOUR);
        all_are(world, DeliveryState::Delivered);
        assert_eq!(received(world, URL), 3);
    });
}

#[test]
fn what_stays_parked_expires_and_what_is_unsubscribed_ends() {
    at_every_await(|world| {
        let kept = world.subscribe(URL);
        let dropped = world.subscribe(OTHER);
        for subscription in [&kept, &dropped] {
            world.change_url_state(subscription, OperatorAction::Freeze);
        }
        world.post("one");
        world.run_for(HOUR);
        assert!(block_on(world.engine.delete_subscription(&world.tenant, &dropped.id, me())).unwrap());
        world.run_for(THREE_DAYS);
        let reason = |id| {
            world.deliveries().into_iter().find(|d| d.key.subscription_id == id).unwrap().progress.reason
        };
        assert_eq!(reason(kept.id), Some(Reason::Expired));
        assert_eq!(reason(dropped.id), Some(Reason::Unsubscribed));
        assert_eq!(world.receiver.requests(), []);
    });
}

#[test]
fn one_event_fans_out_to_many_subscriptions() {
    // Every await of a fan-out of 230 is too many: every 37th.
    for after_polls in (1..).step_by(37) {
        let mut world = World::new(after_polls as u64, Some(Crash { after_polls }));
        for n in 0..230 {
            world.subscribe(&format!("http://many.test/{n}"));
        }
        world.post("big");
        world.run_for(HOUR);
        world.check();
        let urls: std::collections::BTreeSet<_> =
            world.receiver.requests().into_iter().map(|s| s.url).collect();
        assert_eq!(urls.len(), 230);
        if !world.has_crashed() {
            break;
        }
    }
}

/// Many hosts, duplicated tickets, and a person who disables, freezes, enables and replays at any moment.
fn side_by_side(seed: u64, deaths: bool) {
    let mut world = World::new(seed, None);
    world.let_hosts_die(deaths);
    let subscription = world.subscribe(URL);
    world.subscribe(OTHER);
    world.receiver.fail_next(URL, 12);
    world.receiver.fail_next(OTHER, 3);
    for n in 0..12 {
        world.post(&format!("event {n}"));
    }
    let changed = |world: &World, action| {
        block_on(world.engine.change_url_state(
            &world.tenant,
            &subscription.url_id,
            action,
            None,
            false,
            me(),
        ))
    };
    let wanted = UrlReplay {
        url_id: subscription.url_id.clone(),
        since: None,
        until: None,
        states: vec![DeliveryState::Dead, DeliveryState::Delivered],
        expired_since: None,
    };
    let until = world.clock.now() + HOUR * 6;
    world.run_side_by_side(until, |world, dice| {
        let refused = match dice % 40 {
            0 => changed(world, OperatorAction::Disable).is_err(),
            1 => changed(world, OperatorAction::Freeze).is_err(),
            2 | 3 => changed(world, OperatorAction::Enable).is_err(),
            4 => {
                let replayed = block_on(world.engine.replay_url(&world.tenant, wanted.clone(), me()));
                !matches!(replayed, Ok(_) | Err(ReplayUrlError::Running(_)))
            }
            _ => false,
        };
        // A frozen URL cannot be disabled; everything else is allowed at any time.
        assert!(!refused || dice % 40 == 0);
    });
    changed(&world, OperatorAction::Enable).expect("an enable is always allowed");
    let until = world.clock.now() + THREE_DAYS;
    world.run_side_by_side(until, |_, _| {});
    world.check();
    if !deaths {
        world.check_nothing_repeated();
    }
    all_are(&world, DeliveryState::Delivered);
    assert_eq!((received(&world, URL), received(&world, OTHER)), (12, 12), "seed {seed}");
}

#[test]
fn hosts_side_by_side_keep_the_promises() {
    for seed in 0..60 {
        side_by_side(seed, false);
    }
}

#[test]
fn hosts_that_die_side_by_side_keep_the_promises() {
    for seed in 1_000..1_060 {
        side_by_side(seed, true);
    }
}

#[test]
fn one_probe_over_all_hosts() {
    for seed in 0..50 {
        let mut world = World::new(seed, None);
        let subscription = world.subscribe(URL);
        world.receiver.answer(URL, 500);
        world.change_url_state(&subscription, OperatorAction::Disable);
        for n in 0..6 {
            world.post(&format!("event {n}"));
        }
        while world.work() {}
        for round in 1..=3 {
            world.clock.advance(Duration::from_secs(601));
            let message =
                Message::Probe { tenant: world.tenant.clone(), url_id: subscription.url_id.clone() };
            let tickets = vec![Outgoing { message, delay: Delay::NONE }; 5];
            block_on(world.queue.send(QueueName::Retry, tickets)).unwrap();
            while world.work_side_by_side(|_| {}) {}
            assert_eq!(world.receiver.requests().len(), round, "seed {seed}");
        }
        world.check();
    }
}

#[test]
fn every_change_of_state_is_told_once_to_who_asked_for_it() {
    at_every_await(|world| {
        let watched = world.subscribe(URL);
        world.subscribe_to(OTHER, "holdfast.url.*");
        // The probe of the one event enables the URL again.
        for action in [OperatorAction::Freeze, OperatorAction::Enable, OperatorAction::Disable] {
            world.change_url_state(&watched, action);
        }
        world.post("one");
        world.run_for(HOUR * 4);
        assert_eq!(world.urls()[watched.url_id.as_str()].health.state, UrlState::Enabled);
        assert!(world.urls().values().all(|url| url.announcement.is_none()));
        let mut told: Vec<_> = world.events_of("holdfast.url.").into_iter().collect();
        told.sort();
        let expected = ["disabled", "enabled", "enabled", "frozen"].map(|to| format!("holdfast.url.{to}"));
        assert_eq!(told, expected);
        assert_eq!(received(world, OTHER), 4);
    });
}
