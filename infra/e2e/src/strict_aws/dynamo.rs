//! What DynamoDB refuses, for the operations that functions call.

use std::collections::HashSet;

use serde_json::Value;

use super::call::{Fields, object, text};
use super::expression;
use super::refusal::Refusal;
use super::schema::{Keys, Schema};
use super::touch::{Kind, Touch, touches};
use super::units::item_bytes;

const MAX_ITEM_BYTES: usize = 400 * 1_024;
const MAX_PARTITION_KEY_BYTES: usize = 2_048;
const MAX_SORT_KEY_BYTES: usize = 1_024;
const MAX_BATCH_WRITES: usize = 25;
const MAX_BATCH_READS: usize = 100;
const MAX_TRANSACTION_ITEMS: usize = 100;
const MAX_TRANSACTION_BYTES: usize = 4 * 1_024 * 1_024;
const MAX_BATCH_BYTES: usize = 16 * 1_024 * 1_024;

/// Checks a request against the documentation of its operation.
pub fn check(operation: &str, body: &Fields, schema: &Schema) -> Result<(), Refusal> {
    if operation == "Query" {
        return check_query(body, schema);
    }
    let touched = touches(operation, body);
    check_count(operation, &touched)?;
    for touch in &touched {
        check_keys(touch, schema)?;
        if touch.bytes() > MAX_ITEM_BYTES {
            return Err(Refusal::validation("Item size has exceeded the maximum allowed size"));
        }
        // A batch of writes has no expressions.
        if operation != "BatchWriteItem" {
            expression::check(touch.fields)?;
        }
    }
    let mut keys = HashSet::new();
    if !touched.iter().all(|touch| keys.insert(touch.key(schema))) {
        let message = if operation.starts_with("Transact") {
            "Transaction request cannot include multiple operations on one item"
        } else {
            "Provided list of item keys contains duplicates"
        };
        return Err(Refusal::validation(message));
    }
    Ok(())
}

