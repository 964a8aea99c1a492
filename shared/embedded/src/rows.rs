//! Records as rows.

use holdfast_core::ports::{Expect, StoreError, Versioned};
use holdfast_core::records::{Key, Listed, Record, Topic};
use rusqlite::{Connection, OptionalExtension, params};

/// A record ready to be written. Made where the write is asked for, so that the one writing thread has less to do.
pub(crate) struct Row {
    pub(crate) key: Key,
    data: Vec<u8>,
    look: Option<(u8, i64)>,
    listed: Option<Listed>,
    topic: Option<Topic>,
    remove_at: Option<i64>,
}

impl Row {
    pub(crate) fn of(record: &Record) -> Result<Row, StoreError> {
        let key = record.key();
        let entries = record.index_entries();
        Ok(Row {
            data: serde_json::to_vec(record).map_err(|e| StoreError(e.to_string()))?,
            look: entries.look_at.map(|at| (key.sweep_shard(), at.as_millis())),
            listed: entries.listed,
            topic: entries.topic,
            remove_at: entries.remove_at.map(|at| at.as_millis()),
            key,
        })
    }

    pub(crate) fn put(&self, connection: &Connection) -> rusqlite::Result<()> {
        let (listed, topic) = (self.listed.as_ref(), self.topic.as_ref());
        connection
            .prepare_cached(
                "INSERT INTO records (partition, sort, version, look_shard, look_at, by_tenant, by_url,
                                      by_subscription, list_sort, topic, topic_sort, remove_at, data)
                 VALUES (?1, ?2, 1, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
                 ON CONFLICT (partition, sort) DO UPDATE SET
                     version = version + 1, look_shard = excluded.look_shard, look_at = excluded.look_at,
                     by_tenant = excluded.by_tenant, by_url = excluded.by_url,
                     by_subscription = excluded.by_subscription, list_sort = excluded.list_sort,
                     topic = excluded.topic, topic_sort = excluded.topic_sort,
                     remove_at = excluded.remove_at, data = excluded.data",
            )?
            .execute(params![
                self.key.partition,
                self.key.sort,
                self.look.map(|(shard, _)| shard),
                self.look.map(|(_, at)| at),
                listed.map(|l| &l.by_tenant),
                listed.map(|l| &l.by_url),
                listed.map(|l| &l.by_subscription),
                listed.map(|l| &l.sort),
                topic.map(|t| &t.partition),
                topic.map(|t| &t.sort),
                self.remove_at,
                self.data,
            ])?;
        Ok(())
    }
}

pub(crate) fn delete(connection: &Connection, key: &Key) -> rusqlite::Result<()> {
    connection
        .prepare_cached("DELETE FROM records WHERE partition = ?1 AND sort = ?2")?
        .execute(params![key.partition, key.sort])?;
    Ok(())
}

/// Whether what is expected of a key holds.
pub(crate) fn holds(connection: &Connection, key: &Key, expect: Expect) -> rusqlite::Result<bool> {
    if expect == Expect::Any {
        return Ok(true);
    }
    let version: Option<i64> = connection
        .prepare_cached("SELECT version FROM records WHERE partition = ?1 AND sort = ?2")?
        .query_row(params![key.partition, key.sort], |row| row.get(0))
        .optional()?;
    Ok(match expect {
        Expect::Any => true,
        Expect::Absent => version.is_none(),
        Expect::Version(expected) => version.is_some_and(|v| u64::try_from(v) == Ok(expected)),
    })
}

/// What a row holds, not yet read as a record.
pub(crate) struct Raw {
    data: Vec<u8>,
    version: i64,
}

impl Raw {
    /// Reads the columns `data, version`, which come first in every query.
    pub(crate) fn of(row: &rusqlite::Row<'_>) -> rusqlite::Result<Raw> {
        Ok(Raw { data: row.get(0)?, version: row.get(1)? })
    }

    pub(crate) fn read(self) -> Result<Versioned, StoreError> {
        let record = serde_json::from_slice(&self.data)
            .map_err(|e| StoreError(format!("a record cannot be read: {e}")))?;
        Ok(Versioned { record, version: self.version.unsigned_abs() })
    }
}

pub(crate) fn get(connection: &Connection, key: &Key) -> rusqlite::Result<Option<Raw>> {
    connection
        .prepare_cached("SELECT data, version FROM records WHERE partition = ?1 AND sort = ?2")?
        .query_row(params![key.partition, key.sort], Raw::of)
        .optional()
}
