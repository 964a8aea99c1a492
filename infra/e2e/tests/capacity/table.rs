//! Items and indexes, and what each read and write of them costs.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use holdfast_e2e::strict_aws::units::{item_bytes, read_units, write_units};
use serde_json::Value;

use crate::expressions::Item;
use crate::meter::{Meter, TABLE};

/// A response of a query holds at most this much.
const MAX_QUERY_BYTES: usize = 1 << 20;

/// An index and its attributes.
struct Index {
    name: &'static str,
    hash: &'static str,
    range: &'static str,
}

const INDEXES: [Index; 5] = [
    Index { name: "sweep", hash: "sweep_shard", range: "look_at" },
    Index { name: "by-tenant", hash: "list_tenant", range: "listed" },
    Index { name: "by-url", hash: "list_url", range: "listed" },
    Index { name: "by-subscription", hash: "list_subscription", range: "listed" },
    Index { name: "by-state", hash: "list_state", range: "state_sort" },
];

type Key = (String, String);

/// The value of a range key: numbers are in the order of their values.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Range {
    Number(i128),
    Text(String),
}

impl Range {
    fn of(value: &Value) -> Range {
        match value["S"].as_str() {
            Some(text) => Range::Text(text.to_owned()),
            None => Range::Number(crate::expressions::number(value)),
        }
    }
}

/// An entry of an index: it holds keys only.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    hash: String,
    range: Range,
    key: Key,
    bytes: usize,
}

impl Entry {
    fn of(index: &Index, item: Option<&Item>) -> Option<Entry> {
        let item = item?;
        let (hash, range) = (item.get(index.hash)?, item.get(index.range)?);
        Some(Entry {
            hash: text(hash),
            range: Range::of(range),
            key: key_of(item),
            bytes: item_bytes(&projected(index, item)),
        })
    }
}

fn projected(index: &Index, item: &Item) -> Item {
    let names = ["pk", "sk", index.hash, index.range];
    names.iter().map(|name| ((*name).to_owned(), item[*name].clone())).collect()
}

fn text(value: &Value) -> String {
    value["S"].as_str().unwrap_or_else(|| panic!("{value} is not text")).to_owned()
}

pub(crate) fn key_of(item: &Item) -> Key {
    (text(&item["pk"]), text(&item["sk"]))
}

/// What a query asks for.
pub(crate) struct Query<'a> {
    /// The table if `None`.
    pub(crate) index: Option<&'a str>,
    pub(crate) hash: String,
    pub(crate) matches: &'a dyn Fn(&Item) -> bool,
    pub(crate) start: Option<Item>,
    pub(crate) forward: bool,
    pub(crate) limit: usize,
    pub(crate) consistent: bool,
}

#[derive(Default)]
pub(crate) struct Table {
    items: BTreeMap<String, BTreeMap<String, Item>>,
    entries: HashMap<(&'static str, String), BTreeSet<(Range, Key)>>,
    pub(crate) meter: Meter,
    /// In which second all this happens.
    pub(crate) second: i64,
}

impl Table {
    pub(crate) fn find(&self, key: &Key) -> Option<&Item> {
        self.items.get(&key.0)?.get(&key.1)
    }

    pub(crate) fn get(&mut self, key: &Key, consistent: bool) -> Option<Item> {
        let found = self.find(key).cloned();
        let bytes = found.as_ref().map_or(0, item_bytes);
        self.meter.read(self.second, TABLE, &key.0, read_units(bytes, consistent));
        found
    }

    /// A condition that failed costs as much as a write of the item as it is. `times` is 2 in a transaction.
    pub(crate) fn pay_for_refusal(&mut self, key: &Key, times: f64) {
        let bytes = self.find(key).map_or(0, item_bytes);
        self.meter.write(self.second, TABLE, &key.0, write_units(bytes) * times);
    }

