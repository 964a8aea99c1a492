//! An attempt that a shortage of ours kept from being made counts nowhere, and is made as soon as the shortage is over.

use std::time::Duration;

use holdfast_core::engine::Counters;
use holdfast_core::ports::{Clock, QueueName, Settlement};
use holdfast_core::records::{Message, Record};
use holdfast_core::rules::delivery::DeliveryState;
use holdfast_core::rules::health::{OperatorAction, UrlState};
use holdfast_core::rules::shortage::Shortage;
use holdfast_sim::crash::World;

use super::{HOUR, URL};

fn counted(shortage: Shortage, times: u64) -> Counters {
    let mut counters = Counters::default();
    counters.not_attempted[shortage as usize] = times;
    counters
}

fn logged_attempts(world: &World) -> usize {
    world.store.all().iter().filter(|record| matches!(record, Record::Attempt(_))).count()
}

#[test]
fn a_first_attempt_that_was_not_made_leaves_no_trace_but_in_the_counters() {
    for shortage in Shortage::ALL {
        let mut world = World::new(1, None);
        let subscription = world.subscribe(URL);
        world.receiver.run_short(URL, shortage, 2);
        world.post("one");
        let wait = Duration::from_secs(1);
        assert_eq!(world.handle(QueueName::First), [Settlement::RetryAfter(wait)]);
        assert_eq!(world.engine.take_counters(), counted(shortage, 1));
        assert_eq!((logged_attempts(&world), world.url(&subscription).health.window_attempts), (0, 0));
        world.run_for(HOUR);
        assert_eq!(world.receiver.requests().len(), 1);
        assert_eq!(world.url(&subscription).health.window_failures, 0);
        world.check();
    }
}

#[test]
fn a_retry_that_was_not_made_frees_its_lease_and_is_no_take_of_it() {
    let mut world = World::new(2, None);
    let subscription = world.subscribe(URL);
    world.receiver.fail_next(URL, 1);
    world.post("one");
    world.handle(QueueName::First);
    // More often than an attempt may be claimed.
    world.receiver.run_short(URL, Shortage::Files, 5);
    world.pass(Duration::from_secs(85));
    for _ in 0..5 {
        let [Settlement::RetryAfter(wait)] = world.handle(QueueName::Retry)[..] else {
            panic!("the ticket was not given back")
        };
        let progress = world.record("one", &subscription).unwrap().progress;
        assert_eq!((progress.lease, progress.next_attempt), (None, 1));
        world.pass(wait);
    }
    assert_eq!(world.url(&subscription).health.window_attempts, 1, "only the attempt that was made");
    assert_eq!(world.handle(QueueName::Retry), [Settlement::Delete]);
    assert_eq!(world.record("one", &subscription).unwrap().progress.state, DeliveryState::Delivered);
    world.check();
}

#[test]
fn a_probe_that_was_not_made_is_due_as_before() {
    let mut world = World::new(3, None);
    let subscription = world.subscribe(URL);
    world.change_url_state(&subscription, OperatorAction::Disable);
    world.handle(QueueName::Retry);
    world.post("one");
    world.handle(QueueName::First);
    let due_at = world.url(&subscription).health.next_probe_at.unwrap();
    world.pass(due_at.since(world.clock.now()));
    world.receiver.run_short(URL, Shortage::Resolver, 3);
    world.send_ticket(Message::Probe { tenant: world.tenant.clone(), url_id: subscription.url_id.clone() });
    for _ in 0..3 {
        let [Settlement::RetryAfter(wait)] = world.handle(QueueName::Retry)[..] else {
            panic!("the ticket was not given back")
        };
        let url = world.url(&subscription);
        assert!(url.health.probe_due(world.clock.now()), "{:?}", url.health);
        let progress = world.record("one", &subscription).unwrap().progress;
        assert_eq!((progress.state, progress.lease), (DeliveryState::Parked, None));
        world.pass(wait);
    }
    assert_eq!(world.receiver.requests(), []);
    world.handle(QueueName::Retry);
    assert_eq!(world.receiver.requests().len(), 1);
    assert_eq!(world.url(&subscription).health.state, UrlState::Enabled);
    world.run_for(HOUR);
    world.check();
}
