use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use holdfast_core::ids::{Tenant, UrlId};
use holdfast_core::ports::{
    BodyKey, Clock, Count, IndexCount, IndexQuery, Page, Query, Store, StoreError, Versioned, Write,
    WriteError,
};
use holdfast_core::records::{Key, Record, UrlRecord};
use holdfast_core::rules::health::Outcome;
use holdfast_core::time::{Now, Timestamp};

use super::faults::{Faults, Service};
use crate::MemoryStore;

/// How far an index may lag behind.
const LAG: Duration = Duration::from_secs(2);

/// When records were last written, which an index may not know yet. One for all hosts.
#[derive(Default)]
pub(super) struct LastWrites(Mutex<BTreeMap<Key, Timestamp>>);

/// The store as a host sees it: time passes before and after every effect, and calls fail.
pub(super) struct FaultyStore {
    pub(super) store: Arc<MemoryStore>,
    pub(super) faults: Arc<Faults>,
    pub(super) last_writes: Arc<LastWrites>,
}

macro_rules! call {
    ($self:ident, $call:expr) => {{
        $self.faults.pass().await;
        let fate = $self.faults.fate(Service::Store);
        if let Some(error) = fate.store_error().filter(|_| fate.is_before()) {
            return Err(error.into());
        }
        let answer = $call.await;
        $self.faults.pass().await;
        match fate.store_error() {
            Some(error) => Err(error.into()),
            None => answer,
        }
    }};
}

impl FaultyStore {
    fn wrote(&self, keys: impl IntoIterator<Item = Key>) {
        let now = self.faults.time.now();
        let mut last = self.last_writes.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.retain(|_, at| *at + LAG >= now);
        last.extend(keys.into_iter().map(|key| (key, now)));
    }

    /// What an index shows: now and then without the last changes.
    fn seen(&self, found: Vec<Versioned>) -> Vec<Versioned> {
        let rates = self.faults.rates();
        if !self.faults.happens(rates.stale, "fault: an index is stale") {
            return found;
        }
        let now = self.faults.time.now();
        let last = self.last_writes.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known =
            |found: &Versioned| last.get(&found.record.key()).is_none_or(|written| *written + LAG < now);
        found.into_iter().filter(is_known).collect()
    }
}

#[async_trait]
impl Store for FaultyStore {
    async fn get(&self, keys: &[Key]) -> Result<Vec<Option<Versioned>>, StoreError> {
        call!(self, self.store.get(keys))
    }

    async fn query(&self, query: Query) -> Result<Page, StoreError> {
        call!(self, self.store.query(query))
    }

    async fn query_index(&self, query: IndexQuery) -> Result<Page, StoreError> {
        let page: Result<Page, StoreError> = call!(self, self.store.query_index(query));
        page.map(|page| Page { items: self.seen(page.items), ..page })
    }

    async fn count_index(&self, count: IndexCount) -> Result<Count, StoreError> {
        call!(self, self.store.count_index(count))
    }

    async fn overdue(&self, shard: u8, until: Timestamp, limit: usize) -> Result<Vec<Versioned>, StoreError> {
        // A sweep reads many shards: time passes only where there is something.
        let found = self.store.overdue(shard, until, limit).await?;
        if found.is_empty() {
            return Ok(found);
        }
        call!(self, async { Ok(self.seen(found)) })
    }

    async fn write(&self, writes: Vec<Write>) -> Result<(), WriteError> {
        let keys: Vec<Key> = writes.iter().map(Write::key).collect();
        let written: Result<(), WriteError> = call!(self, async {
            let written = self.store.write(writes).await;
            if written.is_ok() {
                self.wrote(keys);
            }
            written
        });
        written
    }

    async fn put_each(&self, mut records: Vec<Record>) -> Result<Vec<Record>, StoreError> {
        let partial = self.faults.happens(self.faults.rates().partial, "fault: a batch is written in part");
        let kept =
            if partial { self.faults.dice.below(records.len() as u64) as usize } else { records.len() };
        let left = records.split_off(kept);
        let answer: Result<Vec<Record>, StoreError> = call!(self, async {
            self.wrote(records.iter().map(Record::key));
            self.store.put_each(records).await
        });
        answer.map(|mut more| {
            more.extend(left);
            more
        })
    }

    async fn count_outcomes(
        &self,
        tenant: &Tenant,
        url: &UrlId,
        outcomes: Vec<Outcome>,
        now: Now,
    ) -> Result<Option<(UrlRecord, UrlRecord)>, StoreError> {
        call!(self, async {
            self.wrote([UrlRecord::key(tenant, url)]);
            self.store.count_outcomes(tenant, url, outcomes, now).await
        })
    }

    async fn put_bodies(
        &self,
        bodies: Vec<(BodyKey, Bytes)>,
        remove_at: Timestamp,
    ) -> Result<(), StoreError> {
        call!(self, self.store.put_bodies(bodies, remove_at))
    }

    async fn get_bodies(&self, keys: &[BodyKey]) -> Result<Vec<Option<Bytes>>, StoreError> {
        call!(self, self.store.get_bodies(keys))
    }

    async fn keep_body(&self, key: &BodyKey, remove_at: Timestamp) -> Result<bool, StoreError> {
        call!(self, self.store.keep_body(key, remove_at))
    }
}
