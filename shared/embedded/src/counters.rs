//! What inserts add to the counters. What is changed or deleted is counted by the triggers of the schema.

use rusqlite::{Connection, params};

/// Bytes that a tenant stores: of its bodies, and of its large records.
pub(crate) fn add_stored(connection: &Connection, tenant: &str, bytes: i64) -> rusqlite::Result<()> {
    let add = "INSERT INTO stored VALUES (?1, ?2) ON CONFLICT (tenant) DO UPDATE SET bytes = bytes + excluded.bytes";
    connection.prepare_cached(add)?.execute(params![tenant, bytes]).map(drop)
}

/// Bytes of a body that waits for a URL, by the name of the list of its deliveries.
pub(crate) fn add_waiting(connection: &Connection, list: &str, bytes: i64) -> rusqlite::Result<()> {
    let add =
        "INSERT INTO backlog VALUES (?1, ?2) ON CONFLICT (list) DO UPDATE SET bytes = bytes + excluded.bytes";
    connection.prepare_cached(add)?.execute(params![list, bytes]).map(drop)
}
