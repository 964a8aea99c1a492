mod cache;
mod counting;
mod overdue;
mod pages;
#[cfg(test)]
mod plan_tests;
mod purge;

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::try_join_all;
use holdfast_core::ids::{Tenant, UrlId};
use holdfast_core::ports::{
    BodyKey, Count, Expect, IndexCount, IndexQuery, MAX_KEYS, MAX_WRITES, Page, Query, Store, StoreError,
    Versioned, Write, WriteError,
};
use holdfast_core::records::{Key, Record, UrlRecord};
use holdfast_core::rules::health::Outcome;
use holdfast_core::time::{Now, Timestamp};
use rusqlite::{Connection, OptionalExtension, params};
use tokio::sync::oneshot;

use crate::bodies::{NewBody, body_key_bytes, put_bodies};
use crate::checksum;
use crate::error::Failure;
use crate::lane::{Lane, in_jobs, row_cost};
use crate::readers::Readers;
use crate::rows::{self, Row, Stored};
use crate::writer::Writer;
use cache::{Lookup, RecordCache};
use counting::{Ask, Asks, CountJob};
use pages::MAX_READ_BYTES;

pub struct EmbeddedStore {
    pub(crate) writer: Arc<Writer>,
    pub(crate) readers: Arc<Readers>,
    cache: Arc<RecordCache>,
    asks: Arc<Asks>,
}

/// What was found under a key, and whether it can be read.
type Found = Option<Result<Versioned, StoreError>>;

struct Change {
    key: Key,
    expect: Expect,
    /// `None`: the record is deleted.
    row: Option<Row>,
}

impl Change {
    fn cost(&self) -> u64 {
        self.row.as_ref().map_or(1, Row::cost)
    }
}

/// What a read on the caller's thread takes of the 128 units that tokio gives a task before others have a turn: a task makes sixteen at a
/// time.
const READ_UNITS: usize = 8;
/// How many records one read brings, if they are not large.
const ROWS_AT_A_TIME: usize = 16;

impl EmbeddedStore {
    /// A page of up to `limit` records behind `after`, in reads of a few rows: those of other tenants come in between.
    async fn read_page(
        &self,
        lane: Lane,
        limit: usize,
        after: Option<String>,
        read: impl Fn(&Connection, usize, Option<String>) -> Result<Page, Failure> + Clone + Send + 'static,
    ) -> Result<Page, StoreError> {
        let mut page = Page { items: Vec::new(), next: after };
        loop {
            let rows = (limit - page.items.len()).min(ROWS_AT_A_TIME);
            let after = page.next.take();
            let read = read.clone();
            let some =
                self.readers.read(&lane.tenant, move |connection| read(connection, rows, after)).await?;
            page.items.extend(some.items);
            page.next = some.next;
            if page.next.is_none() || page.items.len() >= limit {
                return Ok(page);
            }
        }
    }

    pub(crate) fn new(writer: Arc<Writer>, readers: Arc<Readers>) -> EmbeddedStore {
        EmbeddedStore { writer, readers, cache: Arc::default(), asks: Arc::default() }
    }

    /// The first of these records. From memory if all of them are there, else by one read, so that they fit together.
    async fn get_some(&self, keys: &[Key]) -> Result<Vec<Found>, Failure> {
        let keys = &keys[..keys.len().min(ROWS_AT_A_TIME)];
        let epoch = match self.cache.look_up(keys) {
            Lookup::Known(found) => {
                self.readers.is_intact()?;
                tokio::task::consume_budget().await;
                return Ok(found.into_iter().map(|found| found.map(Ok)).collect());
            }
            Lookup::Unknown(epoch) => epoch,
        };
        let found = if let Some(cold) = keys.iter().find(|key| may_be_on_disk(key)) {
            let tenant = Lane::of_record(cold).tenant;
            let owned = keys.to_vec();
            self.readers.read(&tenant, move |connection| get_some(connection, &owned)).await?
        } else {
            for _ in 0..READ_UNITS {
                tokio::task::consume_budget().await;
            }
            self.readers.read_here(|connection| get_some(connection, keys))?
        };
        for (key, (bytes, found)) in keys.iter().zip(&found).filter(|(key, _)| !may_be_old(key)) {
            match found {
                None => self.cache.add(key, 0, None, epoch),
                Some(Ok(record)) => self.cache.add(key, *bytes, Some(record), epoch),
                Some(Err(_)) => {}
            }
        }
        Ok(found.into_iter().map(|(_, found)| found).collect())
    }
}

