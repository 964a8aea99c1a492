//! The engine on the memory adapters: one binary, one module per promise or mechanism.

#![expect(clippy::unwrap_used, reason = "a test that finds nothing to unwrap has failed")]

mod announcements;
mod attempt_log;
mod bodies;
mod budgets;
mod bulk_replay;
mod chains;
mod contract;
mod crash;
mod deadlines;
mod expiry;
mod fan_out;
mod first_attempts;
mod health_reads;
mod ids;
mod keeping_current;
mod late_outcomes;
mod leases;
mod moving;
mod outages;
mod parking;
mod pings;
mod probes;
mod quotas;
mod regressions;
mod releases;
mod retries;
mod seeds;
mod shortages;
mod signatures;
mod slow_urls;
mod sweeps;
mod url_removal;
mod versions;

use std::time::Duration;

use holdfast_core::engine::{Counters, NewEvent};
use holdfast_core::ports::QueueName;
use holdfast_core::records::{DeliveryRecord, Subscription};
use holdfast_core::records::{DeliveryTicket, Message};
use holdfast_sim::crash::World;

const URL: &str = "http://shop.test/hook";
const NEW: &str = "http://new.test/hook";
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);
/// Longer than a received message stays invisible.
const REDELIVERED: Duration = Duration::from_secs(181);

/// What is counted for one attempt: in the simulation it takes no time.
fn one_attempt() -> Counters {
    let mut counters = Counters::default();
    counters.latency_bins[0] = 1;
    counters
}

/// The first attempt of the event "one" has failed, and retry 1 is due.
fn subscription_with_a_retry_due(world: &mut World) -> Subscription {
    let subscription = world.subscribe(URL);
    world.receiver.answer(URL, 500);
    world.post("one");
    world.handle(QueueName::First);
    world.pass(Duration::from_secs(85));
    subscription
}

/// The ticket for the attempt that is next.
fn ticket_of(record: &DeliveryRecord) -> Message {
    let DeliveryRecord { key, url_id, progress, .. } = record.clone();
    Message::Delivery(DeliveryTicket {
        key,
        url_id,
        epoch: progress.epoch,
        n: progress.next_attempt,
        links: 0,
    })
}

/// The same ticket after it was sent on once.
fn sent_on_ticket_of(record: &DeliveryRecord) -> Message {
    ticket_of(record).linked_after(0).unwrap()
}

fn event(id: &str, data: &str) -> NewEvent {
    NewEvent { id: Some(id.to_owned()), ..NewEvent::new("order.created", data) }
}
