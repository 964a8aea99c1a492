//! Bodies as rows.

use bytes::Bytes;
use holdfast_core::ports::BodyKey;
use holdfast_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use crate::checksum;
use crate::counters::StoredBytes;

/// What the checksum of a body covers besides the body.
pub(crate) fn body_key_bytes(key: &BodyKey) -> [&[u8]; 2] {
    [key.tenant.as_str().as_bytes(), key.event_key.as_str().as_bytes()]
}

/// A body ready to be written.
pub(crate) struct NewBody {
    pub(crate) key: BodyKey,
    pub(crate) bytes: Bytes,
    checksum: u32,
    remove_at: Timestamp,
}

impl NewBody {
    /// Computes the checksum, so that the one writing thread has less to do.
    pub(crate) fn new(key: BodyKey, bytes: Bytes, remove_at: Timestamp) -> NewBody {
        let checksum = checksum::of(&body_key_bytes(&key), &bytes);
        NewBody { key, bytes, checksum, remove_at }
    }

    /// A key always has the same body, so one that is there only stays longer. Returns how many bytes were added.
    fn put(&self, connection: &Connection) -> rusqlite::Result<usize> {
        let NewBody { key, bytes, checksum, remove_at } = self;
        let (tenant, event_key) = (key.tenant.as_str(), key.event_key.as_str());
        let mut insert = connection.prepare_cached(
            "INSERT INTO bodies (tenant, event_key, remove_at, body, checksum) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (tenant, event_key) DO NOTHING",
        )?;
        if insert.execute(params![tenant, event_key, remove_at.as_millis(), &**bytes, checksum])? > 0 {
            return Ok(bytes.len());
        }
        let mut keep = connection.prepare_cached(
            "UPDATE bodies SET remove_at = ?3 WHERE tenant = ?1 AND event_key = ?2 AND remove_at < ?3",
        )?;
        keep.execute(params![tenant, event_key, remove_at.as_millis()])?;
        Ok(0)
    }
}

/// Writes bodies and counts them.
pub(crate) fn put_bodies<'a>(
    connection: &Connection,
    bodies: impl IntoIterator<Item = &'a NewBody>,
) -> rusqlite::Result<()> {
    let mut stored = StoredBytes::default();
    for body in bodies {
        let added = body.put(connection)?;
        stored.add(connection, body.key.tenant.as_str(), added as u64)?;
    }
    stored.write(connection)
}

/// The size of a body, if it is there.
pub(crate) fn body_bytes(connection: &Connection, key: &BodyKey) -> rusqlite::Result<Option<i64>> {
    connection
        .prepare_cached("SELECT length(body) FROM bodies WHERE tenant = ?1 AND event_key = ?2")?
        .query_row([key.tenant.as_str(), key.event_key.as_str()], |row| row.get(0))
        .optional()
}
