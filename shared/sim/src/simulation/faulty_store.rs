use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use holdfast_core::ids::{Tenant, UrlId};
use holdfast_core::ports::{
    BodyKey, Clock, Count, IndexCount, IndexQuery, Page, Query, Store, StoreError, Versioned, Write,
    WriteError,
};
use holdfast_core::records::{DeliveryRecord, Key, Record, UrlRecord};
use holdfast_core::rules::health::Outcome;
use holdfast_core::time::{Now, Timestamp};

use super::backend::Backend;
use super::claims::Claims;
use super::faults::{Faults, Service};
use super::observer::Observer;
use super::versions::{Release, Versions};
use crate::block_on;

/// How far an index may lag behind.
const LAG: Duration = Duration::from_secs(2);

/// When records were last written, which an index may not know yet. One for all hosts.
#[derive(Default)]
pub(super) struct LastWrites(Mutex<Recent>);

#[derive(Default)]
struct Recent {
    written_at: BTreeMap<Key, Timestamp>,
    /// The same in the order of time, also of writes that others followed.
    in_order: VecDeque<(Timestamp, Key)>,
}

impl Recent {
    fn wrote(&mut self, keys: Vec<Key>, now: Timestamp) {
        while let Some((at, key)) = self.in_order.front().filter(|(at, _)| *at + LAG < now) {
            if self.written_at.get(key) == Some(at) {
                self.written_at.remove(key);
            }
            self.in_order.pop_front();
        }
        self.in_order.extend(keys.iter().map(|key| (now, key.clone())));
        self.written_at.extend(keys.into_iter().map(|key| (key, now)));
    }
}

/// The store as one process sees it: time passes before and after every effect, and calls fail.
pub(super) struct FaultyStore {
    pub(super) backend: Arc<dyn Backend>,
    pub(super) faults: Arc<Faults>,
    pub(super) last_writes: Arc<LastWrites>,
    pub(super) observer: Arc<Observer>,
    pub(super) versions: Arc<Versions>,
    pub(super) release: Release,
    pub(super) claims: Arc<Claims>,
    /// The process's own, by which it claims.
    pub(super) clock: Arc<dyn Clock>,
}

