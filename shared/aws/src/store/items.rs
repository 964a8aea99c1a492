//! Records as items.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use holdfast_core::ports::Versioned;
use holdfast_core::records::{Key, Listed, Record, Topic, UrlRecord};
use holdfast_core::time::Timestamp;
use serde_json::{Map, Value};

use super::fault::Fault;
use super::values::{number, text, to_attribute, to_map, to_members};

pub(super) type Item = HashMap<String, AttributeValue>;

pub(super) const PK: &str = "pk";
pub(super) const SK: &str = "sk";
pub(super) const VERSION: &str = "version";
pub(super) const WRITER: &str = "writer";
pub(super) const RECORD: &str = "record";
pub(super) const SWEEP_SHARD: &str = "sweep_shard";
pub(super) const LOOK_AT: &str = "look_at";
pub(super) const LIST_TENANT: &str = "list_tenant";
pub(super) const LIST_URL: &str = "list_url";
pub(super) const LIST_SUBSCRIPTION: &str = "list_subscription";
pub(super) const LISTED: &str = "listed";
pub(super) const LIST_TOPIC: &str = "list_topic";
pub(super) const TOPIC_SORT: &str = "topic_sort";
pub(super) const TTL: &str = "ttl";

pub(super) const STATE: &str = "state";
pub(super) const GENERATION: &str = "generation";
pub(super) const STREAK: &str = "streak";
pub(super) const WINDOW_ATTEMPTS: &str = "window_attempts";
pub(super) const WINDOW_FAILURES: &str = "window_failures";
pub(super) const LAST_SUCCESS_AT: &str = "last_success_at";
/// The last batch of outcomes that was counted by an update.
pub(super) const COUNTER: &str = "counter";

/// Fields of a URL record that stand beside `record`, because expressions need them.
const OF_A_URL: [&str; 6] = [STATE, GENERATION, STREAK, WINDOW_ATTEMPTS, WINDOW_FAILURES, LAST_SUCCESS_AT];

/// Kept as JSON text: they hold any JSON that a customer gave, and DynamoDB's numbers, names and nesting are narrower.
const AS_TEXT: [&str; 1] = ["filters"];

/// How many partitions each list is spread over, because one key takes 1,000 writes a second.
pub(super) const LIST_SHARDS: u8 = 8;

pub(super) fn key_item(key: &Key) -> Item {
    Item::from([(PK.to_owned(), text(&key.partition)), (SK.to_owned(), text(&key.sort))])
}

pub(super) fn key_of(item: &Item) -> Result<Key, Fault> {
    let part = |name| item.get(name).and_then(|value| value.as_s().ok()).ok_or(Fault::WithoutKey);
    Ok(Key::new(part(PK)?.clone(), part(SK)?.as_str()))
}

/// A list's partition in one shard.
pub(super) fn list_partition(list: &str, shard: u8) -> String {
    format!("{list}#{shard}")
}

/// The shard of all lists in which a record stands: fixed by its key, like the sweep's.
fn list_shard(key: &Key) -> u8 {
    key.sweep_shard() % LIST_SHARDS
}

/// As DynamoDB takes it, in whole seconds; never before the time that was asked for.
pub(super) fn ttl(remove_at: Timestamp) -> AttributeValue {
    number(remove_at.as_millis().div_euclid(1000) + i64::from(remove_at.as_millis() % 1000 > 0))
}

/// The whole item of a record.
pub(super) fn item_of(record: &Record, version: u64, writer: &str) -> Result<Item, Fault> {
    let key = record.key();
    let mut item = key_item(&key);
    let (fields, raised) = fields_of(record)?;
    item.insert(RECORD.to_owned(), AttributeValue::M(fields));
    item.extend(raised);
    item.insert(VERSION.to_owned(), number(version));
    item.insert(WRITER.to_owned(), text(writer));
    let entries = record.index_entries();
    if let Some(look_at) = entries.look_at {
        item.extend(sweep_entry(&key, look_at));
    }
    if let Some(listed) = entries.listed {
        item.extend(list_entries(&key, listed));
    }
    if let Some(topic) = entries.topic {
        item.extend(topic_entry(&key, topic));
    }
    if let Some(remove_at) = entries.remove_at {
        item.insert(TTL.to_owned(), ttl(remove_at));
    }
    Ok(item)
}

