//! Limits by partition key, in the table and in each index, and a limit for the whole table.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use serde_json::Value;
use tokio::time::Instant;

use super::call::{Fields, object, text};
use super::schema::Schema;
use super::touch::Touch;
use super::units::{READ_UNITS_PER_PARTITION, WRITE_UNITS_PER_PARTITION, write_units};

/// Units a second.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub partition_writes: f64,
    pub partition_reads: f64,
    pub table_writes: f64,
    pub table_reads: f64,
}

impl Limits {
    /// What AWS gives a partition, divided by `scale`, so that a small test meets the limits, and a new table. The table's are not divided:
    /// one transaction of a hundred items would take more than a second of them.
    #[must_use]
    pub fn scaled(scale: f64) -> Limits {
        Limits {
            partition_writes: WRITE_UNITS_PER_PARTITION / scale,
            partition_reads: READ_UNITS_PER_PARTITION / scale,
            table_writes: 4_000.0,
            table_reads: 12_000.0,
        }
    }
}

/// Which limit was met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hot {
    Partition,
    Table,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Use {
    Read,
    Write,
}

/// A partition of a table or an index; the whole table has no name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Partition {
    within: String,
    key: String,
}

impl Partition {
    fn table() -> Partition {
        Partition { within: String::new(), key: String::new() }
    }
}

/// What is left of a second's units. A request that takes more than a second's passes if all of them are left; it then has to be made up
/// for.
struct Bucket {
    left: f64,
    at: Instant,
}

pub struct Throttle {
    limits: Limits,
    buckets: Mutex<HashMap<(Use, Partition), Bucket>>,
}

impl Throttle {
    #[must_use]
    pub fn new(limits: Limits) -> Throttle {
        Throttle { limits, buckets: Mutex::default() }
    }

    /// Takes the units of one written item from its partitions, or nothing if one of them is hot. `factor`: 2 in a transaction.
    pub fn write(&self, touch: &Touch<'_>, schema: &Schema, factor: f64, now: Instant) -> Result<(), Hot> {
        let units = write_units(touch.bytes()) * factor;
        let partitions = written_partitions(touch, schema);
        self.take(Use::Write, &partitions, units, now)
    }

    /// Whether a read of these partitions passes. How much it takes is known once it is answered.
    pub fn may_read(&self, partition: &Partition, now: Instant) -> Result<(), Hot> {
        self.take(Use::Read, std::slice::from_ref(partition), 0.0, now)
    }

    pub fn charge_read(&self, partition: &Partition, units: f64, now: Instant) {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        for (partition, limit) in
            [(partition, self.limits.partition_reads), (&Partition::table(), self.limits.table_reads)]
        {
            bucket(&mut buckets, Use::Read, partition, limit, now).left -= units;
        }
    }

    fn take(&self, kind: Use, partitions: &[Partition], units: f64, now: Instant) -> Result<(), Hot> {
        let (of_partition, of_table) = match kind {
            Use::Read => (self.limits.partition_reads, self.limits.table_reads),
            Use::Write => (self.limits.partition_writes, self.limits.table_writes),
        };
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        for partition in partitions {
            if bucket(&mut buckets, kind, partition, of_partition, now).left < units.min(of_partition) {
                return Err(Hot::Partition);
            }
        }
        if bucket(&mut buckets, kind, &Partition::table(), of_table, now).left < units.min(of_table) {
            return Err(Hot::Table);
        }
        for partition in partitions {
            bucket(&mut buckets, kind, partition, of_partition, now).left -= units;
        }
        bucket(&mut buckets, kind, &Partition::table(), of_table, now).left -= units;
        Ok(())
    }
}

/// The bucket as it is now: it fills by its limit every second, and holds one second.
fn bucket<'a>(
    buckets: &'a mut HashMap<(Use, Partition), Bucket>,
    kind: Use,
    partition: &Partition,
    limit: f64,
    now: Instant,
) -> &'a mut Bucket {
    let bucket = buckets.entry((kind, partition.clone())).or_insert(Bucket { left: limit, at: now });
    let passed = now.saturating_duration_since(bucket.at).as_secs_f64();
    bucket.left = (bucket.left + passed * limit).min(limit);
    bucket.at = now;
    bucket
}

/// The partition of the table, and of each index whose key the written item has. An update says nothing about the keys that it leaves
/// as they are.
fn written_partitions(touch: &Touch<'_>, schema: &Schema) -> Vec<Partition> {
    let value =
        |name: &str| touch.item.get(name).or_else(|| set_by_update(touch.fields, name)).map(Value::to_string);
    let mut partitions = Vec::new();
    if let Some(key) = value(&schema.keys.partition) {
        partitions.push(Partition { within: "table".to_owned(), key });
    }
    for index in &schema.indexes {
        if let Some(key) = value(&index.keys.partition) {
            partitions.push(Partition { within: index.name.clone(), key });
        }
    }
    partitions
}

/// The value that an update gives to an attribute, in the form `#name = :value`.
fn set_by_update<'a>(fields: &'a Fields, attribute: &str) -> Option<&'a Value> {
    let update = text(fields, "UpdateExpression");
    let names = object(fields, "ExpressionAttributeNames")?;
    let placeholder = names.iter().find(|(_, name)| *name == attribute)?.0;
    let set = update.split([',']).find_map(|term| {
        let (name, value) = term.trim().trim_start_matches("SET ").split_once('=')?;
        (name.trim() == placeholder).then(|| value.trim())
    })?;
    object(fields, "ExpressionAttributeValues")?.get(set.split(' ').next()?)
}

