//! The store and the queues on one machine, in one SQLite file.
//!
//! One thread writes, and commits concurrent writes together with one flush of the disk. Reads have their own connections.
//! Messages are in the file and, as far as they fit, in memory, from where they are received.

mod backlog;
mod backup;
mod bodies;
mod check;
mod checkpoints;
mod checksum;
mod compact;
mod counters;
mod database;
mod error;
mod files;
mod lane;
mod list;
mod marker;
mod options;
mod probe;
mod queue;
mod read_pool;
mod readers;
mod rows;
mod schema;
mod store;
mod unreadable;
mod writer;

#[cfg(test)]
mod cold_reads_tests;
#[cfg(test)]
mod full_disk_tests;
#[cfg(test)]
mod upgrade_tests;

use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use holdfast_core::ports::{Clock, StoreError};
use holdfast_core::time::Timestamp;

pub use backlog::EmbeddedBacklog;
pub use backup::backup;
pub use check::{CheckCursor, CheckStep};
pub use database::Database;
pub use error::OpenError;
pub use files::{close_file, replace_file};
pub use options::Options;
pub use queue::{EmbeddedQueue, TakenBatch};
pub use rows::decode_record;
pub use store::EmbeddedStore;
pub use unreadable::{UnreadableRow, list_unreadable};

use readers::Readers;
use writer::Writer;

pub struct Embedded {
    pub store: Arc<EmbeddedStore>,
    pub queue: Arc<EmbeddedQueue>,
    pub backlog: Arc<EmbeddedBacklog>,
    writer: Arc<Writer>,
}

impl Embedded {
    /// Opens the database in `dir`, which is created if needed.
    pub fn open(
        dir: &std::path::Path,
        clock: Arc<dyn Clock>,
        options: Options,
    ) -> Result<Embedded, OpenError> {
        Embedded::new(Database::open(dir)?, clock, options)
    }

    /// For a caller whose clock needs a value from the database, and who therefore opens the database first.
    pub fn new(database: Database, clock: Arc<dyn Clock>, options: Options) -> Result<Embedded, OpenError> {
        let readers = Arc::new(Readers::open(&database, options.readers, Arc::clone(&clock))?);
        let mirrors = queue::Mirrors::new(&options, database.opens);
        let next_id = mirrors.open(&database)?;
        let writer = Arc::new(Writer::start(database, Arc::clone(&clock), {
            let mirrors = mirrors.clone();
            move |connection: &_, has_time: &mut _| mirrors.refill(connection, has_time)
        })?);
        let store = EmbeddedStore::new(Arc::clone(&writer), Arc::clone(&readers));
        let queue = Arc::new(EmbeddedQueue {
            writer: Arc::clone(&writer),
            readers: Arc::clone(&readers),
            mirrors,
            clock,
            visibility: options.visibility,
            keep_bodies: options.keep_bodies,
            next_id: AtomicI64::new(next_id),
        });
        let backlog = EmbeddedBacklog { readers, queue: Arc::clone(&queue) };
        Ok(Embedded { store: Arc::new(store), queue, backlog: Arc::new(backlog), writer })
    }

    /// Removes at most `limit` records and as many bodies that are past their removal time. Returns how many: if fewer than
    /// `limit`, none are left.
    pub async fn purge(&self, now: Timestamp, limit: usize) -> Result<usize, StoreError> {
        self.store.purge(now, limit).await
    }

    /// Reads at most `limit` rows after the cursor and compares their checksums: one step of a check of everything.
    pub async fn check_step(&self, after: CheckCursor, limit: usize) -> Result<CheckStep, StoreError> {
        let step = move |connection: &_| check::step(connection, after, limit);
        Ok(self.store.readers.read(lane::OWN, step).await?)
    }

    /// Finishes all writes, moves the write-ahead log into the file and stops. Later writes fail. Blocks until it is done.
    pub fn close(&self) {
        // A read would keep the write-ahead log from being moved.
        self.store.readers.stop();
        let job = queue::CloseJob { mirrors: self.queue.mirrors.clone() };
        self.writer.submit_only(lane::Lane::own(), Box::new(job));
        self.writer.stop();
    }
}
