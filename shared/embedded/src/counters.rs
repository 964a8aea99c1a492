//! What inserts add to the counters. What is changed or deleted is counted by the triggers of the schema.

use rusqlite::{Connection, params};

/// Bytes that tenants store, of their bodies and records. Written once for all neighbours of one tenant.
#[derive(Default)]
pub(crate) struct StoredBytes<'a> {
    tenant: &'a str,
    bytes: u64,
}

impl<'a> StoredBytes<'a> {
    pub(crate) fn add(
        &mut self,
        connection: &Connection,
        tenant: &'a str,
        bytes: u64,
    ) -> rusqlite::Result<()> {
        if self.tenant != tenant {
            self.write(connection)?;
            self.tenant = tenant;
        }
        self.bytes += bytes;
        Ok(())
    }

    /// Writes what was added. Without it, the last of it is lost.
    pub(crate) fn write(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        if self.bytes == 0 {
            return Ok(());
        }
        let add = "INSERT INTO stored VALUES (?1, ?2) ON CONFLICT (tenant) DO UPDATE SET bytes = bytes + excluded.bytes";
        let bytes = std::mem::take(&mut self.bytes) as i64;
        connection.prepare_cached(add)?.execute(params![self.tenant, bytes]).map(drop)
    }
}

/// Bytes of a body that waits for a URL, by the name of the list of its deliveries.
pub(crate) fn add_waiting(connection: &Connection, list: &str, bytes: i64) -> rusqlite::Result<()> {
    let add =
        "INSERT INTO backlog VALUES (?1, ?2) ON CONFLICT (list) DO UPDATE SET bytes = bytes + excluded.bytes";
    connection.prepare_cached(add)?.execute(params![list, bytes]).map(drop)
}
