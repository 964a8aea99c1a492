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

/// What must hold for any event. The property test below and the target in `infra/fuzz` call the same function.
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz {
    use holdfast_core::time::Timestamp;
    use serde_json::Value;

    #[must_use]
    pub(crate) fn seeds() -> Vec<&'static [u8]> {
        vec![
            include_bytes!("../events/first.json"),
            include_bytes!("../events/retry.json"),
            include_bytes!("../events/mixed.json"),
            br#"{"Records":[{"messageId":"1","receiptHandle":"r","body":"~","attributes":{"SentTimestamp":"-9223372036854775808"},"messageAttributes":{"delay":{"stringValue":"18446744073709551615"}}}]}"#,
            br#"{"Records":[],"eventSource":"\ud800"}"#,
            br#"{"Records":[]}"#,
        ]
    }

    /// Every message of an event is there to be answered for, in its order, however little of it can be read.
    pub(crate) fn check(input: &[u8]) {
        let Ok(text) = std::str::from_utf8(input) else { return };
        let Ok(batch) = super::read(text) else { return };
        // A field that is not read may hold what has no value, such as half of a surrogate pair.
        let Ok(event) = serde_json::from_str::<Value>(text) else { return };
        let sent: Vec<&str> = event["Records"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|one| one["messageId"].as_str())
            .collect();
        assert_eq!(batch.items.iter().map(|item| item.id.as_str()).collect::<Vec<_>>(), sent);
        assert!(batch.due_at_real.is_none_or(|at| at >= Timestamp::ZERO && !sent.is_empty()));
        for (item, record) in batch.items.iter().zip(event["Records"].as_array().into_iter().flatten()) {
            if let Err(unreadable) = &item.received.message {
                assert_eq!(Some(&*unreadable.payload), record["body"].as_str().map(str::as_bytes));
            }
        }
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

    holdfast_sim::test_hostile_input! {
        1_000,
        any_event_is_read_or_refused => fuzz,
    }

    #[test]
    fn a_batch_is_due_when_its_first_message_is() {
        assert_eq!(due_at_ms(&[message("5000", None), message("1000", Some(85))]), Some(5_000));
        assert_eq!(due_at_ms(&[message("90000", None), message("1000", Some(85))]), Some(86_000));
        assert_eq!(due_at_ms(&[message("?", None)]), None);
    }
}
