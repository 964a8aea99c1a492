//! The event that carries a batch of SQS messages, and the response that reports the failed ones.

use holdfast_aws::batch::{Item, Settled};
use holdfast_aws::queue::{parse_receive_count, received};
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
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Attributes {
    approximate_receive_count: Option<String>,
    message_group_id: Option<String>,
}

pub(crate) fn items(event: &str) -> Result<Vec<Item>, NotABatch> {
    let event: Event = serde_json::from_str(event)?;
    Ok(event.records.into_iter().map(item).collect())
}

fn item(record: Record) -> Item {
    let Attributes { approximate_receive_count, message_group_id } = record.attributes;
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
