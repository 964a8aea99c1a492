//! Typed reads and conditional writes over the store.

use std::collections::VecDeque;
use std::fmt::Display;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::counters::TenantTotals;
use super::{Result, Unavailable};
use crate::ids::{DeliveryKey, JobId, SubscriptionId, Tenant, UrlId};
use crate::ports::{
    Clock, Expect, IndexQuery, MAX_KEYS, Page, Query, Store, StoreError, Versioned, Write, WriteError,
};
use crate::records::{
    DeathNote, DeliveryRecord, HistoryEntry, JobRecord, Key, Kind, ParkedPointer, Record, Subscription,
    TenantVersion, Unreadable, UrlRecord,
};
use crate::rules::delivery::{DeliveryState, Reason};

/// How many jobs are remembered as stored. Those of URLs at which deliveries die at the same time.
const MAX_JOBS_KNOWN: usize = 256;
/// How often a write is tried again on fresher records before the caller gets an error.
const MAX_CONFLICT_RETRIES: usize = 16;

/// A record and the version under which it was read. Version 0: it is not stored yet.
#[derive(Clone, Debug)]
pub(crate) struct Loaded<T> {
    pub(crate) record: T,
    pub(crate) version: u64,
}

impl<T> Loaded<T> {
    pub(crate) fn not_stored(record: T) -> Loaded<T> {
        Loaded { record, version: 0 }
    }

    pub(crate) fn is_stored(&self) -> bool {
        self.version > 0
    }

    /// What a write over it must expect.
    pub(crate) fn expect(&self) -> Expect {
        if self.is_stored() { Expect::Version(self.version) } else { Expect::Absent }
    }
}

/// What an update makes of a record.
pub(super) enum Change<T, R> {
    /// The record as it shall be, what is written in the same transaction, and what the caller gets then.
    Write(T, Vec<Write>, R),
    /// Nothing is written.
    Keep(R),
}

/// Bounds how often something is tried again because another writer came first.
pub(super) struct ConflictRetries(usize);

impl ConflictRetries {
    pub(super) fn new() -> ConflictRetries {
        ConflictRetries(MAX_CONFLICT_RETRIES)
    }

    /// For records that many writers share, such as the version of a tenant's subscriptions.
    pub(super) fn many() -> ConflictRetries {
        ConflictRetries(200)
    }

    /// Another writer changed `what` first. An error once that has happened too often.
    pub(super) fn again(&mut self, what: impl Display) -> Result<()> {
        self.0 = self.0.checked_sub(1).ok_or_else(|| Unavailable::Conflict(what.to_string()))?;
        Ok(())
    }
}

/// What was found as a record of its kind. An error if a newer release wrote it.
pub(super) fn typed<T: Kind>(found: Option<Versioned>) -> Result<Option<Loaded<T>>> {
    let Some(found) = found else { return Ok(None) };
    if let Record::Newer { key, version } = found.record {
        let source = Unreadable::Newer(version);
        return Err(StoreError::Unreadable { key, source }.into());
    }
    let version = found.version;
    Ok(T::from_record(found.record).map(|record| Loaded { record, version }))
}

pub(super) struct Repository {
    store: Arc<dyn Store>,
    /// Deliveries that died, for metrics.
    deaths: AtomicU64,
    tenant_totals: Arc<TenantTotals>,
    clock: Arc<dyn Clock>,
    /// The jobs that this process stored last.
    jobs_stored: Mutex<VecDeque<JobId>>,
}