pub(super) fn sweep_entry(key: &Key, look_at: Timestamp) -> [(String, AttributeValue); 2] {
    [
        (SWEEP_SHARD.to_owned(), text(key.sweep_shard().to_string())),
        (LOOK_AT.to_owned(), number(look_at.as_millis())),
    ]
}

fn list_entries(key: &Key, listed: Listed) -> [(String, AttributeValue); 4] {
    let partition = |list: &str| text(list_partition(list, list_shard(key)));
    [
        (LIST_TENANT.to_owned(), partition(&listed.by_tenant)),
        (LIST_URL.to_owned(), partition(&listed.by_url)),
        (LIST_SUBSCRIPTION.to_owned(), partition(&listed.by_subscription)),
        (LISTED.to_owned(), text(listed.sort)),
    ]
}

pub(super) fn topic_entry(key: &Key, topic: Topic) -> [(String, AttributeValue); 2] {
    [
        (LIST_TOPIC.to_owned(), text(list_partition(&topic.partition, list_shard(key)))),
        (TOPIC_SORT.to_owned(), text(topic.sort)),
    ]
}

/// The fields of a record: those under `record`, and those beside it.
pub(super) fn fields_of(record: &Record) -> Result<(Item, Item), Fault> {
    let Ok(Value::Object(mut fields)) = serde_json::to_value(record) else { return Err(Fault::Unwritable) };
    // Only the record's own: a `null` deeper down may be somebody's value.
    fields.retain(|_, value| !value.is_null());
    let mut raised = Item::new();
    if matches!(record, Record::Url(_)) {
        for name in OF_A_URL {
            raised.extend(fields.remove(name).map(|value| (name.to_owned(), to_attribute(value))));
        }
    }
    for name in AS_TEXT {
        if let Some(value) = fields.get_mut(name) {
            *value = Value::String(value.to_string());
        }
    }
    Ok((to_map(fields), raised))
}

pub(super) fn read(item: Item) -> Result<Versioned, Fault> {
    let key = key_of(&item)?;
    read_fields(item).ok_or(Fault::Unreadable(key))
}

fn read_fields(mut item: Item) -> Option<Versioned> {
    let version = version_of(&item)?;
    let Some(AttributeValue::M(fields)) = item.remove(RECORD) else { return None };
    let mut fields: Map<String, Value> = to_members(fields)?;
    for name in AS_TEXT {
        if let Some(Value::String(json)) = fields.get(name) {
            let value = serde_json::from_str(json).ok()?;
            fields.insert(name.to_owned(), value);
        }
    }
    let raised = OF_A_URL.iter().filter_map(|name| item.remove_entry(*name)).collect();
    fields.extend(to_members(raised)?);
    let record = serde_json::from_value(Value::Object(fields)).ok()?;
    Some(Versioned { record, version })
}

/// `None` too if something else stands where a URL should.
pub(super) fn read_url(item: Item) -> Result<Option<(UrlRecord, u64)>, Fault> {
    let Versioned { record, version } = read(item)?;
    Ok(match record {
        Record::Url(url) => Some((url, version)),
        _ => None,
    })
}

pub(super) fn version_of(item: &Item) -> Option<u64> {
    item.get(VERSION)?.as_n().ok()?.parse().ok()
}

/// Whether an item carries this mark.
pub(super) fn is_marked(item: &Item, name: &str, mark: &str) -> bool {
    item.get(name).and_then(|value| value.as_s().ok()).is_some_and(|found| found == mark)
}

#[cfg(test)]
#[path = "items_tests.rs"]
mod tests;
