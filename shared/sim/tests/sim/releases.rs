//! Parked deliveries are let go by slow start, oldest first.

use std::time::Duration;

use holdfast_core::ports::{Clock, QueueName};
use holdfast_core::records::Message;
use holdfast_core::records::Subscription;
use holdfast_core::rules::delivery::DeliveryState;
use holdfast_core::rules::health::OperatorAction;
use holdfast_sim::crash::World;

use super::{MINUTE, URL};

const SECOND: Duration = Duration::from_secs(1);
const PARKED: usize = 20;

/// Deliveries that were accepted a second apart are parked, and a person has just enabled their URL.
fn world_with_a_release(seed: u64) -> (World, Subscription) {
    let mut world = World::new(seed, None);
    let subscription = world.subscribe(URL);
    world.change_url_state(&subscription, OperatorAction::Freeze);
    world.handle(QueueName::Retry);
    for n in 0..PARKED {
        world.post(&format!("event {n}"));
        world.handle(QueueName::First);
        world.pass(SECOND);
    }
    world.change_url_state(&subscription, OperatorAction::Enable);
    (world, subscription)
}

/// No more than 1 by the end of the first step, 3 by the end of the second, 7 by the end of the third …
#[track_caller]
fn assert_slow_start(world: &mut World, mut each_second: impl FnMut(&World)) {
    let enabled_at = world.clock.now();
    while world.receiver.requests().len() < PARKED {
        each_second(world);
        while world.work() {}
        let passed = world.clock.now().since(enabled_at);
        let most = 2_usize.pow(u32::try_from(passed.as_secs() / 5 + 1).unwrap()) - 1;
        let seen = world.receiver.requests().len();
        assert!(seen <= most, "{seen} after {passed:?}, not {most}");
        assert!(passed < 2 * MINUTE, "only {seen} after {passed:?}");
        world.pass(SECOND);
    }
}

#[test]
fn steps_begin_with_one_and_at_most_double() {
    let (mut world, _) = world_with_a_release(1);
    assert_slow_start(&mut world, |_| {});
    world.check();
}

#[test]
fn duplicated_tickets_do_not_double_the_pace() {
    let (mut world, _) = world_with_a_release(2);
    assert_slow_start(&mut world, |world| {
        if world.queue.len(QueueName::Retry) < 100 {
            world.queue.duplicate_all(QueueName::Retry);
        }
    });
    world.check();
    for _ in 0..5 * 60 {
        while world.work() {}
        world.pass(SECOND);
    }
    assert!(world.queue.is_empty(QueueName::Retry), "duplicates come to an end");
}

#[test]
fn early_tickets_do_not_double_the_pace() {
    let (mut world, subscription) = world_with_a_release(3);
    assert_slow_start(&mut world, |world| {
        if let Some(release) = world.url(&subscription).releasing {
            let (tenant, url_id) = (world.tenant.clone(), subscription.url_id.clone());
            world.send_ticket(Message::Release { tenant, url_id, step: release.step, links: 0 });
        }
    });
    world.check();
}

#[test]
fn the_oldest_go_first() {
    let (mut world, subscription) = world_with_a_release(4);
    assert_slow_start(&mut world, |_| {});
    let expected: Vec<_> =
        (0..PARKED).map(|n| world.delivery(&format!("event {n}"), &subscription).id()).collect();
    let mut got: Vec<_> =
        world.receiver.requests().into_iter().map(|seen| (seen.at, seen.delivery)).collect();
    // Within a step they may come in any order.
    let first_of_each_step = [0, 1, 3, 7];
    for pair in first_of_each_step.windows(2) {
        got[pair[0]..pair[1]].sort_by_key(|(_, delivery)| expected.iter().position(|e| e == delivery));
    }
    let got: Vec<_> = got.into_iter().map(|(_, delivery)| delivery).collect();
    assert_eq!(got[..7], expected[..7]);
}

#[test]
fn a_release_whose_ticket_is_lost_goes_on() {
    let (mut world, _) = world_with_a_release(5);
    world.queue.lose_all(QueueName::Retry);
    world.run_for_with_a_sweep_each_minute(7 * MINUTE);
    assert_eq!(world.receiver.requests().len(), PARKED);
}

#[test]
fn a_url_that_is_disabled_again_ends_its_release() {
    let (mut world, subscription) = world_with_a_release(6);
    while world.work() {}
    assert_eq!(world.receiver.requests().len(), 1);
    world.change_url_state(&subscription, OperatorAction::Freeze);
    assert_eq!(world.url(&subscription).releasing, None);
    world.run_for(MINUTE);
    assert_eq!(world.receiver.requests().len(), 1);
    let parked =
        world.deliveries().into_iter().filter(|record| record.progress.state == DeliveryState::Parked);
    assert_eq!(parked.count(), PARKED - 1);
    world.check();
}