/// The partition of a read item.
#[must_use]
pub fn read_partition(touch: &Touch<'_>, schema: &Schema) -> Partition {
    let key = touch.item.get(&schema.keys.partition).map(Value::to_string).unwrap_or_default();
    Partition { within: "table".to_owned(), key }
}

/// The partition of a query, whose condition has the form `name = :value`.
#[must_use]
pub fn query_partition(body: &Fields, schema: &Schema) -> Partition {
    let index = schema.index(text(body, "IndexName"));
    let keys = index.map_or(&schema.keys, |index| &index.keys);
    let names = object(body, "ExpressionAttributeNames");
    let terms = text(body, "KeyConditionExpression").split(" AND ");
    let value = terms.filter_map(|term| term.split_once('=')).find_map(|(name, value)| {
        let name = name.trim();
        let name = names.and_then(|names| names.get(name)).and_then(Value::as_str).unwrap_or(name);
        let values = object(body, "ExpressionAttributeValues")?;
        if name == keys.partition { values.get(value.trim()) } else { None }
    });
    let within = index.map_or("table", |index| index.name.as_str()).to_owned();
    Partition { within, key: value.map(Value::to_string).unwrap_or_default() }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::super::schema::example;
    use super::super::touch::touches;
    use super::*;

    const LIMITS: Limits =
        Limits { partition_writes: 2.0, partition_reads: 2.0, table_writes: 5.0, table_reads: 5.0 };

    fn put(pk: &str, list_url: Option<&str>) -> Fields {
        let mut item = json!({ "pk": { "S": pk }, "sk": { "S": "-" } });
        if let Some(url) = list_url {
            item["list_url"] = json!({ "S": url });
        }
        let Value::Object(body) = json!({ "TableName": "t", "Item": item }) else { unreachable!() };
        body
    }

    fn write(throttle: &Throttle, body: &Fields, now: Instant) -> Result<(), Hot> {
        throttle.write(&touches("PutItem", body)[0], &example(), 1.0, now)
    }

    #[test]
    fn a_partition_takes_so_much_in_a_second() {
        let (throttle, now) = (Throttle::new(LIMITS), Instant::now());
        let hot = put("a", None);
        assert_eq!([(); 3].map(|()| write(&throttle, &hot, now)), [Ok(()), Ok(()), Err(Hot::Partition)]);
        assert_eq!(write(&throttle, &put("b", None), now), Ok(()));
        assert_eq!(write(&throttle, &hot, now + Duration::from_millis(600)), Ok(()));
    }

    #[test]
    fn an_index_and_the_table_have_limits_too() {
        let (throttle, now) = (Throttle::new(LIMITS), Instant::now());
        let listed = |n: usize| put(&n.to_string(), Some("u"));
        assert_eq!(
            [0, 1, 2].map(|n| write(&throttle, &listed(n), now)),
            [Ok(()), Ok(()), Err(Hot::Partition)]
        );
        let others: Vec<_> = (3..7).map(|n| write(&throttle, &put(&n.to_string(), None), now)).collect();
        assert_eq!(others, [Ok(()), Ok(()), Ok(()), Err(Hot::Table)]);
    }

    #[test]
    fn a_large_read_is_made_up_for() {
        let (throttle, now) = (Throttle::new(LIMITS), Instant::now());
        let Value::Object(query) = json!({
            "IndexName": "by-url",
            "KeyConditionExpression": "#u = :u AND #l > :l",
            "ExpressionAttributeNames": { "#u": "list_url", "#l": "listed" },
            "ExpressionAttributeValues": { ":u": { "S": "x" }, ":l": { "S": "1" } },
        }) else {
            unreachable!()
        };
        let partition = query_partition(&query, &example());
        assert_eq!(partition, Partition { within: "by-url".to_owned(), key: r#"{"S":"x"}"#.to_owned() });
        assert_eq!(throttle.may_read(&partition, now), Ok(()));
        throttle.charge_read(&partition, 4.0, now);
        assert_eq!(throttle.may_read(&partition, now + Duration::from_millis(900)), Err(Hot::Partition));
        assert_eq!(throttle.may_read(&partition, now + Duration::from_millis(1_100)), Ok(()));
    }

    #[test]
    fn an_update_writes_the_partitions_that_it_names() {
        let Value::Object(body) = json!({
            "Key": { "pk": { "S": "a" }, "sk": { "S": "-" } },
            "UpdateExpression": "SET #v = :v, #u = :u REMOVE #x",
            "ExpressionAttributeNames": { "#v": "version", "#u": "list_url", "#x": "x" },
            "ExpressionAttributeValues": { ":v": { "N": "1" }, ":u": { "S": "url" } },
        }) else {
            unreachable!()
        };
        let found = written_partitions(&touches("UpdateItem", &body)[0], &example());
        let within: Vec<&str> = found.iter().map(|partition| partition.within.as_str()).collect();
        assert_eq!(within, ["table", "by-url"]);
    }
}
