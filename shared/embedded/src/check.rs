//! The background check: reads every row once and compares its checksum, in small steps.

use rusqlite::{Connection, params};

use crate::checksum;

/// A step ends after this many bytes, so that it does not keep a reading connection from others for long.
const MAX_STEP_BYTES: usize = 1 << 20;

/// Each query returns `rowid, checksum, content, key…`.
const TABLES: [(&str, &str); 3] = [
    (
        "record",
        "SELECT rowid, checksum, data, partition, sort FROM records WHERE rowid > ?1 ORDER BY rowid LIMIT ?2",
    ),
    (
        "body",
        "SELECT rowid, checksum, body, tenant, event_key FROM bodies WHERE rowid > ?1 ORDER BY rowid LIMIT ?2",
    ),
    ("message", "SELECT rowid, checksum, payload FROM messages WHERE rowid > ?1 ORDER BY rowid LIMIT ?2"),
];

/// Where a check continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckCursor {
    table: usize,
    row: i64,
}

impl CheckCursor {
    pub const START: CheckCursor = CheckCursor { table: 0, row: i64::MIN };
}

/// What one step of the check found.
#[derive(Debug)]
pub struct CheckStep {
    pub rows: usize,
    /// The kind and key of each damaged row, for the log.
    pub damaged: Vec<String>,
    /// `None`: everything was read.
    pub next: Option<CheckCursor>,
}

pub(crate) fn step(connection: &Connection, after: CheckCursor, limit: usize) -> rusqlite::Result<CheckStep> {
    let Some((kind, sql)) = TABLES.get(after.table) else {
        return Ok(CheckStep { rows: 0, damaged: Vec::new(), next: None });
    };
    let mut statement = connection.prepare_cached(sql)?;
    let key_columns = 3..statement.column_count();
    let mut found = statement.query(params![after.row, i64::try_from(limit).unwrap_or(i64::MAX)])?;
    let (mut rows, mut bytes, mut last) = (0, 0, None);
    let mut damaged = Vec::new();
    while bytes < MAX_STEP_BYTES
        && let Some(row) = found.next()?
    {
        let id: i64 = row.get(0)?;
        let content = row.get_ref(2)?.as_bytes()?;
        let key = key_columns.clone().map(|column| row.get_ref(column)?.as_bytes().map_err(Into::into));
        let key = key.collect::<rusqlite::Result<Vec<&[u8]>>>()?;
        if let Err(why) = checksum::check(row.get(1)?, &key, content) {
            let key: Vec<_> = key.iter().map(|part| String::from_utf8_lossy(part)).collect();
            let key = if key.is_empty() { id.to_string() } else { key.join(" / ") };
            damaged.push(format!("{kind} {key}: {why}"));
        }
        rows += 1;
        bytes += content.len();
        last = Some(id);
    }
    let next = match last {
        Some(row) => CheckCursor { row, ..after },
        None => CheckCursor { table: after.table + 1, row: i64::MIN },
    };
    Ok(CheckStep { rows, damaged, next: (next.table < TABLES.len()).then_some(next) })
}
