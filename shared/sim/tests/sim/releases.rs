//! Parked deliveries are let go by slow start, oldest first.

use std::time::Duration;

use bytes::Bytes;
use holdfast_core::engine::SubscriptionPatch;
use holdfast_core::ids::{DeliveryKey, EventKey};
use holdfast_core::ports::{BodyKey, Clock, QueueName, Store};
use holdfast_core::records::{DeliveryRecord, Message, NewDelivery, ParkedPointer, Record, Subscription};
use holdfast_core::rules::delivery::DeliveryState;
use holdfast_core::rules::health::OperatorAction;
use holdfast_core::rules::schedule::Schedule;
use holdfast_sim::crash::World;
use holdfast_sim::{StoreCall, block_on, me};

use super::{HOUR, MINUTE, NEW, URL, ticket_of};

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

/// Deliveries are parked at a URL that a person has just enabled.
fn park_and_enable(world: &mut World, count: usize) -> (Subscription, Vec<DeliveryRecord>) {
    let (subscription, parked) = park(world, count);
    world.change_url_state(&subscription, OperatorAction::Enable);
    (subscription, parked)
}

/// Deliveries are parked at a frozen URL. They are written as they would have been parked.
fn park(world: &mut World, count: usize) -> (Subscription, Vec<DeliveryRecord>) {
    let subscription = world.subscribe(URL);
    world.change_url_state(&subscription, OperatorAction::Freeze);
    world.queue.lose_all(QueueName::Retry);
    let now = world.clock.now();
    let parked: Vec<DeliveryRecord> = (0..count)
        .map(|n| {
            let event_id = format!("event {n}");
            let key = DeliveryKey {
                tenant: world.tenant.clone(),
                event_key: EventKey::of(&event_id, now),
                subscription_id: subscription.id.clone(),
            };
            let (url_id, url) = (subscription.url_id.clone(), subscription.url.clone());
            let event_type = "order.created".to_owned();
            let new = NewDelivery { key, event_id, event_type, accepted_at: now, url_id, url, trace: None };
            let mut record = DeliveryRecord::new(new, &Schedule::default());
            record.progress.park();
            record
        })
        .collect();
    let bodies = parked.iter().map(|record| (BodyKey::of(&record.key), Bytes::from_static(b"{}")));
    block_on(world.store.put_bodies(bodies.collect(), now + 100 * HOUR)).unwrap();
    let records = parked
        .iter()
        .flat_map(|record| [Record::Delivery(record.clone()), Record::Parked(ParkedPointer::of(record))]);
    block_on(world.store.put_each(records.collect())).unwrap();
    (subscription, parked)
}

/// Lets seconds pass until the release has ended, and does something at each. Returns how long it took to attempt all of `parked`.
fn release_all(world: &mut World, parked: usize, mut each_second: impl FnMut(&mut World)) -> Duration {
    let began_at = world.clock.now();
    loop {
        each_second(world);
        while world.work() {}
        let passed = world.clock.now().since(began_at);
        if world.receiver.requests().len() >= parked {
            return passed;
        }
        assert!(passed < HOUR, "only {} after {passed:?}", world.receiver.requests().len());
        world.clock.advance_schedule(SECOND);
    }
}

fn refuse_every_tenth(world: &World, parked: &[DeliveryRecord]) {
    for record in parked.iter().skip(3).step_by(10) {
        world.receiver.refuse(record.key.id());
    }
}

#[test]
fn a_receiver_that_refuses_some_does_not_slow_its_release_down() {
    let mut world = World::new(7, None);
    let (_, parked) = park_and_enable(&mut world, 1_000);
    refuse_every_tenth(&world, &parked);
    let took = release_all(&mut world, parked.len(), |_| {});
    assert!(took < 2 * MINUTE, "{took:?}");
    let counted_later = world.deliveries().into_iter().filter(|record| record.released_in.is_some());
    assert_eq!(counted_later.count(), 0, "a retry says nothing about the step");
}

