//! Records as items.

use std::collections::HashMap;
use std::str::FromStr;

use aws_sdk_dynamodb::types::AttributeValue;
use holdfast_core::ports::Versioned;
use holdfast_core::records::{Key, Record, Unreadable, UrlRecord, VERSION as FORMAT_VERSION};
use holdfast_core::time::Timestamp;
use serde_json::{Map, Value};

use super::fault::Fault;
use super::spread::{partition_of, pk_of};
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
pub(super) const WINDOW_FIRST_ATTEMPTS: &str = "window_first_attempts";
pub(super) const WINDOW_FIRST_FAILURES: &str = "window_first_failures";
pub(super) const LAST_SUCCESS_AT: &str = "last_success_at";
pub(super) const FIRST_ATTEMPT_AT: &str = "first_attempt_at";
pub(super) const LAST_FAILURE: &str = "last_failure";
pub(super) const FAILING_SINCE: &str = "failing_since";
/// Present only while it is true.
pub(super) const FAILING: &str = "failing";
pub(super) const RECOVERED_AT: &str = "recovered_at";
pub(super) const RECENT_MS: &str = "recent_ms";
/// The last batch of outcomes that was counted by an update.
pub(super) const COUNTER: &str = "counter";

/// Fields of a URL record that are attributes of the item, because expressions need them.
const URL_ATTRIBUTES: [&str; 14] = [
    STATE,
    GENERATION,
    STREAK,
    WINDOW_ATTEMPTS,
    WINDOW_FAILURES,
    WINDOW_FIRST_ATTEMPTS,
    WINDOW_FIRST_FAILURES,
    LAST_SUCCESS_AT,
    FIRST_ATTEMPT_AT,
    LAST_FAILURE,
    FAILING_SINCE,
    FAILING,
    RECOVERED_AT,
    RECENT_MS,
];

/// Stored as JSON text: they hold any JSON of a customer, and DynamoDB restricts numbers, names and nesting.
const TEXT_FIELDS: [&str; 1] = ["filters"];

/// How many partitions each list is spread over, because one key takes 1,000 writes a second: enough for 10,000 deliveries a second of
/// one tenant, or to one URL.
pub(super) const LIST_SHARDS: u8 = 16;

pub(super) fn key_item(key: &Key) -> Item {
    stored_key_item(&pk_of(key), &key.sort)
}

/// `pk` as it is stored.
pub(super) fn stored_key_item(pk: &str, sort: &str) -> Item {
    Item::from([(PK.to_owned(), text(pk)), (SK.to_owned(), text(sort))])
}

pub(super) fn key_of(item: &Item) -> Result<Key, Fault> {
    let part = |name| text_of(item, name).ok_or(Fault::WithoutKey);
    Ok(Key::new(partition_of(part(PK)?).to_owned(), part(SK)?))
}

pub(super) fn text_of<'a>(item: &'a Item, name: &str) -> Option<&'a str> {
    item.get(name)?.as_s().ok().map(String::as_str)
}

pub(super) fn number_of<T: FromStr>(item: &Item, name: &str) -> Option<T> {
    item.get(name)?.as_n().ok()?.parse().ok()
}

/// A list's partition in one shard.
pub(super) fn list_partition(list: &str, shard: u8) -> String {
    format!("{list}#{shard}")
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
    item.extend(attributes);
    let mut set = |name: &str, value| item.insert(name.to_owned(), value);
    set(RECORD, AttributeValue::M(fields));
    set(VERSION, number(version));
    set(WRITER, text(writer));
    // A record's shard is the same in every list: fixed by its key, like the sweep's.
    let partition = |list: &str| text(list_partition(list, key.sweep_shard() % LIST_SHARDS));
    let entries = record.index_entries();
    if let Some(look_at) = entries.look_at {
        set(SWEEP_SHARD, text(key.sweep_shard().to_string()));
        set(LOOK_AT, number(look_at.as_millis()));
    }
    if let Some(listed) = entries.listed {
        set(LIST_TENANT, partition(&listed.by_tenant));
        set(LIST_URL, partition(&listed.by_url));
        set(LIST_SUBSCRIPTION, partition(&listed.by_subscription));
        set(LISTED, text(listed.sort));
    }
    if let Some(entry) = entries.by_state {
        set(LIST_STATE, partition(&entry.partition));
        set(STATE_SORT, text(entry.sort));
    }
    if let Some(remove_at) = entries.remove_at {
        set(TTL, ttl(remove_at));
    }
    item
}

/// The fields of a record: those under `record`, and those that are attributes of the item.
fn fields_of(record: &Record) -> (Item, Item) {
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
    if number_of(&stored, FORMAT).is_some_and(|format: u32| format > FORMAT_VERSION) {
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
    number_of(item, VERSION)
}

#[cfg(test)]
#[path = "items_tests.rs"]
mod tests;
