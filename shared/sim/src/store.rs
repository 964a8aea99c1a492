use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use holdfast_core::ids::{Tenant, UrlId};
use holdfast_core::ports::{
    BodyKey, Count, Expect, IndexCount, IndexQuery, MAX_KEYS, MAX_WRITES, Order, Page, Query, Store,
    StoreError, Versioned, Write, WriteError,
};
use holdfast_core::records::{Key, ListIndex, Record, Unreadable, UrlRecord, VERSION};
use holdfast_core::rules::health::Outcome;
use holdfast_core::time::Now;
use holdfast_core::time::Timestamp;

/// The store in memory.
#[derive(Default)]
pub struct MemoryStore(Mutex<State>);

const LISTS: [ListIndex; 4] =
    [ListIndex::ByTenant, ListIndex::ByUrl, ListIndex::BySubscription, ListIndex::ByState];

/// Where something stands in a list: its sort key there, and its own key.
type Place = (String, Key);

#[derive(Default)]
struct State {
    records: BTreeMap<Key, Versioned>,
    /// The place and the key of what stands in a list.
    lists: HashMap<(ListIndex, String), BTreeSet<Place>>,
    /// What the sweep looks at, and when, by shard.
    looks: HashMap<u8, BTreeSet<(Timestamp, Key)>>,
    bodies: BTreeMap<BodyKey, (Bytes, Timestamp)>,
    /// Records as a newer release would have written them. They read as [`Record::Newer`].
    newer: BTreeMap<Key, Vec<u8>>,
    puts: Puts,
    keys_read: usize,
}

/// What becomes of records that are put without a condition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Puts {
    #[default]
    Written,
    Refused,
    /// There is never an answer.
    Stuck,
}

/// Where a record stands in the lists.
fn places(record: &Record) -> impl Iterator<Item = ((ListIndex, String), String)> {
    let entries = record.index_entries();
    LISTS.into_iter().filter_map(move |index| {
        let (partition, sort) = entries.clone().in_list(index)?;
        Some(((index, partition), sort))
    })
}

impl State {
    fn put(&mut self, record: Record) {
        let key = record.key();
        self.newer.remove(&key);
        let version = self.remove(&key).map_or(1, |before| before.version + 1);
        for (list, sort) in places(&record) {
            self.lists.entry(list).or_default().insert((sort, key.clone()));
        }
        if let Some(look_at) = record.index_entries().look_at {
            self.looks.entry(key.sweep_shard()).or_default().insert((look_at, key.clone()));
        }
        self.records.insert(key, Versioned { record, version });
    }

    /// As it is read.
    fn read(&self, key: &Key, found: &Versioned) -> Versioned {
        let Some(bytes) = self.newer.get(key) else { return found.clone() };
        let record = Record::decode(|| key.clone(), bytes).expect("a newer record is not corrupt");
        Versioned { record, version: found.version }
    }

    fn remove(&mut self, key: &Key) -> Option<Versioned> {
        self.newer.remove(key);
        let before = self.records.remove(key)?;
        for (list, sort) in places(&before.record) {
            self.lists.entry(list).or_default().remove(&(sort, key.clone()));
        }
        if let Some(look_at) = before.record.index_entries().look_at {
            self.looks.entry(key.sweep_shard()).or_default().remove(&(look_at, key.clone()));
        }
        Some(before)
    }

    fn holds(&self, key: &Key, expect: Expect) -> bool {
        let version = self.records.get(key).map(|found| found.version);
        match expect {
            Expect::Any => true,
            Expect::Absent => version.is_none(),
            Expect::Version(expected) => version == Some(expected),
        }
    }
}

impl MemoryStore {
    #[must_use]
    pub fn new() -> MemoryStore {
        MemoryStore::default()
    }

    /// How many keys were asked for since the store was made.
    #[must_use]
    pub fn keys_read(&self) -> usize {
        self.lock().keys_read
    }

    /// Removes what may be removed by `now`.
    pub fn purge(&self, now: Timestamp) {
        let mut state = self.lock();
        let over = |found: &Versioned| found.record.index_entries().remove_at.is_some_and(|at| at <= now);
        let over: Vec<Key> =
            state.records.iter().filter(|(_, found)| over(found)).map(|(key, _)| key.clone()).collect();
        for key in over {
            state.remove(&key);
        }
        state.bodies.retain(|_, (_, remove_at)| *remove_at > now);
    }

    /// Turns every record into one that a newer release wrote: with the next version, and a field that this release does not know.
    ///
    /// # Panics
    /// If a record is not a JSON object.
    pub fn make_newer(&self) {
        let mut state = self.lock();
        let newer = state.records.iter().map(|(key, found)| {
            let mut fields = found.record.to_fields();
            fields.insert("v".to_owned(), (VERSION + 1).into());
            fields.insert("from_the_next_release".to_owned(), true.into());
            (key.clone(), serde_json::to_vec(&fields).expect("fields are JSON"))
        });
        state.newer = newer.collect();
    }

    /// The newer records as they are stored.
    #[must_use]
    pub fn newer(&self) -> BTreeMap<Key, Vec<u8>> {
        self.lock().newer.clone()
    }