    /// Puts an item, or deletes it. Indexes are updated after the transaction, so that their writes count once.
    pub(crate) fn write(&mut self, key: &Key, after: Option<Item>, times: f64) {
        let before = self.find(key).cloned();
        let larger = before.as_ref().map_or(0, item_bytes).max(after.as_ref().map_or(0, item_bytes));
        self.meter.write(self.second, TABLE, &key.0, write_units(larger) * times);
        for index in &INDEXES {
            let (old, new) = (Entry::of(index, before.as_ref()), Entry::of(index, after.as_ref()));
            // An entry that stays as it is costs nothing; one whose key changes is deleted and put.
            if old == new {
                continue;
            }
            if let Some(old) = old {
                self.meter.write(self.second, index.name, &old.hash, write_units(old.bytes));
                self.entries.entry((index.name, old.hash)).or_default().remove(&(old.range, old.key));
            }
            if let Some(new) = new {
                self.meter.write(self.second, index.name, &new.hash, write_units(new.bytes));
                self.entries.entry((index.name, new.hash)).or_default().insert((new.range, new.key));
            }
        }
        let partition = self.items.entry(key.0.clone()).or_default();
        match after {
            Some(after) => partition.insert(key.1.clone(), after),
            None => partition.remove(&key.1),
        };
    }

    /// The items, and where the next query starts.
    pub(crate) fn query(&mut self, query: &Query<'_>) -> (Vec<Item>, Option<Item>) {
        let (place, all) = match query.index {
            None => (TABLE, self.partition(query)),
            Some(name) => {
                let index = INDEXES.iter().find(|index| index.name == name).expect("a known index");
                (index.name, self.index_partition(index, query))
            }
        };
        let (mut items, mut bytes, mut more) = (Vec::new(), 0, false);
        for item in all {
            if items.len() == query.limit || bytes >= MAX_QUERY_BYTES {
                more = true;
                break;
            }
            bytes += item_bytes(&item);
            items.push(item);
        }
        self.meter.read(self.second, place, &query.hash, read_units(bytes, query.consistent));
        // DynamoDB cannot know that the last item of a full page was the last of all.
        more |= items.len() == query.limit;
        let last = items.last().filter(|_| more).cloned();
        (items, last)
    }

    /// Whether the sweep would find something.
    pub(crate) fn is_overdue(&self, now_ms: i64) -> bool {
        let sweep = self.entries.iter().filter(|((index, _), _)| *index == "sweep");
        let mut first = sweep.filter_map(|(_, places)| places.first());
        first.any(|(look_at, _)| *look_at <= Range::Number(i128::from(now_ms)))
    }

    fn partition(&self, query: &Query<'_>) -> Vec<Item> {
        let after = query.start.as_ref().map(|start| text(&start["sk"]));
        let beyond = |sort: &str| match &after {
            None => true,
            Some(after) if query.forward => sort > after.as_str(),
            Some(after) => sort < after.as_str(),
        };
        let items = self.items.get(&query.hash).into_iter().flatten();
        let items = items.filter(|(sort, item)| beyond(sort) && (query.matches)(item));
        let mut items: Vec<Item> = items.map(|(_, item)| item.clone()).collect();
        if !query.forward {
            items.reverse();
        }
        items
    }

    fn index_partition(&self, index: &Index, query: &Query<'_>) -> Vec<Item> {
        let after = query.start.as_ref().map(|start| (Range::of(&start[index.range]), key_of(start)));
        let beyond = |place: &(Range, Key)| match &after {
            None => true,
            Some(after) if query.forward => place > after,
            Some(after) => place < after,
        };
        let places = self.entries.get(&(index.name, query.hash.clone())).into_iter().flatten();
        let items = places.filter(|place| beyond(place)).filter_map(|(_, key)| self.find(key));
        let items = items.map(|item| projected(index, item)).filter(|item| (query.matches)(item));
        let mut items: Vec<Item> = items.collect();
        if !query.forward {
            items.reverse();
        }
        items
    }
}
