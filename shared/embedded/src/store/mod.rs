mod overdue;
mod pages;
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

use crate::checksum;
use crate::error::Failure;
use crate::lane::{Lane, in_jobs, row_cost};
use crate::readers::Readers;
use crate::rows::{self, Row, Stored};
use crate::writer::Writer;
use pages::MAX_READ_BYTES;

pub struct EmbeddedStore {
    pub(crate) writer: Arc<Writer>,
    pub(crate) readers: Arc<Readers>,
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

/// What a read takes of the 128 units that tokio gives a task before others have a turn. A read keeps its thread, so a task makes sixteen at
/// a time.
const READ_UNITS: usize = 8;
/// How many records one read brings, if they are not large.
const ROWS_AT_A_TIME: usize = 16;

impl EmbeddedStore {
    async fn read<T, E>(&self, read: impl FnOnce(&Connection) -> Result<T, E> + Send) -> Result<T, Failure>
    where
        Failure: From<E>,
    {
        for _ in 0..READ_UNITS {
            tokio::task::consume_budget().await;
        }
        self.readers.read(read)
    }

    /// A page of up to `limit` records behind `after`, in reads of a few rows.
    async fn read_page(
        &self,
        limit: usize,
        after: Option<String>,
        read: impl Fn(&Connection, usize, Option<String>) -> Result<Page, Failure> + Send + Sync,
    ) -> Result<Page, StoreError> {
        let mut page = Page { items: Vec::new(), next: after };
        loop {
            let rows = (limit - page.items.len()).min(ROWS_AT_A_TIME);
            let after = page.next.take();
            let some = self.read(|connection| read(connection, rows, after)).await?;
            let is_cut = some.items.len() < rows && some.next.is_some();
            page.items.extend(some.items);
            page.next = some.next;
            if page.next.is_none() || page.items.len() >= limit {
                return Ok(page);
            }
            if is_cut {
                tokio::task::yield_now().await;
            }
        }
    }
}

/// The first of these records: so many that a task may read them at a time.
fn get_some(connection: &Connection, keys: &[Key]) -> rusqlite::Result<Vec<Found>> {
    let mut all = Vec::new();
    let mut bytes = 0;
    for key in keys.iter().take(ROWS_AT_A_TIME) {
        let found = rows::get_sized(connection, key)?;
        bytes += found.as_ref().map_or(0, |(bytes, _)| *bytes);
        all.push(found.map(|(_, found)| found));
        if bytes >= MAX_READ_BYTES {
            break;
        }
    }
    Ok(all)
}

/// The first of these bodies: at least one, and so many that a task may read them at a time.
fn get_some_bodies(connection: &Connection, keys: &[BodyKey]) -> Result<Vec<Option<Bytes>>, Failure> {
    let mut get = connection
        .prepare_cached("SELECT body, checksum FROM bodies WHERE tenant = ?1 AND event_key = ?2")?;
    let (mut all, mut bytes) = (Vec::new(), 0);
    for key in keys.iter().take(ROWS_AT_A_TIME) {
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
            let some = self.read(|connection| get_some(connection, rest)).await?;
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
        let read = |connection: &Connection, limit, after| {
            pages::query(connection, &Query { limit, after, ..query.clone() })
        };
        self.read_page(limit, after, read).await
    }

    async fn query_index(&self, query: IndexQuery) -> Result<Page, StoreError> {
        let (limit, after) = (query.limit, query.after.clone());
        let read = |connection: &Connection, limit, after| {
            pages::query_index(connection, &IndexQuery { limit, after, ..query.clone() })
        };
        self.read_page(limit, after, read).await
    }

    async fn count_index(&self, count: IndexCount) -> Result<Count, StoreError> {
        Ok(self.read(|connection| pages::count_index(connection, &count)).await?)
    }

    async fn overdue(&self, shard: u8, until: Timestamp, limit: usize) -> Result<Vec<Versioned>, StoreError> {
        self.overdue_by_turns(shard, until, limit).await
    }

    async fn write(&self, writes: Vec<Write>) -> Result<(), WriteError> {
        let changes = changes(writes)?;
        let lane = changes.first().map_or_else(Lane::own, |change| Lane::of_record(&change.key));
        let lane = lane.costing(changes.iter().map(Change::cost).sum());
        let written = self.writer.run(lane, move |connection| change(connection, &changes)).await;
        written.map_err(StoreError::from)?
    }

    async fn put_each(&self, records: Vec<Record>) -> Result<Vec<Record>, StoreError> {
        let jobs = in_jobs(records.iter().map(|record| (record, Row::of(record))), |(_, row)| row.cost());
        let jobs = jobs.into_iter().map(|(some, cost)| {
            let lane = Lane::of_records(some.iter().map(|(record, _)| *record)).costing(cost);
            let rows: Vec<Row> = some.into_iter().map(|(_, row)| row).collect();
            let put_all = move |connection: &Connection| {
                rows.iter().map(|row| row.put(connection)).collect::<rusqlite::Result<Vec<bool>>>()
            };
            self.writer.run(lane, put_all)
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
        self.writer.run(lane, move |connection| count(connection, &key, &outcomes, now)).await?
    }

    async fn put_bodies(
        &self,
        bodies: Vec<(BodyKey, Bytes)>,
        remove_at: Timestamp,
    ) -> Result<(), StoreError> {
        let jobs = in_jobs(bodies, |(_, body)| row_cost(body.len())).into_iter().map(|(bodies, cost)| {
            let lane = bodies.first().map_or_else(Lane::own, |(key, _)| Lane::of_tenant(key.tenant.as_str()));
            self.writer.run(lane.costing(cost), put_bodies(bodies, remove_at))
        });
        try_join_all(jobs).await?;
        Ok(())
    }

    async fn get_bodies(&self, keys: &[BodyKey]) -> Result<Vec<Option<Bytes>>, StoreError> {
        let mut all = Vec::with_capacity(keys.len());
        loop {
            let rest = &keys[all.len()..];
            all.extend(self.read(|connection| get_some_bodies(connection, rest)).await?);
            if all.len() == keys.len() {
                return Ok(all);
            }
            tokio::task::yield_now().await;
        }
    }

    async fn keep_body(&self, key: &BodyKey, remove_at: Timestamp) -> Result<bool, StoreError> {
        let lane = Lane::of_tenant(key.tenant.as_str());
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
}

fn put_bodies(
    bodies: Vec<(BodyKey, Bytes)>,
    remove_at: Timestamp,
) -> impl FnMut(&Connection) -> rusqlite::Result<()> + Send {
    // Here, so that the one writing thread has less to do.
    let checksums: Vec<u32> =
        bodies.iter().map(|(key, body)| checksum::of(&body_key_bytes(key), body)).collect();
    move |connection| {
        let mut put = connection.prepare_cached(
            "INSERT INTO bodies (tenant, event_key, remove_at, body, checksum) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (tenant, event_key) DO UPDATE SET remove_at = max(remove_at, excluded.remove_at)",
        )?;
        for ((key, body), checksum) in bodies.iter().zip(&checksums) {
            let (tenant, event_key) = (key.tenant.as_str(), key.event_key.as_str());
            put.execute(params![tenant, event_key, remove_at.as_millis(), &body[..], checksum])?;
        }
        Ok(())
    }
}

fn body_key_bytes(key: &BodyKey) -> [&[u8]; 2] {
    [key.tenant.as_str().as_bytes(), key.event_key.as_str().as_bytes()]
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

type Counted = Result<Option<(UrlRecord, UrlRecord)>, StoreError>;

fn count(connection: &Connection, key: &Key, outcomes: &[Outcome], now: Now) -> rusqlite::Result<Counted> {
    let Some(found) = rows::get(connection, key)? else { return Ok(Ok(None)) };
    let before = match found.map(|found| found.record) {
        Ok(Record::Url(before)) => before,
        Ok(Record::Newer { key, version }) => return Ok(Err(rows::newer(key, version))),
        Ok(_) => return Ok(Ok(None)),
        Err(error) => return Ok(Err(error)),
    };
    let mut after = before.clone();
    let history = after.count(outcomes, now);
    let records = std::iter::once(Record::Url(after.clone())).chain(history.into_iter().map(Record::History));
    for record in records {
        Row::of(&record).put(connection)?;
    }
    Ok(Ok(Some((before, after))))
}