/// Deliveries are read when they are retried, replayed or looked at, hours or days after they were written, and a producer may post an id
/// that it posted long ago.
fn may_be_old(key: &Key) -> bool {
    ["deliveries#", "event#"].iter().any(|kind| key.partition.starts_with(kind))
}

/// Whether it may take the disk to read this record. Subscriptions and URLs are read for every first attempt, and a tenant may have thousands
/// of them that it uses once a day. The rest, such as keys and tenants, is little and always in memory.
fn may_be_on_disk(key: &Key) -> bool {
    may_be_old(key) || ["subscriptions#", "url#"].iter().any(|kind| key.partition.starts_with(kind))
}

/// Those of these keys whose records may be kept in memory.
fn cached_keys<'a>(keys: impl Iterator<Item = &'a Key>) -> Vec<Key> {
    keys.filter(|key| !may_be_old(key)).cloned().collect()
}

/// The first of these records: so many that a task may read them at a time.
fn get_some(connection: &Connection, keys: &[Key]) -> rusqlite::Result<Vec<(usize, Found)>> {
    let mut all = Vec::new();
    let mut bytes = 0;
    for key in keys {
        let (size, found) =
            rows::get_sized(connection, key)?.map_or((0, None), |(size, found)| (size, Some(found)));
        bytes += size;
        all.push((size, found));
        if bytes >= MAX_READ_BYTES {
            break;
        }
    }
    Ok(all)
}

const GET_BODY: &str = "SELECT body, checksum FROM bodies WHERE tenant = ?1 AND event_key = ?2";

/// The first of these bodies: at least one, and so many that a task may read them at a time.
fn get_some_bodies(connection: &Connection, keys: &[BodyKey]) -> Result<Vec<Option<Bytes>>, Failure> {
    let mut get = connection.prepare_cached(GET_BODY)?;
    let (mut all, mut bytes) = (Vec::new(), 0);
    for key in keys {
        let values = params![key.tenant.as_str(), key.event_key.as_str()];
        let found = get.query_row(values, |row| Ok((row.get::<_, Vec<u8>>(0)?, row.get(1)?))).optional()?;
        all.push(
            found
                .map(|(body, checksum)| {
                    checksum::check(checksum, &body_key_bytes(key), &body)
                        .map_err(|source| StoreError::Unreadable { key: body_row(key), source })?;
                    bytes += body.len();
                    Ok::<_, StoreError>(Bytes::from(body))
                })
                .transpose()?,
        );
        if bytes >= MAX_READ_BYTES {
            break;
        }
    }
    Ok(all)
}

#[async_trait]
impl Store for EmbeddedStore {
    async fn get(&self, keys: &[Key]) -> Result<Vec<Option<Versioned>>, StoreError> {
        if keys.len() > MAX_KEYS {
            return Err(StoreError::Invalid(format!("{} keys are more than {MAX_KEYS}", keys.len())));
        }
        let mut all = Vec::with_capacity(keys.len());
        loop {
            let rest = &keys[all.len()..];
            let some = self.get_some(rest).await?;
            let is_cut = some.len() < rest.len().min(ROWS_AT_A_TIME);
            for found in some {
                all.push(found.transpose()?);
            }
            if all.len() == keys.len() {
                return Ok(all);
            }
            if is_cut {
                tokio::task::yield_now().await;
            }
        }
    }

    async fn query(&self, query: Query) -> Result<Page, StoreError> {
        let (limit, after) = (query.limit, query.after.clone());
        let lane = Lane::of_partition(&query.partition);
        let read = move |connection: &Connection, limit, after| {
            pages::query(connection, &Query { limit, after, ..query.clone() })
        };
        self.read_page(lane, limit, after, read).await
    }

