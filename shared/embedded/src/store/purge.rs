//! Removes what is past its removal time, a little at a time: the jobs of tenants come in between.

use holdfast_core::ports::StoreError;
use holdfast_core::time::Timestamp;
use rusqlite::{Connection, params};

use super::{EmbeddedStore, pages};
use crate::lane::{Lane, OWN};

/// How many records are removed by one job. Each takes some pages of the table and its indexes, which nothing else has used for a long time
/// and may have to come from the disk.
const MAX_RECORDS: usize = 16;
/// How many bodies, if they are small.
const MAX_BODIES: usize = 100;
/// How many bytes of bodies, but at least one. All pages of a large body are read when it is removed.
const MAX_BODY_BYTES: u64 = 256 << 10;

pub(super) const REMOVE_RECORDS: &str = "DELETE FROM records WHERE rowid IN
     (SELECT rowid FROM records WHERE remove_at <= ?1 ORDER BY remove_at LIMIT ?2)";
pub(super) const OLD_BODIES: &str =
    "SELECT rowid, body FROM bodies WHERE remove_at <= ?1 ORDER BY remove_at LIMIT ?2";

impl EmbeddedStore {
    pub(crate) async fn purge(&self, now: Timestamp, limit: usize) -> Result<usize, StoreError> {
        let mut removed = 0;
        while removed < limit {
            let at_most = MAX_RECORDS.min(limit - removed);
            let lane = Lane::own().costing(at_most as u64);
            let records =
                self.writer.run(lane, move |connection| remove_records(connection, now, at_most)).await?;
            removed += records;
            if records < at_most {
                break;
            }
        }
        while removed < limit {
            let at_most = MAX_BODIES.min(limit - removed);
            // Read here, they are in memory when the writing thread removes them, and no tenant waits for the disk.
            let read = move |connection: &Connection| read_old_bodies(connection, now, at_most);
            let bodies = self.readers.read(OWN, read).await?;
            if bodies.is_empty() {
                break;
            }
            let (count, lane) = (bodies.len(), Lane::own().costing(bodies.len() as u64));
            self.writer.run(lane, move |connection| remove_bodies(connection, now, &bodies)).await?;
            removed += count;
        }
        Ok(removed)
    }
}

/// Returns how many were removed: fewer than asked for if there are no more.
fn remove_records(connection: &Connection, now: Timestamp, limit: usize) -> rusqlite::Result<usize> {
    connection.prepare_cached(REMOVE_RECORDS)?.execute(params![now.as_millis(), pages::row_count(limit)])
}

/// The first bodies that are to be removed: at least one, if there are any.
fn read_old_bodies(connection: &Connection, now: Timestamp, limit: usize) -> rusqlite::Result<Vec<i64>> {
    let mut select = connection.prepare_cached(OLD_BODIES)?;
    let mut rows = select.query(params![now.as_millis(), pages::row_count(limit)])?;
    let (mut ids, mut bytes) = (Vec::new(), 0);
    while bytes < MAX_BODY_BYTES
        && let Some(row) = rows.next()?
    {
        ids.push(row.get(0)?);
        bytes += row.get_ref(1)?.as_bytes()?.len() as u64;
    }
    Ok(ids)
}

/// Those that a replay has kept in the meantime stay.
fn remove_bodies(connection: &Connection, now: Timestamp, ids: &[i64]) -> rusqlite::Result<()> {
    let mut remove = connection.prepare_cached("DELETE FROM bodies WHERE rowid = ?1 AND remove_at <= ?2")?;
    for id in ids {
        remove.execute(params![id, now.as_millis()])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex, mpsc};

    use futures_util::FutureExt;
    use holdfast_sim::{VirtualClock, block_on};

    use super::*;
    use crate::database::Database;
    use crate::{Embedded, Options};

    #[test]
    fn a_purge_takes_its_turn_during_a_flood() {
        let dir = tempfile::tempdir().unwrap();
        let clock = Arc::new(VirtualClock::new(Timestamp::ZERO));
        let embedded = Embedded::open(dir.path(), clock, Options::default()).unwrap();
        let writer = &embedded.store.writer;
        let put = "INSERT INTO records (partition, sort, version, remove_at, format, data, checksum)
                   VALUES ('minutes#quiet', '1', 1, 0, 1, x'00', 0)";
        block_on(writer.run(Lane::own(), move |connection| connection.execute(put, []))).unwrap();
        // The writing thread waits until all are in line.
        let (begin, begun) = mpsc::channel::<()>();
        let wait = move |_: &Connection| {
            let _ = begun.recv();
            Ok(())
        };
        assert!(writer.run(Lane::of_tenant("first"), wait).now_or_never().is_none());
        // What each job finds that is done after the purge, or before.
        let records = Arc::new(Mutex::new(Vec::new()));
        let look = |lane: Lane| {
            let records = Arc::clone(&records);
            writer.run(lane, move |connection| {
                let count: u32 =
                    connection.query_row("SELECT count(*) FROM records", [], |row| row.get(0))?;
                records.lock().unwrap().push(count);
                Ok(())
            })
        };
        let mut flood: Vec<_> =
            (0..100).map(|_| Box::pin(look(Lane::of_tenant("flood").costing(25)))).collect();
        assert!(flood.iter_mut().all(|job| job.now_or_never().is_none()));
        let mut purge = Box::pin(embedded.purge(Timestamp::ZERO, MAX_RECORDS));
        assert!((&mut purge).now_or_never().is_none());
        drop(begin);
        assert_eq!(block_on(purge).unwrap(), 1);
        flood.into_iter().for_each(|job| block_on(job).unwrap());
        let before_purge = records.lock().unwrap().iter().filter(|records| **records > 0).count();
        assert!(before_purge < 10, "{before_purge} of 100");
    }

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
        let purge = |now| {
            let now = Timestamp::from_millis(now);
            let ids = read_old_bodies(connection, now, 100).unwrap();
            remove_bodies(connection, now, &ids).unwrap();
            ids.len()
        };
        assert_eq!([1; 6].map(purge), [1, 1, 1, 1, 1, 0], "large ones");
        assert_eq!([2; 3].map(purge), [100, 50, 0], "small ones");
    }

    #[test]
    fn a_body_that_is_kept_in_the_meantime_stays() {
        let dir = tempfile::tempdir().unwrap();
        let database = Database::open(dir.path()).unwrap();
        let connection = &database.connection;
        connection.execute("INSERT INTO bodies VALUES ('a', 'b', 1, x'00', 0)", []).unwrap();
        let now = Timestamp::from_millis(1);
        let ids = read_old_bodies(connection, now, 100).unwrap();
        connection.execute("UPDATE bodies SET remove_at = 2", []).unwrap();
        remove_bodies(connection, now, &ids).unwrap();
        let left: u32 = connection.query_row("SELECT count(*) FROM bodies", [], |row| row.get(0)).unwrap();
        assert_eq!((ids.len(), left), (1, 1));
    }
}
