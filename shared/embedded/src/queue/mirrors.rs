use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use holdfast_core::ports::QueueName;
use holdfast_core::time::Timestamp;
use rusqlite::{Connection, params};
use tokio::sync::Notify;

use super::decode_stored;
use super::entry::{Limits, Place};
use super::mirror::Mirror;
use crate::database::{Database, failed};
use crate::error::OpenError;
use crate::options::Options;

/// How many rows one query reads from the file.
const PAGE: u32 = 1000;

/// The part of each queue that is in memory. Only the writing thread adds messages, so that the order is that of the commits.
#[derive(Clone)]
pub(crate) struct Mirrors(Arc<Inner>);

struct Inner {
    first: Shared,
    retry: Shared,
    opens: u32,
}

struct Shared {
    mirror: Mutex<Mirror>,
    news: Notify,
}

impl Shared {
    fn new(options: &Options) -> Shared {
        let limits = Limits {
            per_group: options.per_group_limit.max(1),
            messages: options.memory_messages.max(1),
            bytes: options.memory_bytes,
        };
        Shared { mirror: Mutex::new(Mirror::new(limits)), news: Notify::new() }
    }
}

/// A queue's name in the file.
pub(super) fn queue_number(queue: QueueName) -> u8 {
    match queue {
        QueueName::First => 0,
        QueueName::Retry => 1,
    }
}

impl Mirrors {
    pub(crate) fn new(options: &Options, opens: u32) -> Mirrors {
        Mirrors(Arc::new(Inner { first: Shared::new(options), retry: Shared::new(options), opens }))
    }

    /// Fills memory from the file when it is opened. Returns the first free id.
    pub(crate) fn load(&self, database: &Database) -> Result<i64, OpenError> {
        let load = || {
            for queue in [QueueName::First, QueueName::Retry] {
                self.refill_one(&database.connection, queue)?;
            }
            let max = "SELECT coalesce(max(id), 0) FROM messages";
            Ok(database.connection.query_row(max, [], |row| row.get::<_, i64>(0))? + 1)
        };
        load().map_err(|e| failed(&database.file, &e))
    }

    /// Loads waiting messages from the file if there is room. Called by the writing thread between commits.
    pub(crate) fn refill(&self, connection: &Connection) {
        for queue in [QueueName::First, QueueName::Retry] {
            if self.lock(queue).wants_more() {
                // If the file cannot be read now, the messages stay there until the next commit, which tries again.
                let _ = self.refill_one(connection, queue);
            }
        }
    }

    fn refill_one(&self, connection: &Connection, queue: QueueName) -> rusqlite::Result<()> {
        let mut statement = connection.prepare_cached(
            "SELECT id, deliver_at, received, opened, payload, checksum FROM messages
             WHERE queue = ?1 AND deliver_at >= ?2 AND (deliver_at > ?2 OR id >= ?3)
             ORDER BY deliver_at, id LIMIT ?4",
        )?;
        let mut added = false;
        loop {
            let Some(from) = self.lock(queue).waiting_from() else { break };
            let deliver_at = from.deliver_at.as_millis();
            let mut rows = statement.query(params![queue_number(queue), deliver_at, from.id, PAGE])?;
            let mut count = 0;
            let mut full = false;
            while !full && let Some(row) = rows.next()? {
                count += 1;
                let place = Place { deliver_at: Timestamp::from_millis(row.get(1)?), id: row.get(0)? };
                // It may have been received once in each opening since then without the file being updated.
                let received = row.get::<_, u32>(2)?.saturating_add(self.opens().saturating_sub(row.get(3)?));
                let (payload, checksum) = (row.get_ref(4)?.as_blob()?, row.get(5)?);
                let decoded = || (decode_stored(payload, checksum), payload.len(), received);
                full = !self.lock(queue).load(place, decoded);
                added = true;
            }
            if full {
                break;
            }
            if count < PAGE {
                self.lock(queue).all_loaded();
            }
        }
        if added {
            self.news(queue).notify_waiters();
        }
        Ok(())
    }

    pub(super) fn lock(&self, queue: QueueName) -> MutexGuard<'_, Mirror> {
        self.shared(queue).mirror.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn news(&self, queue: QueueName) -> &Notify {
        &self.shared(queue).news
    }

    /// How often the database was opened.
    pub(super) fn opens(&self) -> u32 {
        self.0.opens
    }

    fn shared(&self, queue: QueueName) -> &Shared {
        match queue {
            QueueName::First => &self.0.first,
            QueueName::Retry => &self.0.retry,
        }
    }
}