    async fn query_index(&self, query: IndexQuery) -> Result<Page, StoreError> {
        let (limit, after) = (query.limit, query.after.clone());
        let lane = Lane::of_partition(&query.partition);
        let read = move |connection: &Connection, limit, after| {
            pages::query_index(connection, &IndexQuery { limit, after, ..query.clone() })
        };
        self.read_page(lane, limit, after, read).await
    }

    async fn count_index(&self, count: IndexCount) -> Result<Count, StoreError> {
        let lane = Lane::of_partition(&count.partition);
        let counted =
            self.readers.read(&lane.tenant, move |connection| pages::count_index(connection, &count));
        Ok(counted.await?)
    }

    async fn overdue(&self, shard: u8, until: Timestamp, limit: usize) -> Result<Vec<Versioned>, StoreError> {
        self.overdue_by_turns(shard, until, limit).await
    }

    async fn write(&self, writes: Vec<Write>) -> Result<(), WriteError> {
        let changes = changes(writes)?;
        let lane = changes.first().map_or_else(Lane::own, |change| Lane::of_record(&change.key));
        let lane = lane.costing(changes.iter().map(Change::cost).sum());
        let (cache, changed) =
            (Arc::clone(&self.cache), cached_keys(changes.iter().map(|change| &change.key)));
        let written = self.writer.run_then(
            lane,
            move |connection| change(connection, &changes),
            move |_| cache.forget(&changed),
        );
        written.await.map_err(StoreError::from)?
    }

    async fn put_each(&self, records: Vec<Record>) -> Result<Vec<Record>, StoreError> {
        let jobs = in_jobs(records.iter().map(|record| (record, Row::of(record))), |(_, row)| row.cost());
        let jobs = jobs.into_iter().map(|(some, cost)| {
            let lane = Lane::of_records(some.iter().map(|(record, _)| *record)).costing(cost);
            let rows: Vec<Row> = some.into_iter().map(|(_, row)| row).collect();
            let (cache, changed) = (Arc::clone(&self.cache), cached_keys(rows.iter().map(Row::key)));
            let put_all = move |connection: &Connection| Row::put_all(connection, &rows);
            self.writer.run_then(lane, put_all, move |_| cache.forget(&changed))
        });
        let written = try_join_all(jobs).await?.into_iter().flatten();
        let records = records.into_iter().zip(written);
        Ok(records.filter(|(_, written)| !written).map(|(record, _)| record).collect())
    }

    async fn count_outcomes(
        &self,
        tenant: &Tenant,
        url: &UrlId,
        outcomes: Vec<Outcome>,
        now: Now,
    ) -> Result<Option<(UrlRecord, UrlRecord)>, StoreError> {
        let key = UrlRecord::key(tenant, url);
        let lane = Lane::of_tenant(tenant.as_str());
        let (reply, counted) = oneshot::channel();
        if self.asks.add(&key, Ask { outcomes, now, reply }) {
            let job = CountJob::new(key, Arc::clone(&self.asks), Arc::clone(&self.cache));
            self.writer.submit_only(lane, Box::new(job));
        }
        // A job that is dropped undone drops its senders: the thread has ended.
        counted.await.map_err(|_| Failure::Closed)?
    }

    async fn put_bodies(
        &self,
        bodies: Vec<(BodyKey, Bytes)>,
        remove_at: Timestamp,
    ) -> Result<(), StoreError> {
        let bodies = bodies.into_iter().map(|(key, bytes)| NewBody::new(key, bytes, remove_at));
        let jobs = in_jobs(bodies, |body| row_cost(body.bytes.len())).into_iter().map(|(bodies, cost)| {
            let lane =
                bodies.first().map_or_else(Lane::own, |body| Lane::of_tenant(body.key.tenant.as_str()));
            self.writer.run(lane.costing(cost), move |connection| put_bodies(connection, &bodies))
        });
        try_join_all(jobs).await?;
        Ok(())
    }

