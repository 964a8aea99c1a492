//! What SQS refuses, for the operations that functions call.

use std::collections::HashSet;

use serde_json::Value;

use super::call::{Fields, list, text};
use super::refusal::Refusal;

const MAX_DELAY_SECS: i64 = 900;
const MAX_INVISIBLE_SECS: i64 = 43_200;
const MAX_ENTRIES: usize = 10;
const MAX_ID_CHARS: usize = 80;
const MAX_GROUP_CHARS: usize = 128;
/// On AWS a request may have 1 MiB. Some partitions still have the older limit of 256 KiB, which Holdfast keeps to.
pub const MAX_BYTES: usize = 262_144;

/// Checks a request against the documentation of its operation.
pub fn check(operation: &str, body: &Fields) -> Result<(), Refusal> {
    if text(body, "QueueUrl").is_empty() {
        return Err(Refusal::invalid("MissingParameter", "The request must contain the parameter QueueUrl."));
    }
    match operation {
        "SendMessage" => {
            check_message(body)?;
            check_bytes(message_bytes(body), "InvalidParameterValue")
        }
        "SendMessageBatch" => {
            let entries = check_entries(body)?;
            check_bytes(entries.iter().map(|entry| message_bytes(entry)).sum(), "BatchRequestTooLong")?;
            entries.iter().try_for_each(|entry| check_message(entry))
        }
        "ChangeMessageVisibility" => check_visibility(body),
        "ChangeMessageVisibilityBatch" => {
            check_entries(body)?.iter().try_for_each(|entry| check_visibility(entry))
        }
        "DeleteMessage" => check_receipt(body),
        "DeleteMessageBatch" => check_entries(body)?.iter().try_for_each(|entry| check_receipt(entry)),
        _ => Ok(()),
    }
}

/// Body and attributes: names, types and values.
#[must_use]
pub fn message_bytes(message: &Fields) -> usize {
    let attributes = message.get("MessageAttributes").and_then(Value::as_object).into_iter().flatten();
    let attributes = attributes.map(|(name, attribute)| {
        let part = |field: &str| attribute[field].as_str().map_or(0, str::len);
        name.len() + part("DataType") + part("StringValue") + part("BinaryValue") * 3 / 4
    });
    text(message, "MessageBody").len() + attributes.sum::<usize>()
}

fn check_bytes(bytes: usize, code: &'static str) -> Result<(), Refusal> {
    if bytes > MAX_BYTES {
        return Err(Refusal::invalid(code, format!("{bytes} bytes are more than {MAX_BYTES}")));
    }
    Ok(())
}

fn check_message(message: &Fields) -> Result<(), Refusal> {
    let body = text(message, "MessageBody");
    if body.is_empty() {
        return Err(Refusal::invalid(
            "MissingParameter",
            "The request must contain the parameter MessageBody.",
        ));
    }
    if !body.chars().all(is_allowed) {
        return Err(Refusal::invalid(
            "InvalidMessageContents",
            "The body has characters outside the allowed set.",
        ));
    }
    check_number(message, "DelaySeconds", MAX_DELAY_SECS)?;
    if let Some(group) = message.get("MessageGroupId").and_then(Value::as_str) {
        let is_valid = |c: char| c.is_ascii_alphanumeric() || c.is_ascii_punctuation();
        if group.is_empty() || group.len() > MAX_GROUP_CHARS || !group.chars().all(is_valid) {
            return Err(Refusal::invalid(
                "InvalidParameterValue",
                format!("MessageGroupId {group:?} is invalid"),
            ));
        }
    }
    Ok(())
}

fn is_allowed(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..='\u{10ffff}')
}

fn check_visibility(entry: &Fields) -> Result<(), Refusal> {
    check_receipt(entry)?;
    check_number(entry, "VisibilityTimeout", MAX_INVISIBLE_SECS)
}

fn check_receipt(entry: &Fields) -> Result<(), Refusal> {
    if text(entry, "ReceiptHandle").is_empty() {
        return Err(Refusal::invalid("ReceiptHandleIsInvalid", "The receipt handle is empty."));
    }
    Ok(())
}

fn check_number(fields: &Fields, field: &str, max: i64) -> Result<(), Refusal> {
    match fields.get(field) {
        None => Ok(()),
        Some(value) if value.as_i64().is_some_and(|value| (0..=max).contains(&value)) => Ok(()),
        Some(value) => {
            let message = format!(
                "Value {value} for parameter {field} is invalid. Reason: Must be between 0 and {max}."
            );
            Err(Refusal::invalid("InvalidParameterValue", message))
        }
    }
}

