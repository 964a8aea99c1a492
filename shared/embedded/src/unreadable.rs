//! Which messages of a data folder cannot be read, for the operator.

use std::path::Path;

use holdfast_core::ports::QueueName;
use holdfast_core::records::Unreadable;
use holdfast_core::time::Timestamp;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, params};

use crate::database::{failed, read_header};
use crate::error::OpenError;
use crate::files;
use crate::marker::{self, Header};
use crate::queue::{decode_stored, queue_of};

/// How many rows are read by one query: a server's write-ahead log cannot be reused meanwhile.
const ROWS_PER_QUERY: i64 = 1_000;

/// A message that no release can read. It stays in its queue, and the server receives it again once an hour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableRow {
    pub id: i64,
    pub queue: QueueName,
    pub deliver_at: Timestamp,
    pub bytes: usize,
    pub why: Unreadable,
}

/// At most `limit` of them, oldest first. Reads all messages. A server may use `dir` meanwhile, but not in this process: closing a file of
/// the database releases all locks that SQLite has on it in a process.
pub fn list_unreadable(dir: &Path, limit: usize) -> Result<Vec<UnreadableRow>, OpenError> {
    let file = dir.join(files::DATABASE);
    let header = read_header(&file)?;
    marker::check(dir, header)?;
    if !matches!(header, Header::Id(_)) {
        return Err(OpenError::DataMissing { file, why: "is missing or empty, so there are no messages" });
    }
    let list = || {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&file, flags)?;
        // After a kill, the folder needs its write-ahead log at the next start.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        find(&connection, limit)
    };
    list().map_err(|e| failed(&file, &e))
}

fn find(connection: &Connection, limit: usize) -> rusqlite::Result<Vec<UnreadableRow>> {
    let (mut found, mut after) = (Vec::new(), i64::MIN);
    let mut select = connection.prepare(
        "SELECT id, queue, deliver_at, payload, checksum FROM messages WHERE id > ?1 ORDER BY id LIMIT ?2",
    )?;
    loop {
        let mut rows = select.query(params![after, ROWS_PER_QUERY])?;
        let before = after;
        while let Some(row) = rows.next()? {
            after = row.get(0)?;
            let payload = row.get_ref(3)?.as_blob()?;
            let Err(unreadable) = decode_stored(payload, row.get(4)?) else { continue };
            // A newer release reads it.
            if let Unreadable::Newer(_) = unreadable.why {
                continue;
            }
            found.push(UnreadableRow {
                id: after,
                queue: queue_of(row.get(1)?),
                deliver_at: Timestamp::from_millis(row.get(2)?),
                bytes: payload.len(),
                why: unreadable.why,
            });
            if found.len() >= limit {
                return Ok(found);
            }
        }
        if after == before {
            return Ok(found);
        }
    }
}