/// Of each second, one new event fails.
#[test]
fn failures_of_other_deliveries_do_not_slow_a_release_down() {
    let mut world = World::new(8, None);
    let (subscription, parked) = park_and_enable(&mut world, 1_000);
    let mut number = 0;
    let took = release_all(&mut world, parked.len() + 60, |world| {
        number += 1;
        let id = format!("new {number}");
        world.post(&id);
        world.receiver.refuse(world.delivery(&id, &subscription).id());
    });
    assert!(took < 2 * MINUTE, "{took:?}");
}

#[test]
fn tens_of_thousands_are_released_at_the_ceiling() {
    let mut world = World::with_settings(9, |settings| settings.release_ceiling = 2_560);
    let (_, parked) = park_and_enable(&mut world, 12_000);
    refuse_every_tenth(&world, &parked);
    let took = release_all(&mut world, parked.len(), |_| {});
    // 1, 2, 4 … 2,048, and 2,560 three times.
    assert!(took < 16 * 5 * SECOND, "{took:?}");
    let began_at = world.receiver.requests()[0].at;
    let mut by_step = vec![0; 17];
    for request in world.receiver.requests() {
        by_step[request.at.since(began_at).as_secs() as usize / 5] += 1;
    }
    assert_eq!(by_step.iter().max(), Some(&2_560), "{by_step:?}");
}

/// How many requests came in each second of these steps.
fn by_second(world: &World, steps: usize) -> Vec<[usize; 5]> {
    let began_at = world.receiver.requests()[0].at;
    let mut counts = vec![[0; 5]; steps];
    for request in world.receiver.requests() {
        let second = request.at.since(began_at).as_secs() as usize;
        counts[second / 5][second % 5] += 1;
    }
    counts
}

#[test]
fn the_tickets_of_a_step_are_spread_over_it() {
    let mut world = World::new(10, None);
    let (_, parked) = park_and_enable(&mut world, 31);
    release_all(&mut world, parked.len(), |_| {});
    let expected = [[1, 0, 0, 0, 0], [1, 0, 1, 0, 0], [1, 1, 1, 1, 0], [2, 2, 1, 2, 1], [4, 3, 3, 3, 3]];
    assert_eq!(by_second(&world, 5), expected);
}

/// The sizes of the first steps of a release of many, while the receiver does as `each_second` tells it.
fn sizes(world: &mut World, steps: usize, each_second: impl Fn(&World, u64)) -> Vec<usize> {
    park_and_enable(world, 2_000);
    for second in 0..steps * 5 {
        each_second(world, second as u64);
        while world.work() {}
        world.clock.advance_schedule(SECOND);
    }
    by_second(world, steps).into_iter().map(|step| step.into_iter().sum()).collect()
}

#[test]
fn a_receiver_that_asks_for_less_gets_half() {
    let mut world = World::new(11, None);
    // In one second of the step of 16, which has 3 requests of them.
    let sizes = sizes(&mut world, 8, |world, second| {
        world.receiver.answer(URL, if second == 22 { 429 } else { 200 });
    });
    assert_eq!(sizes, [1, 2, 4, 8, 16, 8, 16, 32]);
}

#[test]
fn a_receiver_that_becomes_slow_gets_half() {
    let mut world = World::new(12, None);
    let sizes = sizes(&mut world, 8, |world, second| {
        let took_ms = if (25..30).contains(&second) { 130 } else { 50 };
        world.receiver.answer_after(URL, Duration::from_millis(took_ms));
    });
    assert_eq!(sizes, [1, 2, 4, 8, 16, 32, 16, 32]);
}

#[test]
fn a_receiver_that_fails_gets_one() {
    let mut world = World::new(13, None);
    let sizes = sizes(&mut world, 8, |world, second| {
        world.receiver.answer(URL, if (20..25).contains(&second) { 500 } else { 200 });
    });
    assert_eq!(sizes, [1, 2, 4, 8, 16, 1, 2, 4]);
}

