//! Records as rows.

use crate::bodies::body_bytes;
use crate::checksum;
use crate::compact;
use crate::counters::{StoredBytes, add_waiting};
use crate::lane::{row_cost, tenant_of};
use crate::list::{Place, list_id};
use holdfast_core::ports::{BodyKey, Expect, StoreError, Versioned};
use holdfast_core::records::{Key, Listed, Record, StateEntry, Unreadable, VERSION};
use rusqlite::{Connection, OptionalExtension, params};

/// A record ready to be written. Encoded by the caller, so that the one writing thread has less to do.
pub(crate) struct Row {
    key: Key,
    data: Vec<u8>,
    /// How long it is for those who read it.
    document_bytes: usize,
    checksum: u32,
    look: Option<(u8, i64)>,
    listed: Option<Lists>,
    by_state: Option<(i64, Place)>,
    remove_at: Option<i64>,
    counted_bytes: Option<i64>,
    /// The body that a delivery which is waiting or parked holds on to, and the list of its URL, under which that is counted.
    holds: Option<(BodyKey, String)>,
}

/// The lists of a delivery, by their numbers, and its place in each.
struct Lists {
    by_tenant: i64,
    by_url: i64,
    by_subscription: i64,
    place: Place,
}

impl Lists {
    fn of(listed: &Listed) -> Lists {
        Lists {
            by_tenant: list_id(&listed.by_tenant),
            by_url: list_id(&listed.by_url),
            by_subscription: list_id(&listed.by_subscription),
            place: Place::of(&listed.by_tenant, &listed.sort),
        }
    }
}

fn state_place(entry: &StateEntry) -> (i64, Place) {
    (list_id(&entry.partition), Place::of(&entry.partition, &entry.sort))
}

impl Row {
    pub(crate) fn of(record: &Record) -> Row {
        let key = record.key();
        let entries = record.index_entries();
        let document = record.encode();
        let counted_bytes = Some(record.counted_bytes(document.len()) as i64).filter(|bytes| *bytes > 0);
        let document_bytes = document.len();
        let data = compact::pack(&key, document);
        Row {
            checksum: checksum::of(&key_bytes(&key), &data),
            look: entries.look_at.map(|at| (key.sweep_shard(), at.as_millis())),
            holds: held_body(record).zip(entries.listed.as_ref().map(|listed| listed.by_url.clone())),
            listed: entries.listed.as_ref().map(Lists::of),
            by_state: entries.by_state.as_ref().map(state_place),
            remove_at: entries.remove_at.map(|at| at.as_millis()),
            counted_bytes,
            data,
            document_bytes,
            key,
        }
    }

    pub(crate) fn key(&self) -> &Key {
        &self.key
    }

    pub(crate) fn document_bytes(&self) -> usize {
        self.document_bytes
    }

    /// How much it keeps the writing thread busy.
    pub(crate) fn cost(&self) -> u64 {
        row_cost(self.data.len())
    }

    /// Returns `false` if a record of a newer release has this key: it stays as it is.
    pub(crate) fn put(&self, connection: &Connection) -> rusqlite::Result<bool> {
        let mut stored = StoredBytes::default();
        let written = self.put_and_count(connection, &mut stored)?;
        stored.write(connection)?;
        Ok(written)
    }

    /// The same for several.
    pub(crate) fn put_all(connection: &Connection, rows: &[Row]) -> rusqlite::Result<Vec<bool>> {
        let mut stored = StoredBytes::default();
        let written = rows.iter().map(|row| row.put_and_count(connection, &mut stored)).collect();
        stored.write(connection)?;
        written
    }

    fn put_and_count<'a>(
        &'a self,
        connection: &Connection,
        stored: &mut StoredBytes<'a>,
    ) -> rusqlite::Result<bool> {
        let held = self.holds.as_ref().map(|(body, _)| body_bytes(connection, body));
        let waiting_bytes = held.transpose()?.flatten();
        // Most records are new. One statement for both would make SQLite copy every page that it changes, because of the triggers of an update.
        if !self.write(connection, INSERT, waiting_bytes)? {
            return self.write(connection, UPDATE, waiting_bytes);
        }
        if let (Some((_, list)), Some(bytes)) = (&self.holds, waiting_bytes) {
            add_waiting(connection, list, bytes)?;
        }
        let bytes = self.counted_bytes.map_or(0, i64::unsigned_abs);
        stored.add(connection, tenant_of(&self.key.partition), bytes)?;
        Ok(true)
    }

    /// Returns whether a row was written.
    fn write(
        &self,
        connection: &Connection,
        statement: &str,
        waiting_bytes: Option<i64>,
    ) -> rusqlite::Result<bool> {
        let (listed, by_state) = (self.listed.as_ref(), self.by_state.as_ref());
        let written = connection.prepare_cached(statement)?.execute(params![
            self.key.partition,
            self.key.sort,
            self.look.map(|(shard, _)| shard),
            self.look.map(|(_, at)| at),
            listed.map(|lists| lists.by_tenant),
            listed.map(|lists| lists.by_url),
            listed.map(|lists| lists.by_subscription),
            listed.map(|lists| &lists.place),
            by_state.map(|(list, _)| list),
            by_state.map(|(_, place)| place),
            self.remove_at,
            VERSION,
            self.data,
            self.checksum,
            self.counted_bytes,
            self.holds.as_ref().map(|(_, list)| list),
            waiting_bytes,
        ])?;
        Ok(written > 0)
    }
}