    /// This release is the newer one: it reads everything again.
    pub fn make_current(&self) {
        self.lock().newer.clear();
    }

    pub fn let_puts_be(&self, puts: Puts) {
        self.lock().puts = puts;
    }

    /// The bytes of a tenant's records that count.
    #[must_use]
    pub fn record_bytes(&self, tenant: &Tenant) -> u64 {
        let state = self.lock();
        let of_tenant = |key: &Key| key.partition.split('#').nth(1) == Some(tenant.as_str());
        let counted = state.records.iter().filter(|(key, _)| of_tenant(key));
        counted.map(|(_, found)| found.record.counted_bytes(found.record.encode().len())).sum()
    }

    /// The bytes of a tenant's bodies.
    #[must_use]
    pub fn body_bytes(&self, tenant: &Tenant) -> u64 {
        let state = self.lock();
        let of_tenant = state.bodies.iter().filter(|(key, _)| key.tenant == *tenant);
        of_tenant.map(|(_, (body, _))| body.len() as u64).sum()
    }

    /// Whether the sweep would find something.
    #[must_use]
    pub fn is_overdue(&self, now: Timestamp) -> bool {
        self.lock().looks.values().filter_map(BTreeSet::first).any(|(look_at, _)| *look_at <= now)
    }

    /// When the sweep should look at something next.
    #[must_use]
    pub fn next_look_at(&self) -> Option<Timestamp> {
        self.lock().looks.values().filter_map(BTreeSet::first).map(|(look_at, _)| *look_at).min()
    }

    /// The record under this key, as it was written.
    #[must_use]
    pub fn record(&self, key: &Key) -> Option<Record> {
        self.lock().records.get(key).map(|found| found.record.clone())
    }