#[test]
fn a_step_whose_outcomes_are_not_in_makes_the_next_one_no_larger() {
    let mut world = World::new(14, None);
    let (_, parked) = park_and_enable(&mut world, 20);
    world.handle(QueueName::Retry);
    world.receiver.hold_next(URL);
    let slow = world.begin(QueueName::Retry);
    for _ in 0..6 {
        world.clock.advance_schedule(SECOND);
        while world.work() {}
    }
    assert_eq!(world.receiver.requests().len(), 2, "one that is not answered, and a step of one more");
    world.receiver.release();
    slow.finish();
    release_all(&mut world, parked.len(), |_| {});
    let steps: Vec<usize> = by_second(&world, 6).into_iter().map(|step| step.into_iter().sum()).collect();
    assert_eq!(steps, [1, 1, 2, 4, 8, 4]);
}

/// They expired while their URL was frozen, and were not found yet.
#[test]
fn expired_deliveries_take_no_place_in_a_step() {
    let mut world = World::new(15, None);
    let subscription = world.subscribe(URL);
    world.change_url_state(&subscription, OperatorAction::Freeze);
    for n in 0..300 {
        world.post(&format!("old {n}"));
    }
    while world.work() {}
    world.clock.advance_schedule(53 * HOUR);
    world.post("new");
    while world.work() {}
    world.change_url_state(&subscription, OperatorAction::Enable);
    while world.work() {}
    let delivered = world.receiver.requests();
    assert_eq!(delivered.len(), 1);
    assert_eq!(delivered[0].delivery, world.delivery("new", &subscription).id());
}

#[test]
fn a_step_that_began_too_early_does_not_end_the_release() {
    let mut world = World::new(16, None);
    let subscription = world.subscribe(URL);
    world.change_url_state(&subscription, OperatorAction::Freeze);
    world.change_url_state(&subscription, OperatorAction::Enable);
    world.queue.lose_all(QueueName::Retry);
    let step = world.url(&subscription).releasing.unwrap().step;
    let (tenant, url_id) = (world.tenant.clone(), subscription.url_id.clone());
    world.send_ticket(Message::Release { tenant, url_id, step, links: 0 });
    // It finds nothing parked, but only after two function timeouts.
    world.scripted.hold_next(StoreCall::Query);
    let slow = world.begin(QueueName::Retry);
    world.pass(MINUTE + SECOND);
    world.scripted.release();
    slow.finish();
    assert!(world.url(&subscription).releasing.is_some());
    world.run_for(MINUTE);
    assert_eq!(world.url(&subscription).releasing, None);
}

fn count_in(world: &World, state: DeliveryState) -> usize {
    world.deliveries().iter().filter(|record| record.progress.state == state).count()
}

/// They take no place in it, but time.
#[test]
fn a_step_goes_through_some_expired_deliveries_and_no_more() {
    let mut world = World::new(17, None);
    let (subscription, _) = park(&mut world, 4_500);
    world.clock.advance_schedule(53 * HOUR);
    world.change_url_state(&subscription, OperatorAction::Enable);
    world.handle(QueueName::Retry);
    assert_eq!(count_in(&world, DeliveryState::Dead), 4_100, "41 pages of 100");
}

#[test]
fn a_delivery_in_its_last_moment_takes_a_place_in_a_step() {
    let mut world = World::new(18, None);
    let (subscription, parked) = park(&mut world, 2);
    world.clock.advance_schedule(parked[0].progress.expires_at.since(world.clock.now()));
    world.change_url_state(&subscription, OperatorAction::Enable);
    world.handle(QueueName::Retry);
    assert_eq!(count_in(&world, DeliveryState::Waiting), 1);
}