/// The entries of a batch: 1 to 10, with different ids.
fn check_entries(body: &Fields) -> Result<Vec<&Fields>, Refusal> {
    let entries: Vec<&Fields> = list(body, "Entries").iter().filter_map(Value::as_object).collect();
    if entries.is_empty() {
        return Err(Refusal::invalid(
            "EmptyBatchRequest",
            "There should be at least one entry in the request.",
        ));
    }
    if entries.len() > MAX_ENTRIES {
        let message = format!(
            "Maximum number of entries per request are {MAX_ENTRIES}. You have sent {}.",
            entries.len()
        );
        return Err(Refusal::invalid("TooManyEntriesInBatchRequest", message));
    }
    let mut ids = HashSet::new();
    for entry in &entries {
        let id = text(entry, "Id");
        let is_valid = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if id.is_empty() || id.len() > MAX_ID_CHARS || !id.chars().all(is_valid) {
            return Err(Refusal::invalid("InvalidBatchEntryId", format!("{id:?} is no valid id")));
        }
        if !ids.insert(id) {
            return Err(Refusal::invalid("BatchEntryIdsNotDistinct", format!("Id {id} repeated.")));
        }
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn code(operation: &str, mut body: Value) -> &'static str {
        body["QueueUrl"] = json!("http://queue");
        let Value::Object(body) = body else { unreachable!() };
        check(operation, &body).map_or_else(|refusal| refusal.code, |()| "")
    }

    #[test]
    fn messages_are_checked_like_on_aws() {
        let table = [
            (json!({ "MessageBody": "x", "DelaySeconds": 900 }), ""),
            (json!({ "MessageBody": "x", "DelaySeconds": 901 }), "InvalidParameterValue"),
            (json!({ "MessageBody": "x", "DelaySeconds": -1 }), "InvalidParameterValue"),
            (json!({ "MessageBody": "" }), "MissingParameter"),
            (json!({ "MessageBody": "\u{b}" }), "InvalidMessageContents"),
            (json!({ "MessageBody": "\u{ffff}" }), "InvalidMessageContents"),
            (json!({ "MessageBody": "\u{fffd}\t\r\n\u{1f980}" }), ""),
            (json!({ "MessageBody": "x".repeat(MAX_BYTES) }), ""),
            (json!({ "MessageBody": "x".repeat(MAX_BYTES + 1) }), "InvalidParameterValue"),
            (json!({ "MessageBody": "x", "MessageGroupId": "g".repeat(129) }), "InvalidParameterValue"),
        ];
        for (body, expected) in table {
            let shown: String = body.to_string().chars().take(80).collect();
            assert_eq!(code("SendMessage", body), expected, "{shown}");
        }
    }

    #[test]
    fn batches_are_checked_like_on_aws() {
        let entry =
            |id: usize, bytes: usize| json!({ "Id": id.to_string(), "MessageBody": "x".repeat(bytes) });
        let table = [
            ((0..10).map(|id| entry(id, 1)).collect(), ""),
            (Vec::new(), "EmptyBatchRequest"),
            ((0..11).map(|id| entry(id, 1)).collect(), "TooManyEntriesInBatchRequest"),
            (vec![entry(1, 1), entry(1, 1)], "BatchEntryIdsNotDistinct"),
            (vec![json!({ "Id": "a.b", "MessageBody": "x" })], "InvalidBatchEntryId"),
            (vec![entry(1, MAX_BYTES / 2), entry(2, MAX_BYTES / 2)], ""),
            (vec![entry(1, MAX_BYTES / 2), entry(2, MAX_BYTES / 2 + 1)], "BatchRequestTooLong"),
        ];
        for (entries, expected) in table {
            let count = entries.len();
            assert_eq!(
                code("SendMessageBatch", json!({ "Entries": Value::Array(entries) })),
                expected,
                "{count}"
            );
        }
    }

    #[test]
    fn a_message_is_hidden_for_twelve_hours_at_most() {
        let entry = |secs: i64| json!({ "Entries": [{ "Id": "0", "ReceiptHandle": "r", "VisibilityTimeout": secs }] });
        assert_eq!(code("ChangeMessageVisibilityBatch", entry(43_200)), "");
        assert_eq!(code("ChangeMessageVisibilityBatch", entry(43_201)), "InvalidParameterValue");
        assert_eq!(code("DeleteMessage", json!({ "ReceiptHandle": "" })), "ReceiptHandleIsInvalid");
    }
}