    /// Every record, in the order of the keys.
    #[must_use]
    pub fn all(&self) -> Vec<Record> {
        self.lock().records.values().map(|found| found.record.clone()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn get(&self, keys: &[Key]) -> Result<Vec<Option<Versioned>>, StoreError> {
        if keys.len() > MAX_KEYS {
            return Err(StoreError::Invalid(format!("{} keys are more than {MAX_KEYS}", keys.len())));
        }
        let mut state = self.lock();
        state.keys_read += keys.len();
        Ok(keys.iter().map(|key| Some(state.read(key, state.records.get(key)?))).collect())
    }

    async fn query(&self, query: Query) -> Result<Page, StoreError> {
        let state = self.lock();
        let place = |sort: String| Key { partition: query.partition.clone(), sort };
        let first = place(query.prefix.clone());
        let after = query.after.clone().map(place);
        let records: Box<dyn Iterator<Item = (&Key, &Versioned)>> = match query.order {
            Order::Ascending => {
                Box::new(state.records.range(after.clone().map_or(first.clone(), |after| after.max(first))..))
            }
            Order::Descending => {
                let end = place(format!("{}{}", query.prefix, char::MAX));
                let end = after.clone().map_or(end.clone(), |after| after.min(end));
                Box::new(state.records.range(..end).rev())
            }
        };
        let found = records
            .filter(|(key, _)| Some(*key) != after.as_ref())
            .take_while(|(key, _)| key.partition == query.partition && key.sort.starts_with(&query.prefix))
            .map(|(key, found)| (key.sort.clone(), state.read(key, found)));
        Ok(page(found, query.limit, Clone::clone))
    }

    async fn query_index(&self, query: IndexQuery) -> Result<Page, StoreError> {
        let after = query.after.as_deref().map(read_cursor).transpose()?;
        let state = self.lock();
        let list = state.lists.get(&(query.index, query.partition)).into_iter();
        let before_all_at = |sort: String| (sort, Key::new(String::new(), ""));
        let (from, to) = (query.from.map(before_all_at), query.to.map(before_all_at));
        let is_in = |place: &Place| {
            from.as_ref().is_none_or(|from| place >= from) && to.as_ref().is_none_or(|to| place < to)
        };
        let places: Box<dyn Iterator<Item = &Place>> = match query.order {
            Order::Ascending => {
                let start = from.clone().max(after.clone()).unwrap_or(before_all_at(String::new()));
                Box::new(list.flat_map(move |list| list.range(start.clone()..)))
            }
            Order::Descending => match to.iter().chain(&after).min().cloned() {
                Some(end) => Box::new(list.flat_map(move |list| list.range(..end.clone()).rev())),
                None => Box::new(list.flat_map(|list| list.iter().rev())),
            },
        };
        let found = places
            .filter(|place| Some(*place) != after.as_ref())
            .take_while(|place| is_in(place))
            .filter_map(|place| Some((place.clone(), state.read(&place.1, state.records.get(&place.1)?))));
        Ok(page(found, query.limit, write_cursor))
    }

    async fn count_index(&self, count: IndexCount) -> Result<Count, StoreError> {
        let state = self.lock();
        let list = state.lists.get(&(count.index, count.partition));
        let from = (count.from.unwrap_or_default(), Key::new(String::new(), ""));
        let counted =
            list.into_iter().flat_map(|list| list.range(from.clone()..)).take(count.limit + 1).count();
        Ok(Count { count: counted.min(count.limit) as u64, more: counted > count.limit })
    }

    async fn overdue(&self, shard: u8, until: Timestamp, limit: usize) -> Result<Vec<Versioned>, StoreError> {
        let state = self.lock();
        let overdue = state.looks.get(&shard).into_iter().flatten();
        let found = overdue
            .take_while(|(look_at, _)| *look_at <= until)
            .filter(|(_, key)| !state.newer.contains_key(key))
            .filter_map(|(_, key)| state.records.get(key).cloned());
        Ok(found.take(limit).collect())
    }

    async fn write(&self, writes: Vec<Write>) -> Result<(), WriteError> {
        check_writes(&writes)?;
        let mut state = self.lock();
        for write in &writes {
            let (Write::Put { expect, .. } | Write::Delete { expect, .. }) = write;
            let key = write.key();
            if !state.holds(&key, *expect) {
                return Err(WriteError::Conflict(key));
            }
        }
        for write in writes {
            match write {
                Write::Put { record, .. } => state.put(record),
                Write::Delete { key, .. } => {
                    state.remove(&key);
                }
            }
        }
        Ok(())
    }

    async fn put_each(&self, records: Vec<Record>) -> Result<Vec<Record>, StoreError> {
        let puts = self.lock().puts;
        match puts {
            Puts::Written => {}
            Puts::Refused => {
                return Err(StoreError::Failed(Arc::new(std::io::Error::other("told to refuse"))));
            }
            Puts::Stuck => std::future::pending().await,
        }
        let mut state = self.lock();
        for record in records {
            state.put(record);
        }
        Ok(Vec::new())
    }

    async fn count_outcomes(
        &self,
        tenant: &Tenant,
        url: &UrlId,
        outcomes: Vec<Outcome>,
        now: Now,
    ) -> Result<Option<(UrlRecord, UrlRecord)>, StoreError> {
        let mut state = self.lock();
        let key = UrlRecord::key(tenant, url);
        let before = match state.records.get(&key).map(|found| state.read(&key, found).record) {
            Some(Record::Url(before)) => before,
            Some(Record::Newer { key, version }) => {
                return Err(StoreError::Unreadable { key, source: Unreadable::Newer(version) });
            }
            _ => return Ok(None),
        };
        let mut after = before.clone();
        let history = after.count(&outcomes, now);
        state.put(Record::Url(after.clone()));
        for entry in history {
            state.put(Record::History(entry));
        }
        Ok(Some((before, after)))
    }

    async fn put_bodies(
        &self,
        bodies: Vec<(BodyKey, Bytes)>,
        remove_at: Timestamp,
    ) -> Result<(), StoreError> {
        let mut state = self.lock();
        for (key, body) in bodies {
            let kept = state.bodies.entry(key).or_insert((body, remove_at));
            kept.1 = kept.1.max(remove_at);
        }
        Ok(())
    }

    async fn get_bodies(&self, keys: &[BodyKey]) -> Result<Vec<Option<Bytes>>, StoreError> {
        let state = self.lock();
        Ok(keys.iter().map(|key| state.bodies.get(key).map(|(body, _)| body.clone())).collect())
    }

    async fn keep_body(&self, key: &BodyKey, remove_at: Timestamp) -> Result<bool, StoreError> {
        let mut state = self.lock();
        let kept = state.bodies.get_mut(key);
        Ok(kept.map(|(_, at)| *at = (*at).max(remove_at)).is_some())
    }

    async fn remove_body(&self, key: &BodyKey) -> Result<(), StoreError> {
        self.lock().bodies.remove(key);
        Ok(())
    }
}

fn check_writes(writes: &[Write]) -> Result<(), StoreError> {
    if writes.len() > MAX_WRITES {
        return Err(StoreError::Invalid(format!("{} writes are more than {MAX_WRITES}", writes.len())));
    }
    let keys: BTreeSet<Key> = writes.iter().map(Write::key).collect();
    if keys.len() < writes.len() {
        return Err(StoreError::Invalid("a transaction writes each key once".to_owned()));
    }
    Ok(())
}

/// One page of `found`, which begins where the page does.
fn page<C>(found: impl Iterator<Item = (C, Versioned)>, limit: usize, cursor: impl Fn(&C) -> String) -> Page {
    let mut found: Vec<(C, Versioned)> = found.take(limit.saturating_add(1)).collect();
    let more = found.len() > limit;
    found.truncate(limit);
    let next = found.last().filter(|_| more).map(|(at, _)| cursor(at));
    Page { items: found.into_iter().map(|(_, found)| found).collect(), next }
}

/// Two records may stand at the same place of a list, so a cursor names the record too.
fn write_cursor((sort, key): &Place) -> String {
    serde_json::json!([sort, key.partition, key.sort]).to_string()
}

fn read_cursor(cursor: &str) -> Result<Place, StoreError> {
    let (sort, partition, key) = serde_json::from_str::<(String, String, String)>(cursor)
        .map_err(|_| StoreError::Invalid("not a cursor of this list".to_owned()))?;
    Ok((sort, Key::new(partition, key)))
}
