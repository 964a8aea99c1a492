mod pages;

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use holdfast_core::ids::{Tenant, UrlId};
use holdfast_core::ports::{
    BodyKey, Count, Expect, IndexCount, IndexQuery, MAX_KEYS, MAX_WRITES, Page, Query, Store, StoreError,
    Versioned, Write, WriteError,
};
use holdfast_core::records::{Key, Record, UrlRecord};
use holdfast_core::rules::health::Outcome;
use holdfast_core::time::Now;
use holdfast_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use crate::readers::Readers;
use crate::rows::{self, Row};
use crate::writer::Writer;

/// The store in a file.
pub struct EmbeddedStore {
    writer: Arc<Writer>,
    readers: Arc<Readers>,
}

#[expect(clippy::large_enum_variant, reason = "a change is made and consumed at once, and most are puts")]
enum Change {
    Put(Row, Expect),
    Delete(Key, Expect),
}

impl Change {
    fn expects(&self) -> (&Key, Expect) {
        match self {
            Change::Put(row, expect) => (&row.key, *expect),
            Change::Delete(key, expect) => (key, *expect),
        }
    }
}

impl EmbeddedStore {
    pub(crate) fn new(writer: Arc<Writer>, readers: Arc<Readers>) -> EmbeddedStore {
        EmbeddedStore { writer, readers }
    }

    pub(crate) async fn purge(&self, now: Timestamp, limit: usize) -> Result<usize, StoreError> {
        let (now, limit) = (now.as_millis(), pages::row_count(limit));
        self.writer
            .ask(move |connection| {
                let mut removed = 0;
                for table in ["records", "bodies"] {
                    let sql = format!(
                        "DELETE FROM {table} WHERE rowid IN
                             (SELECT rowid FROM {table} WHERE remove_at <= ?1 ORDER BY remove_at LIMIT ?2)"
                    );
                    removed += connection.prepare_cached(&sql)?.execute(params![now, limit])?;
                }
                Ok(removed)
            })
            .await
    }
}

pub(crate) fn unread(e: rusqlite::Error) -> StoreError {
    StoreError(e.to_string())
}

#[async_trait]
impl Store for EmbeddedStore {
    async fn get(&self, keys: &[Key]) -> Result<Vec<Option<Versioned>>, StoreError> {
        if keys.len() > MAX_KEYS {
            return Err(StoreError(format!("{} keys are more than {MAX_KEYS}", keys.len())));
        }
        let found: rusqlite::Result<Vec<_>> =
            self.readers.read(|connection| keys.iter().map(|key| rows::get(connection, key)).collect());
        found.map_err(unread)?.into_iter().map(|raw| raw.map(rows::Raw::read).transpose()).collect()
    }

    async fn query(&self, query: Query) -> Result<Page, StoreError> {
        self.readers.read(|connection| pages::query(connection, &query))
    }

    async fn query_index(&self, query: IndexQuery) -> Result<Page, StoreError> {
        self.readers.read(|connection| pages::query_index(connection, &query))
    }

    async fn count_index(&self, count: IndexCount) -> Result<Count, StoreError> {
        self.readers.read(|connection| pages::count_index(connection, &count))
    }

    async fn overdue(&self, shard: u8, until: Timestamp, limit: usize) -> Result<Vec<Versioned>, StoreError> {
        self.readers.read(|connection| pages::overdue(connection, shard, until, limit))
    }

    async fn write(&self, writes: Vec<Write>) -> Result<(), WriteError> {
        let changes = changes(writes)?;
        let conflict = self.writer.ask(move |connection| change(connection, &changes)).await?;
        conflict.map_or(Ok(()), |key| Err(WriteError::Conflict(key)))
    }

    async fn put_each(&self, records: Vec<Record>) -> Result<Vec<Record>, StoreError> {
        let rows = records.iter().map(Row::of).collect::<Result<Vec<_>, _>>()?;
        self.writer.ask(move |connection| rows.iter().try_for_each(|row| row.put(connection))).await?;
        Ok(Vec::new())
    }

    async fn count_outcomes(
        &self,
        tenant: &Tenant,
        url: &UrlId,
        outcomes: Vec<Outcome>,
        now: Now,
    ) -> Result<Option<(UrlRecord, UrlRecord)>, StoreError> {
        let key = UrlRecord::key(tenant, url);
        self.writer.ask(move |connection| count(connection, &key, &outcomes, now)).await?
    }

