//! The event that carries a batch of SQS messages, and the response that reports the failed ones.

use std::time::Duration;

use holdfast_aws::batch::{Item, Settled};
use holdfast_aws::queue::{parse_receive_count, received};
use holdfast_core::time::Timestamp;
use serde::{Deserialize, Serialize};

#[derive(Debug, thiserror::Error)]
#[error("not an event of SQS")]
pub(crate) struct NotABatch(#[from] serde_json::Error);

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "Records")]
    records: Vec<Record>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Record {
    message_id: String,
    receipt_handle: String,
    body: String,
    attributes: Attributes,
    #[serde(default)]
    message_attributes: MessageAttributes,
}

#[derive(Default, Deserialize)]
struct MessageAttributes {
    delay: Option<MessageAttribute>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MessageAttribute {
    string_value: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Attributes {
    approximate_receive_count: Option<String>,
    message_group_id: Option<String>,
    /// Milliseconds.
    sent_timestamp: Option<String>,
}

/// A batch of messages.
pub(crate) struct Batch {
    pub(crate) items: Vec<Item>,
    /// When the message that was to be handled first should have been, in real time. `None` if SQS does not say.
    pub(crate) due_at_real: Option<Timestamp>,
}

pub(crate) fn read(event: &str) -> Result<Batch, NotABatch> {
    let event: Event = serde_json::from_str(event)?;
    let due_at_real = event.records.iter().filter_map(due_at_real).min();
    Ok(Batch { items: event.records.into_iter().map(item).collect(), due_at_real })
}

/// When it was sent, and then as long as it was delayed.
fn due_at_real(record: &Record) -> Option<Timestamp> {
    let sent_ms: i64 = record.attributes.sent_timestamp.as_ref()?.parse().ok()?;
    let delay = record.message_attributes.delay.as_ref().and_then(|delay| delay.string_value.as_ref());
    let delay_secs = delay.and_then(|secs| secs.parse().ok()).unwrap_or(0);
    Some(Timestamp::from_millis(sent_ms) + Duration::from_secs(delay_secs))
}

fn item(record: Record) -> Item {
    let Attributes { approximate_receive_count, message_group_id, .. } = record.attributes;
    let receive_count = parse_receive_count(approximate_receive_count.as_deref());
    let received = received(record.body, message_group_id, record.receipt_handle, receive_count);
    Item { id: record.message_id, received }
}

/// The response with which a function reports failures item by item. Lambda deletes all other items.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BatchReply {
    batch_item_failures: Vec<Failure>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Failure {
    item_identifier: String,
}

impl From<Settled> for BatchReply {
    fn from(settled: Settled) -> BatchReply {
        let failures = settled.given_back.into_iter().map(|id| Failure { item_identifier: id });
        BatchReply { batch_item_failures: failures.collect() }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn message(sent_ms: &str, delay_secs: Option<u32>) -> Value {
        let attributes = match delay_secs {
            Some(secs) => json!({ "delay": { "stringValue": secs.to_string(), "dataType": "Number" } }),
            None => json!({}),
        };
        json!({
            "messageId": "1",
            "receiptHandle": "r",
            "body": "{}",
            "attributes": { "ApproximateReceiveCount": "1", "SentTimestamp": sent_ms },
            "messageAttributes": attributes,
        })
    }

    fn due_at_ms(messages: &[Value]) -> Option<i64> {
        let event = json!({ "Records": messages }).to_string();
        read(&event).unwrap().due_at_real.map(Timestamp::as_millis)
    }

    #[test]
    fn a_batch_is_due_when_its_first_message_is() {
        assert_eq!(due_at_ms(&[message("5000", None), message("1000", Some(85))]), Some(5_000));
        assert_eq!(due_at_ms(&[message("90000", None), message("1000", Some(85))]), Some(86_000));
        assert_eq!(due_at_ms(&[message("?", None)]), None);
    }
}
