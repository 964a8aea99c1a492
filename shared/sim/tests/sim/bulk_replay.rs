//! A bulk replay, with hosts that die on the way: nothing is left out, and nothing is replayed twice.
#![allow(clippy::unwrap_used, reason = "in a test, what fails panics")]

use std::time::Duration;

use holdfast_core::ids::UrlId;
use holdfast_core::ports::{Clock, QueueName, Settlement};
use holdfast_core::records::{Job, JobRecord, Message, Record, ReplayRecord, ReplayState, UrlReplay};
use holdfast_core::rules::delivery::DeliveryState;
use holdfast_core::rules::health::OperatorAction;
use holdfast_sim::crash::{Crash, World};
use holdfast_sim::{block_on, me};

const URL: &str = "http://shop.test/hook";
const HOUR: Duration = Duration::from_secs(3600);
const ALL: usize = 9;

/// Three that succeeded at once, three that were found dead, and three that have expired without having been written so.
fn world_with_ended(seed: u64) -> (World, UrlId) {
    let mut world = World::new(seed, None);
    let url_id = world.subscribe(URL).url_id;
    let change = |world: &World, action| {
        block_on(world.engine.change_url_state(&world.tenant, &url_id, action, None, false, me())).unwrap();
    };
    let post = |world: &mut World, ids: [&str; 3]| {
        ids.into_iter().for_each(|id| world.post(id));
        while world.work() {}
    };
    post(&mut world, ["one", "two", "three"]);
    change(&world, OperatorAction::Freeze);
    post(&mut world, ["four", "five", "six"]);
    world.clock.advance(HOUR * 53);
    world.sweep();
    post(&mut world, ["seven", "eight", "nine"]);
    world.clock.advance(HOUR * 53);
    change(&world, OperatorAction::Enable);
    (world, url_id)
}

fn replay_all(world: &World, url_id: &UrlId) -> ReplayRecord {
    let wanted = UrlReplay {
        url_id: url_id.clone(),
        since: None,
        until: None,
        states: vec![DeliveryState::Dead, DeliveryState::Delivered],
        expired_since: None,
    };
    block_on(world.engine.replay_url(&world.tenant, wanted, me())).unwrap()
}

#[track_caller]
fn assert_each_replayed_once(world: &World, begun: &ReplayRecord) {
    world.check();
    let shown = block_on(world.engine.view_replay(&world.tenant, &begun.id)).unwrap().unwrap();
    assert_eq!((begun.matched as usize, begun.more), (ALL, false));
    let counts = [shown.matched, shown.done, shown.skipped].map(|n| n as usize);
    assert_eq!((shown.state, counts), (ReplayState::Done, [ALL, ALL, 0]));
    let deliveries = world.deliveries();
    assert_eq!(deliveries.len(), ALL);
    for delivery in deliveries {
        assert_eq!(
            (delivery.progress.state, delivery.progress.epoch),
            (DeliveryState::Delivered, 1),
            "{}",
            delivery.key.id()
        );
    }
    let is_replay = |record: &Record| matches!(record, Record::Job(JobRecord { job: Job::Replay(_), .. }));
    assert!(!world.store.all().iter().any(is_replay), "a job is left over");
}

#[test]
fn the_host_dies_at_every_await_of_a_bulk_replay() {
    for after_polls in 1.. {
        let (mut world, url_id) = world_with_ended(after_polls as u64);
        world.let_host_die_after(Crash { after_polls });
        let begun = replay_all(&world, &url_id);
        world.run_for(HOUR);
        assert_each_replayed_once(&world, &begun);
        if !world.has_crashed() {
            assert!(after_polls > 100, "only {after_polls} places to die");
            break;
        }
    }
}

#[test]
fn hosts_side_by_side_that_die_at_any_time() {
    for seed in 0..40 {
        let (mut world, url_id) = world_with_ended(seed);
        world.let_hosts_die(true);
        let begun = replay_all(&world, &url_id);
        let until = world.clock.now() + HOUR;
        world.run_side_by_side(until, |_, _| {});
        assert_each_replayed_once(&world, &begun);
    }
}

#[test]
fn without_time_left_it_goes_on_with_a_new_ticket() {
    let (mut world, url_id) = world_with_ended(1);
    while world.work() {}
    let begun = replay_all(&world, &url_id);
    assert_eq!(world.handle_until(QueueName::Retry, world.clock.now_real()), [Settlement::Delete]);
    let shown = block_on(world.engine.view_replay(&world.tenant, &begun.id)).unwrap().unwrap();
    assert_eq!((shown.state, shown.done), (ReplayState::Running, 0));
    world.run_for(HOUR);
    assert_each_replayed_once(&world, &begun);
}

/// The tickets of jobs that wait on the retry queue.
fn job_tickets(world: &World) -> Vec<Message> {
    let messages = world.queue.messages(QueueName::Retry).into_iter().map(|(message, _)| message);
    messages.filter(|message| matches!(message, Message::Job { .. })).collect()
}

fn pass_seconds(world: &mut World, seconds: usize) {
    for _ in 0..seconds {
        world.pass(Duration::from_secs(1));
        while world.work() {}
    }
}

/// As in a function whose clock is behind that of the one that sent the ticket.
#[test]
fn early_tickets_are_sent_on_to_their_due_time() {
    let (mut world, url_id) = world_with_ended(2);
    while world.work() {}
    let begun = replay_all(&world, &url_id);
    let began_at = world.clock.now();
    while world.clock.now().since(began_at) < Duration::from_secs(20) {
        while world.work() {}
        world.pass(Duration::from_secs(1));
        assert!(job_tickets(&world).len() <= 1, "{:?}", job_tickets(&world));
        let early = world.queue.messages(QueueName::Retry);
        world.queue.lose_all(QueueName::Retry);
        early.into_iter().for_each(|(ticket, _)| world.send_ticket(ticket));
    }
    // Steps of 1, 2, 4 and 2.
    assert_each_replayed_once(&world, &begun);
}

#[test]
fn a_ticket_that_comes_again_after_its_step_ends() {
    let (mut world, url_id) = world_with_ended(3);
    while world.work() {}
    let begun = replay_all(&world, &url_id);
    while world.work() {}
    for _ in 0..3 {
        let ticket = job_tickets(&world).pop().unwrap();
        pass_seconds(&mut world, 5);
        let after = job_tickets(&world);
        world.send_ticket(ticket);
        while world.work() {}
        assert_eq!(job_tickets(&world), after);
    }
    pass_seconds(&mut world, 5);
    assert_each_replayed_once(&world, &begun);
}