impl Repository {
    pub(super) fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        tenant_totals: Arc<TenantTotals>,
    ) -> Repository {
        let (deaths, jobs_stored) = (AtomicU64::default(), Mutex::default());
        Repository { store, clock, deaths, tenant_totals, jobs_stored }
    }

    pub(super) async fn get<T: Kind>(&self, key: Key) -> Result<Option<Loaded<T>>> {
        typed(self.store.get(&[key]).await?.into_iter().next().flatten())
    }

    /// Two records by one read.
    pub(super) async fn get_both<A: Kind, B: Kind>(
        &self,
        a: Key,
        b: Key,
    ) -> Result<(Option<Loaded<A>>, Option<Loaded<B>>)> {
        let mut found = self.store.get(&[a, b]).await?.into_iter();
        Ok((typed(found.next().flatten())?, typed(found.next().flatten())?))
    }

    /// Any number of records in the order of the keys, in as many reads as it takes. Each that a newer release wrote is an error of
    /// its own.
    pub(super) async fn get_each<T: Kind>(&self, keys: &[Key]) -> Result<Vec<Result<Option<Loaded<T>>>>> {
        let found = self.get_all(keys).await?;
        Ok(found.into_iter().map(typed).collect())
    }

    /// The same for keys of several kinds.
    pub(super) async fn get_all(&self, keys: &[Key]) -> Result<Vec<Option<Versioned>>> {
        let mut all = Vec::with_capacity(keys.len());
        for some in keys.chunks(MAX_KEYS) {
            all.extend(self.store.get(some).await?);
        }
        debug_assert_eq!(all.len(), keys.len(), "a store answers for every key");
        Ok(all)
    }

    /// One page of a partition, without the records of other kinds. An error if a newer release wrote one of them: a list that
    /// leaves it out would not be true.
    pub(super) async fn list<T: Kind>(&self, query: Query) -> Result<Page<T>> {
        of_kind(self.store.query(query).await?)
    }

    /// The same of a list index, which may lag behind.
    pub(super) async fn list_index<T: Kind>(&self, query: IndexQuery) -> Result<Page<T>> {
        of_kind(self.store.query_index(query).await?)
    }

    /// `false`: another writer changed something first, and nothing was written.
    pub(super) async fn try_write(&self, writes: Vec<Write>) -> Result<bool> {
        match self.store.write(writes).await {
            Ok(()) => Ok(true),
            Err(WriteError::Conflict(_)) => Ok(false),
            Err(WriteError::Store(error)) => Err(error.into()),
        }
    }

    /// Writes one record over the version that was read. `false`: another writer changed it first.
    pub(super) async fn replace<T: Kind>(&self, record: T, version: u64) -> Result<bool> {
        self.try_write(vec![Write::put(record, Expect::Version(version))]).await
    }

    /// Reads a record, asks `decide` what to make of it and writes that, again if another writer comes first. `None`: there is
    /// no such record.
    pub(super) async fn update<T: Kind, R, E: From<Unavailable>>(
        &self,
        key: Key,
        mut decide: impl FnMut(Loaded<T>) -> Result<Change<T, R>, E>,
    ) -> Result<Option<R>, E> {
        let mut retries = ConflictRetries::new();
        loop {
            let Some(loaded) = self.get::<T>(key.clone()).await? else { return Ok(None) };
            let version = loaded.version;
            let (record, mut writes, result) = match decide(loaded)? {
                Change::Keep(result) => return Ok(Some(result)),
                Change::Write(record, with, result) => (record, with, result),
            };
            writes.push(Write::put(record, Expect::Version(version)));
            if self.try_write(writes).await? {
                return Ok(Some(result));
            }
            retries.again(&key)?;
        }
    }

    pub(super) async fn get_url(&self, tenant: &Tenant, id: &UrlId) -> Result<Option<Loaded<UrlRecord>>> {
        self.get(UrlRecord::key(tenant, id)).await
    }

    /// The newest changes of a URL's state first.
    pub(super) async fn list_history(
        &self,
        tenant: &Tenant,
        id: &UrlId,
        limit: usize,
    ) -> Result<Vec<HistoryEntry>> {
        let query = Query::of(UrlRecord::partition(tenant, id), limit).prefix(HistoryEntry::PREFIX);
        Ok(self.list(query.descending()).await?.items)
    }

    /// The deliveries that are parked at a URL, in the order of their due times.
    pub(super) async fn list_parked(
        &self,
        tenant: &Tenant,
        id: &UrlId,
        after: Option<String>,
        limit: usize,
    ) -> Result<Page<ParkedPointer>> {
        self.list(Query::of(ParkedPointer::partition(tenant, id), limit).after(after)).await
    }

    pub(super) async fn get_subscription(
        &self,
        tenant: &Tenant,
        id: &SubscriptionId,
    ) -> Result<Option<Loaded<Subscription>>> {
        self.get(Subscription::key(tenant, id)).await
    }

    /// The version of the tenant's subscriptions. A tenant that never had any has none stored.
    pub(super) async fn get_tenant_version(&self, tenant: &Tenant) -> Result<Loaded<TenantVersion>> {
        let found = self.get(TenantVersion::key(tenant)).await?;
        Ok(found.unwrap_or_else(|| Loaded::not_stored(TenantVersion::new(tenant))))
    }

    pub(super) async fn get_delivery(&self, key: &DeliveryKey) -> Result<Option<Loaded<DeliveryRecord>>> {
        self.get(DeliveryRecord::key(key)).await
    }

    /// `false`: there is a record already, which is never overwritten.
    pub(super) async fn create_delivery(&self, record: DeliveryRecord) -> Result<bool> {
        let mut writes = vec![Write::put(record.clone(), Expect::Absent)];
        writes.extend(pointer(&record).map(|pointer| Write::put(pointer, Expect::Any)));
        self.try_write(writes).await
    }

    /// Replaces a delivery, or creates one that is not stored yet. Record and pointer enter and leave parked, and move to another
    /// URL, in one transaction; `with` is written in the same one. `false`: another writer changed something first.
    pub(super) async fn replace_delivery(
        &self,
        before: &Loaded<DeliveryRecord>,
        after: DeliveryRecord,
        with: Vec<Write>,
    ) -> Result<bool> {
        let mut writes = with;
        let death = Death::of(before, &after);
        writes.extend(self.note_deaths(std::iter::once((before, &after))).await?);
        writes.extend(writes_of(before, after));
        let is_written = self.try_write(writes).await?;
        self.count_deaths(death.filter(|_| is_written));
        Ok(is_written)
    }

    /// The same for several, in one transaction. `false`: one of them was changed by another writer, and nothing was written.
    pub(super) async fn replace_deliveries(
        &self,
        changes: Vec<(&Loaded<DeliveryRecord>, DeliveryRecord)>,
    ) -> Result<bool> {
        let deaths: Vec<_> = changes.iter().filter_map(|(before, after)| Death::of(before, after)).collect();
        let mut writes = self.note_deaths(changes.iter().map(|(before, after)| (*before, after))).await?;
        writes.extend(changes.into_iter().flat_map(|(before, after)| writes_of(before, after)));
        let is_written = self.try_write(writes).await?;
        self.count_deaths(deaths.into_iter().filter(|_| is_written));
        Ok(is_written)
    }

    /// What is written with deliveries that die, so that each is announced. The job that does so is stored before.
    async fn note_deaths<'a>(
        &self,
        changes: impl Iterator<Item = (&'a Loaded<DeliveryRecord>, &'a DeliveryRecord)>,
    ) -> Result<Vec<Write>> {
        let now = self.clock.now();
        let mut writes = Vec::new();
        for (before, after) in changes {
            let stored = before.is_stored().then_some(&before.record);
            let Some(note) = DeathNote::of(stored, after, now) else { continue };
            self.ensure_job(note.job(&after.url)).await?;
            writes.push(Write::put(note, Expect::Any));
        }
        Ok(writes)
    }

    /// Stores a job unless it is known to be there. It must not be written in the transactions of the deliveries, which would hinder each
    /// other.
    async fn ensure_job(&self, job: JobRecord) -> Result<()> {
        let known = || self.jobs_stored.lock().unwrap_or_else(PoisonError::into_inner);
        if known().iter().any(|id| *id == job.id) {
            return Ok(());
        }
        let id = job.id.clone();
        // If it is there already, it is the same.
        self.try_write(vec![Write::put(job, Expect::Absent)]).await?;
        let mut known = known();
        if known.len() >= MAX_JOBS_KNOWN {
            known.pop_front();
        }
        known.push_back(id);
        Ok(())
    }

    /// One line for each delivery that died: here, because every way to die passes here.
    fn count_deaths(&self, deaths: impl IntoIterator<Item = Death>) {
        for Death { key, url_id, event_type, reason } in deaths {
            self.deaths.fetch_add(1, Ordering::Relaxed);
            self.tenant_totals.count(&key.tenant, |counters| counters.deliveries_dead += 1);
            let (tenant, delivery) = (&key.tenant, key.id());
            let reason = reason.map(Reason::as_str);
            tracing::warn!(%tenant, %url_id, delivery, event_type, reason, "delivery.dead");
        }
    }

    /// How many deliveries died since this was last asked.
    pub(super) fn take_deaths(&self) -> u64 {
        self.deaths.swap(0, Ordering::Relaxed)
    }
}