    async fn get_bodies(&self, keys: &[BodyKey]) -> Result<Vec<Option<Bytes>>, StoreError> {
        let mut all = Vec::with_capacity(keys.len());
        while let Some(first) = keys.get(all.len()) {
            let some: Vec<BodyKey> = keys[all.len()..].iter().take(ROWS_AT_A_TIME).cloned().collect();
            let read = move |connection: &Connection| get_some_bodies(connection, &some);
            all.extend(self.readers.read(first.tenant.as_str(), read).await?);
        }
        Ok(all)
    }

    async fn keep_body(&self, key: &BodyKey, remove_at: Timestamp) -> Result<bool, StoreError> {
        // Read first, all of it is in memory when the writing thread copies it, and no tenant waits for the disk.
        let Some(body) = self.get_bodies(std::slice::from_ref(key)).await?.into_iter().flatten().next()
        else {
            return Ok(false);
        };
        let lane = Lane::of_tenant(key.tenant.as_str()).costing(row_cost(body.len()));
        let (key, remove_at) = (key.clone(), remove_at.as_millis());
        let keep = move |connection: &Connection| {
            let changed = connection
                .prepare_cached(
                    "UPDATE bodies SET remove_at = max(remove_at, ?3) WHERE tenant = ?1 AND event_key = ?2",
                )?
                .execute(params![key.tenant.as_str(), key.event_key.as_str(), remove_at])?;
            Ok(changed > 0)
        };
        Ok(self.writer.run(lane, keep).await?)
    }

    async fn remove_body(&self, key: &BodyKey) -> Result<(), StoreError> {
        let lane = Lane::of_tenant(key.tenant.as_str());
        let key = key.clone();
        let remove = move |connection: &Connection| {
            connection
                .prepare_cached("DELETE FROM bodies WHERE tenant = ?1 AND event_key = ?2")?
                .execute(params![key.tenant.as_str(), key.event_key.as_str()])
                .map(drop)
        };
        Ok(self.writer.run(lane, remove).await?)
    }
}

/// How an error names a body.
fn body_row(key: &BodyKey) -> Key {
    Key::new(format!("bodies of {}", key.tenant.as_str()), key.event_key.as_str())
}

/// Checks the limits of a transaction and prepares its rows.
fn changes(writes: Vec<Write>) -> Result<Vec<Change>, StoreError> {
    if writes.len() > MAX_WRITES {
        return Err(StoreError::Invalid(format!("{} writes are more than {MAX_WRITES}", writes.len())));
    }
    let change = |write| match write {
        Write::Put { record, expect } => Change { key: record.key(), expect, row: Some(Row::of(&record)) },
        Write::Delete { key, expect } => Change { key, expect, row: None },
    };
    let changes: Vec<Change> = writes.into_iter().map(change).collect();
    let keys: HashSet<&Key> = changes.iter().map(|change| &change.key).collect();
    if keys.len() < changes.len() {
        return Err(StoreError::Invalid("a transaction can write each key only once".to_owned()));
    }
    Ok(changes)
}

/// Makes all changes, or none.
fn change(connection: &Connection, changes: &[Change]) -> rusqlite::Result<Result<(), WriteError>> {
    // All conditions first: the transaction is shared with others and cannot be rolled back for this one alone.
    for change in changes {
        if let Err(error) = check(connection, change)? {
            return Ok(Err(error));
        }
    }
    for change in changes {
        match &change.row {
            Some(row) => {
                row.put(connection)?;
            }
            None => rows::delete(connection, &change.key)?,
        }
    }
    Ok(Ok(()))
}

fn check(connection: &Connection, change: &Change) -> rusqlite::Result<Result<(), WriteError>> {
    let Change { key, expect, row } = change;
    if row.is_none() && *expect == Expect::Any {
        return Ok(Ok(()));
    }
    let stored = Stored::find(connection, key)?;
    if !rows::is_expected(stored.as_ref(), *expect) {
        return Ok(Err(WriteError::Conflict(key.clone())));
    }
    Ok(match stored {
        Some(stored) if row.is_some() => stored.check_format(key).map_err(WriteError::from),
        _ => Ok(()),
    })
}
