//! Removes what is past its removal time, a little at a time: the jobs of tenants come in between.

use holdfast_core::ports::StoreError;
use holdfast_core::time::Timestamp;
use rusqlite::{Connection, params};

use super::{EmbeddedStore, pages};
use crate::lane::Lane;

/// How many records, and how many bodies, are removed by one job.
const MAX_ROWS: usize = 100;
/// How many bytes of bodies. All pages of a large body are read when it is removed.
const MAX_BODY_BYTES: u64 = 2 << 20;

impl EmbeddedStore {
    pub(crate) async fn purge(&self, now: Timestamp, limit: usize) -> Result<usize, StoreError> {
        let mut removed = 0;
        while removed < limit {
            let at_most = MAX_ROWS.min(limit - removed);
            let lane = Lane::own().costing(at_most as u64);
            let purged =
                self.writer.run(lane, move |connection| purge_some(connection, now, at_most)).await?;
            if purged == 0 {
                break;
            }
            removed += purged;
        }
        Ok(removed)
    }
}

/// Returns how many rows were removed: none if nothing is to be removed.
fn purge_some(connection: &Connection, now: Timestamp, limit: usize) -> rusqlite::Result<usize> {
    let values = params![now.as_millis(), pages::row_count(limit)];
    let records = connection
        .prepare_cached(
            "DELETE FROM records WHERE rowid IN
                 (SELECT rowid FROM records WHERE remove_at <= ?1 ORDER BY remove_at LIMIT ?2)",
        )?
        .execute(values)?;
    let bodies = bodies_to_remove(connection, now, limit)?;
    let mut remove = connection.prepare_cached("DELETE FROM bodies WHERE rowid = ?1")?;
    for id in &bodies {
        remove.execute([id])?;
    }
    Ok(records + bodies.len())
}

/// The first bodies that are to be removed: at least one, if there are any.
fn bodies_to_remove(connection: &Connection, now: Timestamp, limit: usize) -> rusqlite::Result<Vec<i64>> {
    let mut select = connection.prepare_cached(
        "SELECT rowid, length(body) FROM bodies WHERE remove_at <= ?1 ORDER BY remove_at LIMIT ?2",
    )?;
    let mut rows = select.query(params![now.as_millis(), pages::row_count(limit)])?;
    let (mut ids, mut bytes) = (Vec::new(), 0);
    while bytes < MAX_BODY_BYTES
        && let Some(row) = rows.next()?
    {
        ids.push(row.get(0)?);
        bytes += row.get::<_, i64>(1)?.unsigned_abs();
    }
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::Database;

    #[test]
    fn few_large_bodies_and_many_small_ones_are_removed_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let database = Database::open(dir.path()).unwrap();
        let connection = &database.connection;
        for (remove_at, count, bytes) in [(1, 5, 1 << 20), (2, 150, 10)] {
            for n in 0..count {
                let put = "INSERT INTO bodies VALUES ('a', ?1, ?2, zeroblob(?3), 0)";
                connection.execute(put, params![format!("{remove_at}-{n}"), remove_at, bytes]).unwrap();
            }
        }
        let purge = |now| purge_some(connection, Timestamp::from_millis(now), 100).unwrap();
        assert_eq!([1; 4].map(purge), [2, 2, 1, 0], "large ones");
        assert_eq!([2; 3].map(purge), [100, 50, 0], "small ones");
    }
}