/// A delivery that is given up.
struct Death {
    key: DeliveryKey,
    url_id: UrlId,
    event_type: String,
    reason: Option<Reason>,
}

impl Death {
    fn of(before: &Loaded<DeliveryRecord>, after: &DeliveryRecord) -> Option<Death> {
        let is_dead = |record: &DeliveryRecord| record.progress.state == DeliveryState::Dead;
        let was_dead = before.is_stored() && is_dead(&before.record);
        (is_dead(after) && !was_dead).then(|| Death {
            key: after.key.clone(),
            url_id: after.url_id.clone(),
            event_type: after.event_type.clone(),
            reason: after.progress.reason,
        })
    }
}

fn writes_of(before: &Loaded<DeliveryRecord>, after: DeliveryRecord) -> Vec<Write> {
    let mut writes = Vec::new();
    let (old, new) = (pointer(&before.record).filter(|_| before.is_stored()), pointer(&after));
    // When only the sweep looked at it, the pointer stays as it is.
    if old != new {
        let replaces = |old: &ParkedPointer| new.as_ref().is_some_and(|new| new.key() == old.key());
        let gone = old.filter(|old| !replaces(old));
        writes.extend(gone.map(|old| Write::delete(old.key(), Expect::Any)));
        writes.extend(new.map(|new| Write::put(new, Expect::Any)));
    }
    writes.push(Write::put(after, before.expect()));
    writes
}

fn pointer(record: &DeliveryRecord) -> Option<ParkedPointer> {
    (record.progress.state == DeliveryState::Parked).then(|| ParkedPointer::of(record))
}

fn of_kind<T: Kind>(page: Page) -> Result<Page<T>> {
    let loaded = page.items.into_iter().filter_map(|found| typed(Some(found)).transpose());
    let items = loaded.map(|loaded| loaded.map(|loaded| loaded.record)).collect::<Result<_, _>>()?;
    Ok(Page { items, next: page.next })
}
