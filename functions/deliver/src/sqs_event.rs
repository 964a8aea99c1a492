//! The event with which Lambda hands over a batch of SQS, and the answer that says what of it failed.

use holdfast_aws::batch::{Item, Settled};
use holdfast_core::ports::Receipt;
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
    /// SQS writes all attributes as text.
    approximate_receive_count: Option<String>,
    message_group_id: Option<String>,
}

pub(crate) fn items(event: &str) -> Result<Vec<Item>, NotABatch> {
    let event: Event = serde_json::from_str(event)?;
    Ok(event.records.into_iter().map(item).collect())
}

fn item(record: Record) -> Item {
    let receive_count = record.attributes.approximate_receive_count.and_then(|count| count.parse().ok());
    Item {
        id: record.message_id,
        receipt: Receipt(record.receipt_handle),
        text: record.body,
        group: record.attributes.message_group_id,
        // Rather too high than too low, should SQS ever leave it out.
        receive_count: receive_count.unwrap_or(u32::MAX),
    }
}

/// What Lambda reads when the mapping reports failures item by item. All items that are not in it are deleted.
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
