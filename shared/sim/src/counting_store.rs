use std::ops::Sub;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use holdfast_core::ids::{Tenant, UrlId};
use holdfast_core::ports::{
    BodyKey, Count, IndexCount, IndexQuery, Page, Query, Store, StoreError, Versioned, Write, WriteError,
};
use holdfast_core::records::{Key, Record, UrlRecord};
use holdfast_core::rules::health::Outcome;
use holdfast_core::time::{Now, Timestamp};

/// What was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reads {
    /// Calls of the store that read.
    pub calls: u64,
    /// Records and bodies that were read or looked for.
    pub records: u64,
    /// Entries of an index that were counted without reading their records.
    pub entries: u64,
}

impl Sub for Reads {
    type Output = Reads;

    fn sub(self, earlier: Reads) -> Reads {
        Reads {
            calls: self.calls - earlier.calls,
            records: self.records - earlier.records,
            entries: self.entries - earlier.entries,
        }
    }
}

/// A store that counts what is read from it.
pub struct CountingStore {
    inner: Arc<dyn Store>,
    reads: Mutex<Reads>,
}

impl CountingStore {
    #[must_use]
    pub fn new(inner: Arc<dyn Store>) -> CountingStore {
        CountingStore { inner, reads: Mutex::default() }
    }

    /// Since the store was made.
    #[must_use]
    pub fn reads(&self) -> Reads {
        *self.reads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, records: usize, entries: u64) {
        let mut reads = self.reads.lock().unwrap_or_else(PoisonError::into_inner);
        reads.calls += 1;
        reads.records += records as u64;
        reads.entries += entries;
    }
}

#[async_trait]
impl Store for CountingStore {
    async fn get(&self, keys: &[Key]) -> Result<Vec<Option<Versioned>>, StoreError> {
        self.add(keys.len(), 0);
        self.inner.get(keys).await
    }
    async fn query(&self, query: Query) -> Result<Page, StoreError> {
        let page = self.inner.query(query).await?;
        self.add(page.items.len(), 0);
        Ok(page)
    }
    async fn query_index(&self, query: IndexQuery) -> Result<Page, StoreError> {
        let page = self.inner.query_index(query).await?;
        self.add(page.items.len(), 0);
        Ok(page)
    }
    async fn count_index(&self, count: IndexCount) -> Result<Count, StoreError> {
        let counted = self.inner.count_index(count).await?;
        self.add(0, counted.count);
        Ok(counted)
    }
    async fn overdue(&self, shard: u8, until: Timestamp, limit: usize) -> Result<Vec<Versioned>, StoreError> {
        let found = self.inner.overdue(shard, until, limit).await?;
        self.add(found.len(), 0);
        Ok(found)
    }
    async fn write(&self, writes: Vec<Write>) -> Result<(), WriteError> {
        self.inner.write(writes).await
    }
    async fn put_each(&self, records: Vec<Record>) -> Result<Vec<Record>, StoreError> {
        self.inner.put_each(records).await
    }
    async fn count_outcomes(
        &self,
        tenant: &Tenant,
        url: &UrlId,
        outcomes: Vec<Outcome>,
        now: Now,
    ) -> Result<Option<(UrlRecord, UrlRecord)>, StoreError> {
        self.inner.count_outcomes(tenant, url, outcomes, now).await
    }
    async fn put_bodies(
        &self,
        bodies: Vec<(BodyKey, Bytes)>,
        remove_at: Timestamp,
    ) -> Result<(), StoreError> {
        self.inner.put_bodies(bodies, remove_at).await
    }
    async fn get_bodies(&self, keys: &[BodyKey]) -> Result<Vec<Option<Bytes>>, StoreError> {
        self.add(keys.len(), 0);
        self.inner.get_bodies(keys).await
    }
    async fn keep_body(&self, key: &BodyKey, remove_at: Timestamp) -> Result<bool, StoreError> {
        self.inner.keep_body(key, remove_at).await
    }
    async fn remove_body(&self, key: &BodyKey) -> Result<(), StoreError> {
        self.inner.remove_body(key).await
    }
}