/// The effect itself takes no virtual time: an adapter with threads of its own is waited for.
macro_rules! call {
    ($self:ident, $call:expr) => {{
        $self.faults.pass().await;
        let fate = $self.faults.fate(Service::Store);
        if let Some(error) = fate.store_error().filter(|_| fate.is_before()) {
            return Err(error.into());
        }
        let answer = block_on($call);
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
        let keys: Vec<Key> = keys.into_iter().collect();
        self.versions.wrote(self.release, keys.iter().cloned());
        let mut last = self.last_writes.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.wrote(keys, now);
    }

    /// What an index shows: now and then without the last changes.
    fn seen(&self, found: Vec<Versioned>) -> Vec<Versioned> {
        let rates = self.faults.rates();
        if !self.faults.happens(rates.stale, "fault: an index is stale") {
            return found;
        }
        let now = self.faults.time.now();
        let last = self.last_writes.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known = |found: &Versioned| {
            last.written_at.get(&found.record.key()).is_none_or(|written| *written + LAG < now)
        };
        found.into_iter().filter(is_known).collect()
    }

    /// As this process's release reads it.
    fn read(&self, page: Page) -> Page {
        let items = page.items.into_iter().map(|found| self.versions.read(self.release, found)).collect();
        Page { items, ..page }
    }

    /// What this release must not write over.
    fn refusal(&self, keys: &[Key]) -> Option<StoreError> {
        keys.iter().find_map(|key| self.versions.refusal(self.release, key))
    }

    fn stored(&self, keys: &[Key]) -> BTreeMap<Key, Record> {
        let found = block_on(self.backend.store().get(keys)).unwrap_or_default();
        found.into_iter().flatten().map(|found| (found.record.key(), found.record)).collect()
    }

    /// Writes, and shows the observer what became of URLs and deliveries.
    fn write_observed(&self, writes: Vec<Write>) -> Result<Vec<DeliveryRecord>, WriteError> {
        let keys: Vec<Key> = writes.iter().map(Write::key).collect();
        if let Some(error) = self.refusal(&keys) {
            return Err(error.into());
        }
        let before = self.stored(&keys);
        block_on(self.backend.store().write(writes))?;
        self.wrote(keys.iter().cloned());
        let after = self.stored(&keys);
        let now = self.faults.time.now();
        let mut replaced = Vec::new();
        for (key, before) in before {
            let Some(after) = after.get(&key) else { continue };
            self.observer.replaced(
                &before,
                after,
                || self.generation_of(&before),
                (now, self.clock.now_real()),
            );
            if let Record::Delivery(before) = before {
                replaced.push(before);
            }
        }
        Ok(replaced)
    }

    /// The generation of the URL that a delivery is headed for.
    fn generation_of(&self, delivery: &Record) -> u64 {
        let Record::Delivery(delivery) = delivery else { return 0 };
        let key = UrlRecord::key(&delivery.key.tenant, &delivery.url_id);
        match self.stored(std::slice::from_ref(&key)).remove(&key) {
            Some(Record::Url(url)) => url.health.generation,
            _ => 0,
        }
    }
}

fn deliveries(writes: &[Write]) -> impl Iterator<Item = &DeliveryRecord> {
    writes.iter().filter_map(|write| match write {
        Write::Put { record: Record::Delivery(delivery), .. } => Some(delivery),
        _ => None,
    })
}

#[async_trait]
impl Store for FaultyStore {
    async fn get(&self, keys: &[Key]) -> Result<Vec<Option<Versioned>>, StoreError> {
        let found: Result<Vec<_>, StoreError> = call!(self, self.backend.store().get(keys));
        let read = |found: Option<Versioned>| found.map(|found| self.versions.read(self.release, found));
        found.map(|found| found.into_iter().map(read).collect())
    }

    async fn query(&self, query: Query) -> Result<Page, StoreError> {
        let page: Result<Page, StoreError> = call!(self, self.backend.store().query(query));
        page.map(|page| self.read(page))
    }

    async fn query_index(&self, query: IndexQuery) -> Result<Page, StoreError> {
        let page: Result<Page, StoreError> = call!(self, self.backend.store().query_index(query));
        page.map(|page| self.read(Page { items: self.seen(page.items), ..page }))
    }

    async fn count_index(&self, count: IndexCount) -> Result<Count, StoreError> {
        call!(self, self.backend.store().count_index(count))
    }

    async fn overdue(&self, shard: u8, until: Timestamp, limit: usize) -> Result<Vec<Versioned>, StoreError> {
        // A sweep reads many shards: time passes only where there is something.
        let mut found = block_on(self.backend.store().overdue(shard, until, limit))?;
        found.retain(|found| !self.versions.is_unreadable(self.release, &found.record.key()));
        if found.is_empty() {
            return Ok(found);
        }
        call!(self, async { Ok(self.seen(found)) })
    }

    async fn write(&self, writes: Vec<Write>) -> Result<(), WriteError> {
        let written: Vec<(DeliveryRecord, bool)> = deliveries(&writes)
            .map(|delivery| (delivery.clone(), self.claims.is_unused(&delivery.key.id())))
            .collect();
        for (delivery, _) in &written {
            self.claims.use_for(&delivery.key.id());
        }
        let replaced: Result<Vec<DeliveryRecord>, WriteError> =
            call!(self, async { self.write_observed(writes) });
        for before in replaced? {
            let Some((after, was_unused)) = written.iter().find(|(after, _)| after.key == before.key) else {
                continue;
            };
            if !self.claims.wrote(&before, after, *was_unused) {
                let what =
                    format!("{} had {:?} and has {:?}", after.key.id(), before.progress, after.progress);
                self.observer.report("an attempt that was not made is no take", what);
            }
        }
        Ok(())
    }

    async fn put_each(&self, mut records: Vec<Record>) -> Result<Vec<Record>, StoreError> {
        let partial = self.faults.happens(self.faults.rates().partial, "fault: a batch is written in part");
        let kept =
            if partial { self.faults.dice.below(records.len() as u64) as usize } else { records.len() };
        let left = records.split_off(kept);
        let answer: Result<Vec<Record>, StoreError> = call!(self, async {
            let keys: Vec<Key> = records.iter().map(Record::key).collect();
            if let Some(error) = self.refusal(&keys) {
                return Err(error);
            }
            self.wrote(keys);
            self.backend.store().put_each(records).await
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
            let key = UrlRecord::key(tenant, url);
            if let Some(error) = self.refusal(std::slice::from_ref(&key)) {
                return Err(error);
            }
            self.wrote([key]);
            let counted = self.backend.store().count_outcomes(tenant, url, outcomes.clone(), now).await;
            if let Ok(Some((before, after))) = &counted {
                self.observer.counted(before, after, &outcomes, self.faults.time.now());
            }
            counted
        })
    }

    async fn put_bodies(
        &self,
        bodies: Vec<(BodyKey, Bytes)>,
        remove_at: Timestamp,
    ) -> Result<(), StoreError> {
        call!(self, self.backend.store().put_bodies(bodies, remove_at))
    }

    async fn get_bodies(&self, keys: &[BodyKey]) -> Result<Vec<Option<Bytes>>, StoreError> {
        call!(self, self.backend.store().get_bodies(keys))
    }

    async fn keep_body(&self, key: &BodyKey, remove_at: Timestamp) -> Result<bool, StoreError> {
        call!(self, self.backend.store().keep_body(key, remove_at))
    }

    async fn remove_body(&self, key: &BodyKey) -> Result<(), StoreError> {
        call!(self, self.backend.store().remove_body(key))
    }
}