const INSERT: &str = "
    INSERT INTO records (partition, sort, version, look_shard, look_at, by_tenant, by_url, by_subscription, list_sort, by_state,
                         state_sort, remove_at, format, data, checksum, counted_bytes, waiting_list, waiting_bytes)
    VALUES (?1, ?2, 1, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)
    ON CONFLICT (partition, sort) DO NOTHING";

/// With the same parameters.
const UPDATE: &str = "
    UPDATE records SET version = version + 1, look_shard = ?3, look_at = ?4, by_tenant = ?5, by_url = ?6, by_subscription = ?7,
                       list_sort = ?8, by_state = ?9, state_sort = ?10, remove_at = ?11, format = ?12, data = ?13, checksum = ?14,
                       counted_bytes = ?15, waiting_list = ?16, waiting_bytes = ?17
    WHERE partition = ?1 AND sort = ?2 AND format <= ?12";

fn held_body(record: &Record) -> Option<BodyKey> {
    match record {
        Record::Delivery(delivery) if delivery.progress.state.is_live() => Some(BodyKey::of(&delivery.key)),
        _ => None,
    }
}

pub(crate) fn delete(connection: &Connection, key: &Key) -> rusqlite::Result<()> {
    connection
        .prepare_cached("DELETE FROM records WHERE partition = ?1 AND sort = ?2")?
        .execute(params![key.partition, key.sort])?;
    Ok(())
}

/// What a condition needs to know of a row.
pub(crate) struct Stored {
    version: i64,
    format: u32,
}

impl Stored {
    pub(crate) fn find(connection: &Connection, key: &Key) -> rusqlite::Result<Option<Stored>> {
        connection
            .prepare_cached("SELECT version, format FROM records WHERE partition = ?1 AND sort = ?2")?
            .query_row(params![key.partition, key.sort], |row| {
                Ok(Stored { version: row.get(0)?, format: row.get(1)? })
            })
            .optional()
    }

    /// An error if a newer release wrote it.
    pub(crate) fn check_format(&self, key: &Key) -> Result<(), StoreError> {
        if self.format > VERSION { Err(newer(key.clone(), self.format)) } else { Ok(()) }
    }
}

pub(crate) fn is_expected(stored: Option<&Stored>, expect: Expect) -> bool {
    match expect {
        Expect::Any => true,
        Expect::Absent => stored.is_none(),
        Expect::Version(expected) => stored.is_some_and(|row| u64::try_from(row.version) == Ok(expected)),
    }
}

pub(crate) fn newer(key: Key, version: u32) -> StoreError {
    StoreError::Unreadable { key, source: Unreadable::Newer(version) }
}

/// What [`read`] reads. These come first in every query.
pub(crate) const COLUMNS: &str = "data, version, partition, sort, checksum";

pub(crate) fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Result<Versioned, StoreError>> {
    // A damaged key is shown as far as it can be.
    let text = |column| {
        Ok::<_, rusqlite::Error>(String::from_utf8_lossy(row.get_ref(column)?.as_bytes()?).into_owned())
    };
    let key = Key { partition: text(2)?, sort: text(3)? };
    let (version, checksum): (i64, i64) = (row.get(1)?, row.get(4)?);
    let data = row.get_ref(0)?.as_blob()?;
    let decoded = checksum::check(checksum, &key_bytes(&key), data).and_then(|()| decode_record(&key, data));
    Ok(match decoded {
        Ok(record) => Ok(Versioned { record, version: version.unsigned_abs() }),
        Err(source) => Err(StoreError::Unreadable { key, source }),
    })
}

/// The record that a row has, also for programs that read the file themselves.
pub fn decode_record(key: &Key, data: &[u8]) -> Result<Record, Unreadable> {
    let document = compact::unpack(key, data)?;
    Record::decode(|| key.clone(), &document)
}

fn key_bytes(key: &Key) -> [&[u8]; 2] {
    [key.partition.as_bytes(), key.sort.as_bytes()]
}

pub(crate) const GET: &str =
    "SELECT data, version, partition, sort, checksum FROM records WHERE partition = ?1 AND sort = ?2";

pub(crate) fn get(
    connection: &Connection,
    key: &Key,
) -> rusqlite::Result<Option<Result<Versioned, StoreError>>> {
    Ok(get_sized(connection, key)?.map(|(_, found)| found))
}

/// The same with how long it is.
pub(crate) fn get_sized(
    connection: &Connection,
    key: &Key,
) -> rusqlite::Result<Option<(usize, Result<Versioned, StoreError>)>> {
    connection
        .prepare_cached(GET)?
        .query_row(params![key.partition, key.sort], |row| Ok((document_bytes(row)?, read(row)?)))
        .optional()
}

/// How long a record that [`read`] reads is.
pub(crate) fn document_bytes(row: &rusqlite::Row<'_>) -> rusqlite::Result<usize> {
    Ok(compact::document_bytes(row.get_ref(0)?.as_blob()?))
}