    async fn put_bodies(
        &self,
        bodies: Vec<(BodyKey, Bytes)>,
        remove_at: Timestamp,
    ) -> Result<(), StoreError> {
        let remove_at = remove_at.as_millis();
        let put = move |connection: &Connection| {
            let mut put = connection.prepare_cached(
                "INSERT INTO bodies (tenant, event_key, remove_at, body) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT (tenant, event_key) DO UPDATE SET remove_at = max(remove_at, excluded.remove_at)",
            )?;
            for (key, body) in &bodies {
                put.execute(params![key.tenant.as_str(), key.event_key.as_str(), remove_at, &body[..]])?;
            }
            Ok(())
        };
        self.writer.ask(put).await
    }

    async fn get_bodies(&self, keys: &[BodyKey]) -> Result<Vec<Option<Bytes>>, StoreError> {
        let get = |connection: &Connection| {
            let mut get =
                connection.prepare_cached("SELECT body FROM bodies WHERE tenant = ?1 AND event_key = ?2")?;
            let get_one = |key: &BodyKey| {
                get.query_row(params![key.tenant.as_str(), key.event_key.as_str()], |row| {
                    row.get::<_, Vec<u8>>(0)
                })
                .optional()
                .map(|found| found.map(Bytes::from))
            };
            keys.iter().map(get_one).collect::<rusqlite::Result<Vec<_>>>()
        };
        self.readers.read(get).map_err(unread)
    }

    async fn keep_body(&self, key: &BodyKey, remove_at: Timestamp) -> Result<bool, StoreError> {
        let (key, remove_at) = (key.clone(), remove_at.as_millis());
        let keep = move |connection: &Connection| {
            let changed = connection
                .prepare_cached(
                    "UPDATE bodies SET remove_at = max(remove_at, ?3) WHERE tenant = ?1 AND event_key = ?2",
                )?
                .execute(params![key.tenant.as_str(), key.event_key.as_str(), remove_at])?;
            Ok(changed > 0)
        };
        self.writer.ask(keep).await
    }
}

/// Checks the limits of a transaction and prepares its rows.
fn changes(writes: Vec<Write>) -> Result<Vec<Change>, StoreError> {
    if writes.len() > MAX_WRITES {
        return Err(StoreError(format!("{} writes are more than {MAX_WRITES}", writes.len())));
    }
    let mut changes = Vec::with_capacity(writes.len());
    for write in writes {
        changes.push(match write {
            Write::Put { record, expect } => Change::Put(Row::of(&record)?, expect),
            Write::Delete { key, expect } => Change::Delete(key, expect),
        });
    }
    let keys: HashSet<&Key> = changes.iter().map(|change| change.expects().0).collect();
    if keys.len() < changes.len() {
        return Err(StoreError("a transaction writes each key once".to_owned()));
    }
    Ok(changes)
}

/// Makes all changes, or none and answers the key that is not as expected.
fn change(connection: &Connection, changes: &[Change]) -> rusqlite::Result<Option<Key>> {
    // All conditions first: the transaction is shared with others and cannot be rolled back for this one alone.
    for change in changes {
        let (key, expect) = change.expects();
        if !rows::holds(connection, key, expect)? {
            return Ok(Some(key.clone()));
        }
    }
    for change in changes {
        match change {
            Change::Put(row, _) => row.put(connection)?,
            Change::Delete(key, _) => rows::delete(connection, key)?,
        }
    }
    Ok(None)
}

type Counted = Result<Option<(UrlRecord, UrlRecord)>, StoreError>;

fn count(connection: &Connection, key: &Key, outcomes: &[Outcome], now: Now) -> rusqlite::Result<Counted> {
    let Some(raw) = rows::get(connection, key)? else { return Ok(Ok(None)) };
    let before = match raw.read() {
        Ok(Versioned { record: Record::Url(before), .. }) => before,
        Ok(_) => return Ok(Ok(None)),
        Err(e) => return Ok(Err(e)),
    };
    let mut after = before.clone();
    let history = after.count(outcomes, now);
    let records = std::iter::once(Record::Url(after.clone())).chain(history.into_iter().map(Record::History));
    let rows = match records.map(|record| Row::of(&record)).collect::<Result<Vec<_>, _>>() {
        Ok(rows) => rows,
        Err(e) => return Ok(Err(e)),
    };
    rows.iter().try_for_each(|row| row.put(connection))?;
    Ok(Ok(Some((before, after))))
}
