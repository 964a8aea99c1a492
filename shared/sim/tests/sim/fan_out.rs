//! One event to many subscriptions, in steps that may be repeated: each is attempted once.

use std::collections::BTreeSet;

use holdfast_core::engine::NewEvent;
use holdfast_core::ports::{QueueName, Settlement};
use holdfast_core::records::{Job, Record};
use holdfast_sim::crash::World;
use holdfast_sim::{StoreCall, block_on};

use super::{HOUR, REDELIVERED, event};

const ALL: usize = 130;

fn world_with_many(seed: u64) -> World {
    let world = World::new(seed, None);
    for n in 0..ALL {
        world.subscribe(&format!("http://many.test/{n}"));
    }
    world
}

#[track_caller]
fn assert_each_attempted_once(world: &World) {
    let seen = world.receiver.requests();
    let urls: BTreeSet<_> = seen.iter().map(|seen| seen.url.as_str()).collect();
    assert_eq!((urls.len(), seen.len()), (ALL, ALL));
    world.check();
    world.check_nothing_repeated();
}

#[test]
fn a_repeated_step_attempts_nothing_twice() {
    let mut world = world_with_many(1);
    world.post("big");
    // The step's messages are out, but where it ended is not written: the first write says only that it began.
    world.scripted.fail_after(StoreCall::Write, 1);
    assert!(matches!(world.handle(QueueName::First)[..], [Settlement::RetryAfter(_)]));
    assert_eq!(world.queue.len(QueueName::First), 101, "a step of 100, and the job that comes again");
    while world.work() {}
    assert_eq!(world.receiver.requests().len(), 100);
    world.pass(REDELIVERED);
    world.run_for(HOUR);
    assert_each_attempted_once(&world);
}

#[test]
fn a_fan_out_goes_on_behind_the_last_step_that_was_written() {
    let mut world = world_with_many(2);
    world.post("big");
    // The first step is written, the second one is not.
    world.scripted.fail_after(StoreCall::Write, 2);
    assert!(matches!(world.handle(QueueName::First)[..], [Settlement::RetryAfter(_)]));
    assert_eq!(world.queue.len(QueueName::First), ALL + 1);
    world.queue.lose_all(QueueName::First);
    let after = world.store.all().into_iter().find_map(|record| match record {
        Record::Job(job) => match job.job {
            Job::FanOut(fan_out) => fan_out.after,
            _ => None,
        },
        _ => None,
    });
    assert!(after.is_some());
    world.run_for(HOUR);
    assert_eq!(world.receiver.requests().len(), ALL - 100, "only what was not written to be queued");
}

/// The list of recipients was kept as long as the body.
#[test]
fn the_recipients_are_removed_when_the_fan_out_has_ended_and_not_before() {
    let mut world = world_with_many(6);
    world.post("big");
    let stored = |world: &World| world.store.body_bytes(&world.tenant);
    let with_list = stored(&world);
    world.scripted.fail_after(StoreCall::Write, 2);
    assert!(matches!(world.handle(QueueName::First)[..], [Settlement::RetryAfter(_)]));
    assert_eq!(stored(&world), with_list, "the job goes on with it");
    world.pass(REDELIVERED);
    world.run_for(HOUR);
    assert_each_attempted_once(&world);
    let bytes_of_a_recipient = 50;
    assert!(stored(&world) + ALL as u64 * bytes_of_a_recipient < with_list, "{} {with_list}", stored(&world));
}

/// Two tickets of one job: the second one has read the job before the first one ended it.
#[test]
fn a_step_that_comes_too_late_for_the_recipients_ends() {
    let mut world = world_with_many(7);
    world.post("big");
    world.scripted.fail_after(StoreCall::Write, 1);
    assert!(matches!(world.handle(QueueName::First)[..], [Settlement::RetryAfter(_)]));
    while world.work() {}
    world.pass(REDELIVERED);
    world.scripted.hold_next(StoreCall::Get);
    let late = world.begin(QueueName::First);
    world.run_for(HOUR);
    world.scripted.release();
    assert_eq!(late.finish(), [Settlement::Delete]);
    world.run_for(HOUR);
    assert_each_attempted_once(&world);
}

#[test]
fn an_event_that_is_posted_again_after_its_fan_out_attempts_nothing_twice() {
    let mut world = World::new(3, None);
    for n in 0..5 {
        world.subscribe(&format!("http://many.test/{n}"));
    }
    // Too large to be queued with its body: a fan-out of one step.
    let event = event("large", &format!("{:?}", "x".repeat(150_000)));
    // Everything is queued, but the producer gets no answer: it posts the event again.
    world.scripted.fail_next(StoreCall::PutEach);
    assert!(block_on(world.engine.accept(&world.tenant, vec![event.clone()])).is_err());
    while world.work() {}
    assert_eq!(world.receiver.requests().len(), 5);
    world.pass(REDELIVERED);
    let answer = block_on(world.engine.accept(&world.tenant, vec![event])).unwrap();
    assert_eq!((answer[0].deliveries, answer[0].duplicate), (5, false));
    world.run_for(HOUR);
    assert_eq!(world.receiver.requests().len(), 5);
    world.check_nothing_repeated();
}

#[test]
fn an_event_that_is_posted_again_after_a_fan_out_of_several_steps_attempts_nothing_twice() {
    let mut world = World::new(5, None);
    for n in 0..230 {
        world.subscribe(&format!("http://many.test/{n}"));
    }
    let event = event("big", "1");
    world.scripted.fail_next(StoreCall::PutEach);
    assert!(block_on(world.engine.accept(&world.tenant, vec![event.clone()])).is_err());
    while world.work() {}
    assert_eq!(world.receiver.requests().len(), 230);
    world.pass(REDELIVERED);
    block_on(world.engine.accept(&world.tenant, vec![event])).unwrap();
    world.run_for(HOUR);
    assert_eq!(world.receiver.requests().len(), 230);
    world.check_nothing_repeated();
}

#[test]
fn a_post_whose_deliveries_are_large_together_is_fanned_out() {
    let world = World::new(4, None);
    for n in 0..50 {
        world.subscribe(&format!("http://many.test/{n}"));
    }
    let queued = |sizes: &[usize]| {
        let before = world.queue.len(QueueName::First);
        let data = |size| format!("{:?}", "x".repeat(size));
        let events = sizes.iter().map(|size| NewEvent::new("order.created", &data(*size)));
        block_on(world.engine.accept(&world.tenant, events.collect())).unwrap();
        world.queue.len(QueueName::First) - before
    };
    assert_eq!(queued(&[30_000]), 50);
    assert_eq!(queued(&[100_000]), 1, "5 MB of messages");
    assert_eq!(
        queued(&[30_000, 30_000, 30_000, 10]),
        50 + 50 + 1 + 50,
        "the third exceeds 4 MB together with the others"
    );
}
