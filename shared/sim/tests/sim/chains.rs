//! Tickets whose handling sends the next one: no such chain goes on without end, and where one ends the sweep goes on.

use std::time::Duration;

use holdfast_core::ports::QueueName;
use holdfast_core::records::{DeliveryTicket, JobRecord, Message, Record, Subscription, UrlReplay};
use holdfast_core::rules::chain::MAX_LINKS;
use holdfast_core::rules::delivery::DeliveryState;
use holdfast_core::rules::health::OperatorAction;
use holdfast_sim::crash::World;
use holdfast_sim::{block_on, me};

use super::{MINUTE, URL, subscription_with_a_retry_due, ticket_of};

const PARKED: usize = 5;

/// The places in their chains of the tickets that wait on the retry queue and match.
fn links(world: &World, of: impl Fn(&Message) -> Option<u32>) -> Vec<u32> {
    world.queue.messages(QueueName::Retry).iter().filter_map(|(message, _)| of(message)).collect()
}

fn of_release(message: &Message) -> Option<u32> {
    match message {
        Message::Release { links, .. } => Some(*links),
        _ => None,
    }
}

fn of_job(message: &Message) -> Option<u32> {
    match message {
        Message::Job { links, .. } => Some(*links),
        _ => None,
    }
}

fn of_delivery(message: &Message) -> Option<u32> {
    match message {
        Message::Delivery(DeliveryTicket { links, .. }) => Some(*links),
        _ => None,
    }
}

/// A URL that was just enabled, with parked deliveries and no ticket.
fn world_with_a_release(seed: u64) -> (World, Subscription) {
    let mut world = World::new(seed, None);
    let subscription = world.subscribe(URL);
    world.change_url_state(&subscription, OperatorAction::Freeze);
    world.handle(QueueName::Retry);
    for n in 0..PARKED {
        world.post(&format!("event {n}"));
        world.handle(QueueName::First);
    }
    world.change_url_state(&subscription, OperatorAction::Enable);
    world.queue.lose_all(QueueName::Retry);
    (world, subscription)
}

fn send_release_ticket(world: &World, subscription: &Subscription, links: u32) {
    let release = world.url(subscription).releasing.unwrap();
    let (tenant, url_id) = (world.tenant.clone(), subscription.url_id.clone());
    world.send_ticket(Message::Release { tenant, url_id, step: release.step, links });
}

#[test]
fn each_step_of_a_release_is_the_next_link() {
    let (world, subscription) = world_with_a_release(1);
    send_release_ticket(&world, &subscription, 7);
    world.handle(QueueName::Retry);
    assert_eq!(links(&world, of_release), [8]);
    world.handle(QueueName::Retry);
    // The step is not due yet: its ticket was sent on with a delay and is not received.
    assert_eq!(links(&world, of_release), [8]);
}

#[test]
fn a_release_at_the_end_of_its_chain_goes_on_by_the_sweep() {
    let (mut world, subscription) = world_with_a_release(2);
    send_release_ticket(&world, &subscription, MAX_LINKS);
    world.handle(QueueName::Retry);
    assert_eq!(links(&world, of_release), [0; 0], "the chain ends");
    world.handle(QueueName::Retry);
    assert_eq!(world.receiver.requests().len(), 1, "the step was made");
    world.run_for_with_a_sweep_each_minute(7 * MINUTE);
    assert_eq!(world.receiver.requests().len(), PARKED);
    world.check();
}

/// A bulk replay of deliveries that were delivered, with its ticket.
fn world_with_a_replay(seed: u64) -> (World, Message) {
    let mut world = World::new(seed, None);
    let subscription = world.subscribe(URL);
    for n in 0..PARKED {
        world.post(&format!("event {n}"));
        world.handle(QueueName::First);
    }
    world.pass(Duration::from_secs(1));
    let wanted = UrlReplay {
        url_id: subscription.url_id.clone(),
        since: None,
        until: None,
        states: vec![DeliveryState::Delivered],
        expired_since: None,
    };
    block_on(world.engine.replay_url(&world.tenant, wanted, me())).unwrap();
    let ticket = world.queue.messages(QueueName::Retry).pop().unwrap().0;
    world.queue.lose_all(QueueName::Retry);
    (world, ticket)
}

#[test]
fn a_job_at_the_end_of_its_chain_goes_on_by_the_sweep() {
    let (mut world, ticket) = world_with_a_replay(3);
    world.send_ticket(ticket.linked_after(MAX_LINKS - 1).unwrap());
    world.handle(QueueName::Retry);
    assert_eq!(links(&world, of_job), [0; 0], "the chain ends");
    world.run_for_with_a_sweep_each_minute(7 * MINUTE);
    assert_eq!(world.receiver.requests().len(), 2 * PARKED);
    world.check();
}

#[test]
fn the_sweep_counts_its_looks_at_a_job() {
    let (mut world, ticket) = world_with_a_replay(6);
    let Message::Job { tenant, id, .. } = ticket else { panic!("{ticket:?}") };
    for looks in 1..=2 {
        world.pass(6 * MINUTE);
        world.sweep();
        let Some(Record::Job(job)) = world.store.record(&JobRecord::key(&tenant, &id)) else {
            panic!("no job")
        };
        assert_eq!(job.looks, looks);
    }
}

#[test]
fn each_step_of_a_job_is_the_next_link() {
    let (world, ticket) = world_with_a_replay(4);
    world.send_ticket(ticket.linked_after(6).unwrap());
    world.handle(QueueName::Retry);
    assert_eq!(links(&world, of_job), [8]);
}

#[test]
fn an_early_ticket_is_not_sent_on_without_end() {
    let mut world = World::new(5, None);
    subscription_with_a_retry_due(&mut world);
    world.handle(QueueName::Retry);
    world.queue.lose_all(QueueName::Retry);
    let ticket = ticket_of(&world.deliveries()[0]);
    world.send_ticket(ticket.clone().linked_after(2).unwrap());
    world.handle(QueueName::Retry);
    assert_eq!(links(&world, of_delivery), [4], "it is sent on to the due time");
    world.queue.lose_all(QueueName::Retry);
    world.send_ticket(ticket.linked_after(MAX_LINKS - 1).unwrap());
    world.handle(QueueName::Retry);
    assert_eq!(links(&world, of_delivery), [0; 0]);
    world.run_for_with_a_sweep_each_minute(12 * MINUTE);
    assert!(world.receiver.requests().len() > 2, "the sweep finds the delivery");
    world.check();
}
