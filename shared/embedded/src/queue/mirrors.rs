use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use holdfast_core::ports::QueueName;
use holdfast_core::time::Timestamp;
use rusqlite::{Connection, params};
use tokio::sync::Notify;

use super::decode_stored;
use super::entry::{Load, Place, Sizes};
use super::group::{GroupId, Limits};
use super::mirror::Mirror;
use crate::database::{Database, failed};
use crate::error::OpenError;
use crate::options::Options;

/// How much is loaded from the file at a time: by one query, after each commit if there is time, and while opening. Writers wait
/// meanwhile, so that large rows count as several.
const ROWS_PER_QUERY: usize = 256;
const ROWS_PER_COMMIT: usize = 1_000;
const ROWS_AT_OPENING: usize = 20_000;
const ROW_BYTES: usize = 4_096;

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
    fn new(options: &Options, slots: usize) -> Shared {
        Shared { mirror: Mutex::new(Mirror::new(Limits::new(options, slots))), news: Notify::new() }
    }
}

/// A queue's name in the file. Slow URLs need no queue of their own: tenants take turns here, and then their URLs.
pub(super) fn queue_number(queue: QueueName) -> u8 {
    match queue {
        QueueName::First | QueueName::Slow => 0,
        QueueName::Retry => 1,
    }
}

/// The inverse of [`queue_number`].
pub(crate) fn queue_of(number: u8) -> QueueName {
    if number == 0 { QueueName::First } else { QueueName::Retry }
}

impl Mirrors {
    pub(crate) fn new(options: &Options, opens: u32) -> Mirrors {
        let first = Shared::new(options, options.first_concurrency);
        let retry = Shared::new(options, options.retry_concurrency);
        Mirrors(Arc::new(Inner { first, retry, opens }))
    }

    /// Finds the groups in the file when it is opened, and loads their first messages. Returns the first free id.
    pub(crate) fn open(&self, database: &Database) -> Result<i64, OpenError> {
        let connection = &database.connection;
        let open = || {
            for queue in [QueueName::First, QueueName::Retry] {
                let mut groups = connection.prepare_cached(
                    "SELECT group_id, count(*), sum(body_bytes) FROM messages WHERE queue = ?1 GROUP BY group_id",
                )?;
                let mut rows = groups.query([queue_number(queue)])?;
                while let Some(row) = rows.next()? {
                    let (messages, bytes) = (row.get::<_, i64>(1)?, row.get::<_, i64>(2)?);
                    let mut mirror = self.lock(queue);
                    mirror.add_group(GroupId(row.get(0)?), messages.unsigned_abs(), bytes.unsigned_abs());
                }
                self.refill_one(connection, queue, ROWS_AT_OPENING, &mut || true)?;
            }
            let max = "SELECT coalesce(max(id), 0) FROM messages";
            Ok(connection.query_row(max, [], |row| row.get::<_, i64>(0))? + 1)
        };
        open().map_err(|e| failed(&database.file, &e))
    }

    /// Loads waiting messages from the file if there is room: those of one group, and more while there is time. Called by the writing
    /// thread between commits. Returns whether there is more to load.
    pub(crate) fn refill(&self, connection: &Connection, has_time: &mut dyn FnMut() -> bool) -> bool {
        let mut more = false;
        for queue in [QueueName::First, QueueName::Retry] {
            match self.refill_one(connection, queue, ROWS_PER_COMMIT, has_time) {
                Ok(wants_more) => more |= wants_more,
                // The messages stay in the file until the next call, which tries again.
                Err(error) => tracing::error!(%error, "waiting messages could not be read"),
            }
        }
        more
    }

    /// Loads about this many rows, or fewer if there is no time. Returns whether there are more to load.
    fn refill_one(
        &self,
        connection: &Connection,
        queue: QueueName,
        rows: usize,
        has_time: &mut dyn FnMut() -> bool,
    ) -> rusqlite::Result<bool> {
        let mut loaded = 0;
        let mut failed = None;
        while loaded < rows && failed.is_none() && (loaded == 0 || has_time()) {
            let Some(load) = self.lock(queue).next_load() else { break };
            let (count, from) = self.load_group(connection, queue, &load).unwrap_or_else(|error| {
                failed = Some(error);
                (0, Some(load.from))
            });
            if failed.is_none() {
                // A query costs something too.
                loaded += count + 1;
            }
            self.lock(queue).loaded(load.group, count, from);
        }
        if loaded > 0 {
            self.news(queue).notify_waiters();
        }
        failed.map_or_else(|| Ok(self.lock(queue).wants_more()), Err)
    }

    /// Loads the next messages of a group. Returns how many rows that counts as, and where there may be more.
    fn load_group(
        &self,
        connection: &Connection,
        queue: QueueName,
        load: &Load,
    ) -> rusqlite::Result<(usize, Option<Place>)> {
        let limit = load.limit.min(ROWS_PER_QUERY);
        let mut statement = connection.prepare_cached(
            "SELECT id, deliver_at, received, opened, payload, checksum, body_bytes FROM messages
             WHERE queue = ?1 AND group_id = ?2 AND (deliver_at, id) >= (?3, ?4)
             ORDER BY deliver_at, id LIMIT ?5",
        )?;
        let mut from = load.from;
        let (deliver_at, id) = (from.deliver_at.as_millis(), from.id);
        let mut rows =
            statement.query(params![queue_number(queue), load.group.0, deliver_at, id, limit as i64])?;
        let mut count = 0;
        while count < limit {
            // All are loaded.
            let Some(row) = rows.next()? else { return Ok((count, None)) };
            let place = Place { deliver_at: Timestamp::from_millis(row.get(1)?), id: row.get(0)? };
            // It may have been received once in each opening since then without the file being updated.
            let received = row.get::<_, u32>(2)?.saturating_add(self.opens().saturating_sub(row.get(3)?));
            let (payload, checksum) = (row.get_ref(4)?.as_blob()?, row.get(5)?);
            let sizes = Sizes::in_file(payload.len(), row.get::<_, i64>(6)?.unsigned_abs());
            self.lock(queue).load(load.group, place, || (decode_stored(payload, checksum), sizes, received));
            count += 1 + payload.len() / ROW_BYTES;
            from = place.next();
        }
        Ok((count, Some(from)))
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
            QueueName::First | QueueName::Slow => &self.0.first,
            QueueName::Retry => &self.0.retry,
        }
    }
}
