//! The engine on the memory adapters: one binary, one module per promise or mechanism.

mod bodies;
mod bulk_replay;
mod contract;
mod crash;
mod deadlines;
mod expiry;
mod fan_out;
mod health_reads;
mod ids;
mod keeping_current;
mod late_outcomes;
mod leases;
mod moving;
mod parking;
mod probes;
mod regressions;
mod releases;
mod retries;

use std::time::Duration;

use holdfast_core::messages::Message;
use holdfast_core::ports::QueueName;
use holdfast_core::records::{DeliveryRecord, Subscription};
use holdfast_core::usecases::NewEvent;
use holdfast_sim::crash::World;
use serde_json::value::RawValue;

const URL: &str = "http://shop.test/hook";
const NEW: &str = "http://new.test/hook";
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);
/// Longer than a received message stays invisible.
const REDELIVERED: Duration = Duration::from_secs(181);

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
    let DeliveryRecord { key, url_id, epoch, next_attempt, .. } = record.clone();
    Message::Delivery { key, url_id, epoch, n: next_attempt }
}

fn event(id: &str, data: &str) -> NewEvent {
    NewEvent {
        id: Some(id.to_owned()),
        event_type: "order.created".to_owned(),
        subject: None,
        data: RawValue::from_string(data.to_owned()).expect("JSON"),
    }
}
