//! The store and the queues on one machine, in one SQLite file.
//!
//! One thread writes: whatever is asked for at the same time is committed together, with one flush of the disk. Reads go to
//! their own connections. Messages are in the file and, as far as they fit, in memory, from where they are received.

mod database;
mod error;
mod options;
mod queue;
mod readers;
mod rows;
mod schema;
mod store;
mod writer;

#[cfg(test)]
mod full_disk_tests;

use std::sync::Arc;

use holdfast_core::ports::{Clock, StoreError};
use holdfast_core::time::Timestamp;

pub use database::Database;
pub use error::OpenError;
pub use options::Options;
pub use queue::EmbeddedQueue;
pub use store::EmbeddedStore;

use readers::Readers;
use writer::Writer;

/// The ports of one open database.
pub struct Embedded {
    pub store: Arc<EmbeddedStore>,
    pub queue: Arc<EmbeddedQueue>,
    writer: Arc<Writer>,
}

impl Embedded {
    /// Opens the database in `dir`, which is created if there is none.
    pub fn open(
        dir: &std::path::Path,
        clock: Arc<dyn Clock>,
        options: Options,
    ) -> Result<Embedded, OpenError> {
        Embedded::new(Database::open(dir)?, clock, options)
    }

    /// For a caller whose clock depends on what the database remembers: it opens the database first.
    pub fn new(database: Database, clock: Arc<dyn Clock>, options: Options) -> Result<Embedded, OpenError> {
        let readers = Arc::new(Readers::open(&database, options.readers)?);
        let mirrors = queue::Mirrors::new(&options, database.opens());
        let next_id = mirrors.load(&database)?;
        let writer = Arc::new(Writer::start(database, {
            let mirrors = mirrors.clone();
            move |connection| mirrors.refill(connection)
        })?);
        Ok(Embedded {
            store: Arc::new(EmbeddedStore::new(Arc::clone(&writer), Arc::clone(&readers))),
            queue: Arc::new(EmbeddedQueue::new(
                Arc::clone(&writer),
                readers,
                mirrors,
                clock,
                &options,
                next_id,
            )),
            writer,
        })
    }

    /// Removes at most `limit` records and as many bodies whose time is over. Answers how many it removed: if fewer than
    /// `limit`, there are no more.
    pub async fn purge(&self, now: Timestamp, limit: usize) -> Result<usize, StoreError> {
        self.store.purge(now, limit).await
    }

    /// Writes what was asked for so far, empties the write-ahead log into the file and stops. What is asked for later is
    /// refused. Blocks until it is done.
    pub fn close(&self) {
        self.writer.stop();
    }
}