fn check_count(operation: &str, touched: &[Touch<'_>]) -> Result<(), Refusal> {
    let (max, max_bytes) = match operation {
        "BatchWriteItem" => (MAX_BATCH_WRITES, MAX_BATCH_BYTES),
        "BatchGetItem" => (MAX_BATCH_READS, MAX_BATCH_BYTES),
        "TransactWriteItems" | "TransactGetItems" => (MAX_TRANSACTION_ITEMS, MAX_TRANSACTION_BYTES),
        _ => (1, MAX_ITEM_BYTES),
    };
    if !(1..=max).contains(&touched.len()) {
        let message =
            format!("{operation} has {} items; Member must have length between 1 and {max}", touched.len());
        return Err(Refusal::validation(message));
    }
    let bytes: usize = touched.iter().map(Touch::bytes).sum();
    if max > 1 && bytes > max_bytes {
        return Err(Refusal::validation(format!("{operation} has {bytes} bytes, more than {max_bytes}")));
    }
    Ok(())
}

/// A key has exactly the attributes of the table's key, a put at least these. Values of keys, also of indexes, are not empty.
fn check_keys(touch: &Touch<'_>, schema: &Schema) -> Result<(), Refusal> {
    check_key(touch.item, &schema.keys, true)?;
    if touch.kind != Kind::Put {
        if touch.item.len() != schema.keys.names().count() {
            return Err(Refusal::validation("The provided key element does not match the schema"));
        }
        return Ok(());
    }
    schema.indexes.iter().try_for_each(|index| check_key(touch.item, &index.keys, false))
}

fn check_key(item: &Fields, keys: &Keys, required: bool) -> Result<(), Refusal> {
    let limits = [MAX_PARTITION_KEY_BYTES, MAX_SORT_KEY_BYTES];
    for (name, max) in keys.names().zip(limits) {
        let Some(value) = item.get(name) else {
            if required {
                return Err(Refusal::validation(format!("Missing the key {name} in the item")));
            }
            continue;
        };
        let text = ["S", "N", "B"].iter().find_map(|kind| value[*kind].as_str());
        let Some(text) = text else {
            return Err(Refusal::validation(format!("Type mismatch for key {name}")));
        };
        if text.is_empty() {
            let message = "One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty string value.";
            return Err(Refusal::validation(format!("{message} Key: {name}")));
        }
        if text.len() > max {
            let message = format!("Size of {name} has exceeded the maximum size limit of {max} bytes");
            return Err(Refusal::validation(message));
        }
    }
    Ok(())
}

fn check_query(body: &Fields, schema: &Schema) -> Result<(), Refusal> {
    expression::check(body)?;
    let (select, projects) = (text(body, "Select"), body.contains_key("ProjectionExpression"));
    if projects && !matches!(select, "" | "SPECIFIC_ATTRIBUTES") {
        let message = format!("Cannot specify the ProjectionExpression when choosing to get {select}");
        return Err(Refusal::validation(message));
    }
    if select == "SPECIFIC_ATTRIBUTES" && !projects {
        return Err(Refusal::validation(
            "Must specify the ProjectionExpression when choosing to get SPECIFIC_ATTRIBUTES",
        ));
    }
    if body.get("Limit").is_some_and(|limit| limit.as_i64().is_none_or(|limit| limit < 1)) {
        return Err(Refusal::validation("Limit must be at least 1"));
    }
    if !body.contains_key("KeyConditionExpression") {
        return Err(Refusal::validation(
            "Either the KeyConditions or KeyConditionExpression parameter must be specified",
        ));
    }
    let Some(index) = body.get("IndexName").and_then(Value::as_str) else {
        return if select == "ALL_PROJECTED_ATTRIBUTES" {
            Err(Refusal::validation(
                "ALL_PROJECTED_ATTRIBUTES can be used only when Querying using an IndexName",
            ))
        } else {
            Ok(())
        };
    };
    let Some(index) = schema.index(index) else {
        return Err(Refusal::validation(format!("The table does not have the specified index: {index}")));
    };
    if body.get("ConsistentRead") == Some(&Value::Bool(true)) {
        return Err(Refusal::validation("Consistent reads are not supported on global secondary indexes"));
    }
    if index.keys_only && select == "ALL_ATTRIBUTES" {
        let message =
            format!("Select type ALL_ATTRIBUTES is not supported for global secondary index {}", index.name);
        return Err(Refusal::validation(message));
    }
    check_projected(body, schema, &index.keys, index.keys_only)
}

/// An index that projects only keys answers, and filters by, nothing else.
fn check_projected(body: &Fields, schema: &Schema, index: &Keys, keys_only: bool) -> Result<(), Refusal> {
    if !keys_only {
        return Ok(());
    }
    let names = object(body, "ExpressionAttributeNames");
    let projection =
        text(body, "ProjectionExpression").split(',').map(str::trim).filter(|name| !name.is_empty());
    for name in projection {
        let name = names.and_then(|names| names.get(name)).and_then(Value::as_str).unwrap_or(name);
        if !schema.keys.names().chain(index.names()).any(|key| key == name) {
            return Err(Refusal::validation(format!("Global secondary index does not project {name}")));
        }
    }
    Ok(())
}

/// The bytes of all items of an answer, for the units that a read takes.
#[must_use]
pub fn answered_bytes(answer: &Value) -> Vec<usize> {
    let mut sizes = Vec::new();
    if let Some(item) = answer["Item"].as_object() {
        sizes.push(item_bytes(item));
    }
    let of_query = answer["Items"].as_array();
    let of_batch = answer["Responses"].as_object().into_iter().flat_map(serde_json::Map::values);
    let lists = of_query.into_iter().chain(of_batch.filter_map(Value::as_array));
    sizes.extend(lists.flatten().filter_map(Value::as_object).map(item_bytes));
    sizes
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::schema::example;
    use super::*;

    fn refused(operation: &str, body: Value) -> String {
        let Value::Object(body) = body else { unreachable!() };
        check(operation, &body, &example()).map_or_else(|refusal| refusal.message, |()| String::new())
    }

    fn key(pk: &str) -> Value {
        json!({ "pk": { "S": pk }, "sk": { "S": "-" } })
    }

    #[test]
    fn items_and_keys_have_limits() {
        let put = |item: Value| refused("PutItem", json!({ "TableName": "t", "Item": item }));
        let with = |name: &str, value: Value| {
            let mut item = key("a");
            item[name] = value;
            item
        };
        let table = [
            (key("a"), ""),
            (key(&"k".repeat(2_048)), ""),
            (key(&"k".repeat(2_049)), "2048"),
            (key(""), "empty string"),
            (json!({ "pk": { "S": "a" } }), "Missing the key sk"),
            (with("sk", json!({ "S": "k".repeat(1_025) })), "1024"),
            (with("body", json!({ "S": "b".repeat(MAX_ITEM_BYTES - 20) })), ""),
            (with("body", json!({ "S": "b".repeat(MAX_ITEM_BYTES) })), "Item size"),
            (with("list_url", json!({ "S": "" })), "empty string"),
            (with("list_url", json!({ "BOOL": true })), "Type mismatch"),
        ];
        for (item, expected) in table {
            let shown: String = item.to_string().chars().take(80).collect();
            let message = put(item);
            assert!(
                message.contains(expected) && expected.is_empty() == message.is_empty(),
                "{shown}: {message}"
            );
        }
        let extra = refused("GetItem", json!({ "TableName": "t", "Key": with("x", json!({ "S": "y" })) }));
        assert!(extra.contains("does not match the schema"));
    }

    #[test]
    fn batches_and_transactions_have_limits() {
        let keys = |count: usize| -> Vec<Value> { (0..count).map(|n| key(&n.to_string())).collect() };
        let twice = vec![key("a"), key("a")];
        let writes = |keys: Vec<Value>| -> Value {
            let deletes: Vec<Value> =
                keys.into_iter().map(|key| json!({ "DeleteRequest": { "Key": key } })).collect();
            json!({ "RequestItems": { "t": deletes } })
        };
        let reads = |keys: Vec<Value>| json!({ "RequestItems": { "t": { "Keys": keys } } });
        let transaction = |keys: Vec<Value>| {
            let items: Vec<Value> =
                keys.into_iter().map(|key| json!({ "Delete": { "TableName": "t", "Key": key } })).collect();
            json!({ "TransactItems": items })
        };
        let table = [
            ("BatchWriteItem", writes(keys(25)), ""),
            ("BatchWriteItem", writes(keys(26)), "between 1 and 25"),
            ("BatchWriteItem", writes(twice.clone()), "duplicates"),
            ("BatchGetItem", reads(keys(100)), ""),
            ("BatchGetItem", reads(keys(101)), "between 1 and 100"),
            ("BatchGetItem", reads(twice.clone()), "duplicates"),
            ("TransactWriteItems", transaction(keys(100)), ""),
            ("TransactWriteItems", transaction(keys(101)), "between 1 and 100"),
            ("TransactWriteItems", transaction(twice), "multiple operations on one item"),
            ("TransactWriteItems", transaction(Vec::new()), "between 1 and 100"),
        ];
        for (operation, body, expected) in table {
            let message = refused(operation, body);
            assert!(
                message.contains(expected) && expected.is_empty() == message.is_empty(),
                "{operation}: {message}"
            );
        }
    }

    #[test]
    fn queries_use_select_and_indexes_as_documented() {
        let query = |more: Value| {
            let mut body = json!({
                "TableName": "t",
                "KeyConditionExpression": "pk = :pk",
                "ExpressionAttributeValues": { ":pk": { "S": "a" } },
            });
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            refused("Query", body)
        };
        let table = [
            (json!({}), ""),
            (json!({ "Select": "COUNT" }), ""),
            (json!({ "Select": "COUNT", "ProjectionExpression": "sk" }), "ProjectionExpression"),
            (json!({ "Select": "SPECIFIC_ATTRIBUTES" }), "ProjectionExpression"),
            (json!({ "Select": "ALL_PROJECTED_ATTRIBUTES" }), "IndexName"),
            (json!({ "IndexName": "none" }), "specified index"),
            (json!({ "IndexName": "by-url", "ConsistentRead": true }), "Consistent"),
            (json!({ "IndexName": "by-url", "Select": "ALL_ATTRIBUTES" }), "ALL_ATTRIBUTES"),
            (json!({ "IndexName": "by-url", "ProjectionExpression": "pk, listed" }), ""),
            (json!({ "IndexName": "by-url", "ProjectionExpression": "record" }), "does not project record"),
            (json!({ "Limit": 0 }), "Limit"),
        ];
        for (more, expected) in table {
            let message = query(more.clone());
            assert!(
                message.contains(expected) && expected.is_empty() == message.is_empty(),
                "{more}: {message}"
            );
        }
    }
}
