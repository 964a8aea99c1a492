//! Records as items.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use holdfast_core::ports::Versioned;
use holdfast_core::records::{
    Key, Listed, Record, StateEntry, Unreadable, UrlRecord, VERSION as FORMAT_VERSION,
};
use holdfast_core::time::Timestamp;
use serde_json::{Map, Value};

use super::fault::Fault;
use super::terms::Terms;
use super::values::{number, text, to_attribute, to_map, to_members};

pub(super) type Item = HashMap<String, AttributeValue>;

pub(super) const PK: &str = "pk";
pub(super) const SK: &str = "sk";
pub(super) const VERSION: &str = "version";
pub(super) const WRITER: &str = "writer";
pub(super) const RECORD: &str = "record";
/// The version of the format, under `record`.
const FORMAT: &str = "v";
pub(super) const SWEEP_SHARD: &str = "sweep_shard";
pub(super) const LOOK_AT: &str = "look_at";
pub(super) const LIST_TENANT: &str = "list_tenant";
pub(super) const LIST_URL: &str = "list_url";
pub(super) const LIST_SUBSCRIPTION: &str = "list_subscription";
pub(super) const LISTED: &str = "listed";
pub(super) const LIST_STATE: &str = "list_state";
pub(super) const STATE_SORT: &str = "state_sort";
pub(super) const TTL: &str = "ttl";

pub(super) const STATE: &str = "state";
pub(super) const GENERATION: &str = "generation";
pub(super) const STREAK: &str = "streak";
pub(super) const WINDOW_ATTEMPTS: &str = "window_attempts";
pub(super) const WINDOW_FAILURES: &str = "window_failures";
pub(super) const LAST_SUCCESS_AT: &str = "last_success_at";
/// The last batch of outcomes that was counted by an update.
pub(super) const COUNTER: &str = "counter";

/// Fields of a URL record that are attributes of the item, because expressions need them.
const URL_ATTRIBUTES: [&str; 6] =
    [STATE, GENERATION, STREAK, WINDOW_ATTEMPTS, WINDOW_FAILURES, LAST_SUCCESS_AT];

/// Stored as JSON text: they hold any JSON of a customer, and DynamoDB restricts numbers, names and nesting.
const TEXT_FIELDS: [&str; 1] = ["filters"];

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

/// A record's shard in every list: fixed by its key, like the sweep's.
fn list_shard(key: &Key) -> u8 {
    key.sweep_shard() % LIST_SHARDS
}

/// In whole seconds, as DynamoDB takes it; rounded up, so that nothing is removed early.
pub(super) fn ttl(remove_at: Timestamp) -> AttributeValue {
    number(remove_at.as_millis().div_euclid(1000) + i64::from(remove_at.as_millis() % 1000 > 0))
}

/// The whole item of a record.
pub(super) fn item_of(record: &Record, version: u64, writer: &str) -> Item {
    let key = record.key();
    let mut item = key_item(&key);
    let (fields, attributes) = fields_of(record);
    item.insert(RECORD.to_owned(), AttributeValue::M(fields));
    item.extend(attributes);
    item.insert(VERSION.to_owned(), number(version));
    item.insert(WRITER.to_owned(), text(writer));
    let entries = record.index_entries();
    if let Some(look_at) = entries.look_at {
        item.extend(sweep_entry(&key, look_at));
    }
    if let Some(listed) = entries.listed {
        item.extend(list_entries(&key, listed));
    }
    if let Some(entry) = entries.by_state {
        item.extend(state_entry(&key, entry));
    }
    if let Some(remove_at) = entries.remove_at {
        item.insert(TTL.to_owned(), ttl(remove_at));
    }
    item
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

pub(super) fn state_entry(key: &Key, entry: StateEntry) -> [(String, AttributeValue); 2] {
    [
        (LIST_STATE.to_owned(), text(list_partition(&entry.partition, list_shard(key)))),
        (STATE_SORT.to_owned(), text(entry.sort)),
    ]
}

/// The fields of a record: those under `record`, and those that are attributes of the item.
pub(super) fn fields_of(record: &Record) -> (Item, Item) {
    let mut fields = record.to_fields();
    // Only at the top: a `null` deeper down may be a customer's value.
    fields.retain(|_, value| !value.is_null());
    let mut attributes = Item::new();
    if matches!(record, Record::Url(_)) {
        for name in URL_ATTRIBUTES {
            attributes.extend(fields.remove(name).map(|value| (name.to_owned(), to_attribute(value))));
        }
    }
    for name in TEXT_FIELDS {
        if let Some(value) = fields.get_mut(name) {
            *value = Value::String(value.to_string());
        }
    }
    (to_map(fields), attributes)
}

pub(super) fn read(item: Item) -> Result<Versioned, Fault> {
    let key = key_of(&item)?;
    read_record(item, &key).map_err(|source| Fault::Unreadable { key, source })
}

fn read_record(mut item: Item, key: &Key) -> Result<Versioned, Unreadable> {
    let corrupt = |why: &str| Unreadable::Corrupt(why.to_owned());
    let version = version_of(&item).ok_or_else(|| corrupt("its version is missing"))?;
    let Some(AttributeValue::M(mut stored)) = item.remove(RECORD) else {
        return Err(corrupt("its record is missing"));
    };
    // A newer release may store fields in a way that this one does not expect.
    if format_of(&stored).is_some_and(|format| format > FORMAT_VERSION) {
        stored.retain(|name, _| name == FORMAT);
    } else {
        stored.extend(URL_ATTRIBUTES.iter().filter_map(|name| item.remove_entry(*name)));
    }
    let mut fields: Map<String, Value> =
        to_members(stored).ok_or_else(|| corrupt("an attribute has an unknown type"))?;
    for name in TEXT_FIELDS {
        if let Some(Value::String(json)) = fields.get(name) {
            let value = serde_json::from_str(json).map_err(|_| corrupt(&format!("{name} is not JSON")))?;
            fields.insert(name.to_owned(), value);
        }
    }
    let record = Record::from_fields(|| key.clone(), fields)?;
    Ok(Versioned { record, version })
}

fn format_of(stored: &Item) -> Option<u32> {
    stored.get(FORMAT)?.as_n().ok()?.parse().ok()
}

/// The condition that no newer release wrote the record.
pub(super) fn is_readable(terms: &mut Terms) -> String {
    let (record, format) = (terms.name(RECORD), terms.name(FORMAT));
    format!("{record}.{format} <= {}", terms.value("readable", number(FORMAT_VERSION)))
}

/// `None` if the item is another kind of record; an error if a newer release wrote it.
pub(super) fn read_url(item: Item) -> Result<Option<(UrlRecord, u64)>, Fault> {
    let Versioned { record, version } = read(item)?;
    match record {
        Record::Url(url) => Ok(Some((url, version))),
        Record::Newer { key, version } => Err(Fault::Unreadable { key, source: Unreadable::Newer(version) }),
        _ => Ok(None),
    }
}

pub(super) fn version_of(item: &Item) -> Option<u64> {
    item.get(VERSION)?.as_n().ok()?.parse().ok()
}

/// Whether this mark is in an item.
pub(super) fn is_marked(item: &Item, name: &str, mark: &str) -> bool {
    item.get(name).and_then(|value| value.as_s().ok()).is_some_and(|found| found == mark)
}

#[cfg(test)]
#[path = "items_tests.rs"]
mod tests;
