//! Bodies as rows.

use holdfast_core::ports::BodyKey;
use holdfast_core::time::Timestamp;
use rusqlite::{Connection, params};

/// What the checksum of a body covers besides the body.
pub(crate) fn body_key_bytes(key: &BodyKey) -> [&[u8]; 2] {
    [key.tenant.as_str().as_bytes(), key.event_key.as_str().as_bytes()]
}

/// A key always has the same body, so one that is there only stays longer.
pub(crate) fn put_body(
    connection: &Connection,
    key: &BodyKey,
    body: &[u8],
    checksum: u32,
    remove_at: Timestamp,
) -> rusqlite::Result<()> {
    let mut put = connection.prepare_cached(
        "INSERT INTO bodies (tenant, event_key, remove_at, body, checksum) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (tenant, event_key) DO UPDATE SET remove_at = excluded.remove_at
         WHERE remove_at < excluded.remove_at",
    )?;
    let (tenant, event_key) = (key.tenant.as_str(), key.event_key.as_str());
    put.execute(params![tenant, event_key, remove_at.as_millis(), body, checksum]).map(drop)
}