/// The steps of the releases whose tickets wait, and how long they wait.
fn waiting_steps(world: &World) -> Vec<(u64, Duration)> {
    let now = world.clock.now();
    let messages = world.queue.messages(QueueName::Retry).into_iter();
    let steps = messages.filter_map(|(message, ready_at)| match message {
        Message::Release { step, .. } => Some((step, ready_at.since(now))),
        _ => None,
    });
    steps.collect()
}

/// Its next step is the only ticket. Returns the number of the step.
fn send_step(world: &World, subscription: &Subscription) -> u64 {
    world.queue.lose_all(QueueName::Retry);
    let step = world.url(subscription).releasing.unwrap().step;
    let (tenant, url_id) = (world.tenant.clone(), subscription.url_id.clone());
    world.send_ticket(Message::Release { tenant, url_id, step, links: 0 });
    step
}

#[test]
fn a_release_that_finds_nothing_looks_again_when_no_function_can_park_any_more() {
    let mut world = World::new(19, None);
    let (subscription, _) = park_and_enable(&mut world, 0);
    let step = send_step(&world, &subscription);
    world.handle(QueueName::Retry);
    assert_eq!(waiting_steps(&world), [(step + 1, MINUTE)], "two function timeouts");
}

#[test]
fn a_step_that_cannot_be_counted_is_followed_by_the_next() {
    let mut world = World::new(20, None);
    let (subscription, _) = park_and_enable(&mut world, 5);
    let step = send_step(&world, &subscription);
    // The claim of the step and its delivery are written, and the end of the step is not.
    world.scripted.fail_after(StoreCall::Write, 2);
    world.handle(QueueName::Retry);
    assert_eq!(count_in(&world, DeliveryState::Waiting), 1);
    assert_eq!(waiting_steps(&world), [(step + 1, 5 * SECOND)]);
}

#[test]
fn a_delivery_that_ended_meanwhile_is_not_released() {
    let mut world = World::new(21, None);
    let (subscription, _) = park_and_enable(&mut world, 1);
    send_step(&world, &subscription);
    world.scripted.hold_next(StoreCall::Query);
    let releasing = world.begin(QueueName::Retry);
    assert!(block_on(world.engine.delete_subscription(&world.tenant, &subscription.id, me())).unwrap());
    world.handle(QueueName::Retry);
    assert_eq!(count_in(&world, DeliveryState::Dead), 1);
    world.scripted.release();
    releasing.finish();
    assert_eq!(count_in(&world, DeliveryState::Dead), 1);
    assert_eq!(world.receiver.requests(), []);
}

/// The step of the URL that it left must not wait for it.
#[test]
fn a_released_delivery_that_is_parked_at_another_url_counts_as_not_attempted() {
    let mut world = World::new(22, None);
    let (subscription, _) = park_and_enable(&mut world, 1);
    let frozen = world.subscribe(NEW);
    world.change_url_state(&frozen, OperatorAction::Freeze);
    assert!(block_on(world.engine.delete_subscription(&world.tenant, &frozen.id, me())).unwrap());
    send_step(&world, &subscription);
    world.handle(QueueName::Retry);
    let patch = SubscriptionPatch { url: Some(NEW.to_owned()), ..SubscriptionPatch::default() };
    block_on(world.engine.update_subscription(&world.tenant, &subscription.id, patch, me())).unwrap();
    // The job that moves deliveries has not run yet.
    world.queue.lose_all(QueueName::Retry);
    world.send_ticket(ticket_of(&world.deliveries()[0]));
    world.handle(QueueName::Retry);
    let parked = world.deliveries().remove(0);
    assert_eq!((parked.progress.state, parked.url.as_str()), (DeliveryState::Parked, NEW));
    let counted = world.store.all().into_iter().filter_map(|record| match record {
        Record::StepBatch(batch) => Some((batch.outcomes.count, batch.outcomes.failures)),
        _ => None,
    });
    assert_eq!(counted.collect::<Vec<_>>(), [(1, 0)]);
}
