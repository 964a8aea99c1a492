//! Counts outcomes on URLs. Those that wait for the same URL are counted together: its record is read and written once for all of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use holdfast_core::ports::{StoreError, Versioned};
use holdfast_core::records::{Key, Record, UrlRecord};
use holdfast_core::rules::health::Outcome;
use holdfast_core::time::Now;
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::cache::RecordCache;
use crate::error::Failure;
use crate::rows::{self, Row};
use crate::writer::Job;

/// The URL before and after the outcomes were counted. `None`: there is no such URL.
pub(super) type Counted = Result<Option<(UrlRecord, UrlRecord)>, StoreError>;

/// Outcomes to count, and who waits for them.
pub(super) struct Ask {
    pub(super) outcomes: Vec<Outcome>,
    pub(super) now: Now,
    pub(super) reply: oneshot::Sender<Counted>,
}

/// What no job has taken yet, by the key of the URL.
#[derive(Default)]
pub(super) struct Asks {
    waiting: Mutex<HashMap<Key, Vec<Ask>>>,
}

impl Asks {
    /// Returns whether a job is needed: none is waiting for this URL.
    pub(super) fn add(&self, key: &Key, ask: Ask) -> bool {
        let mut waiting = self.lock();
        if let Some(asks) = waiting.get_mut(key) {
            asks.push(ask);
            return false;
        }
        waiting.insert(key.clone(), vec![ask]);
        true
    }

    fn take(&self, key: &Key) -> Vec<Ask> {
        self.lock().remove(key).unwrap_or_default()
    }

    /// No change can panic halfway, so the data behind a poisoned lock is consistent.
    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Vec<Ask>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts all outcomes that wait for a URL when it is run.
pub(super) struct CountJob {
    key: Key,
    asks: Arc<Asks>,
    cache: Arc<RecordCache>,
    taken: Option<Vec<Ask>>,
    /// One for each that was taken.
    counted: Vec<Counted>,
    /// The URL as it was written, and how many bytes it takes.
    written: Option<(usize, Versioned)>,
}

impl CountJob {
    pub(super) fn new(key: Key, asks: Arc<Asks>, cache: Arc<RecordCache>) -> CountJob {
        CountJob { key, asks, cache, taken: None, counted: Vec::new(), written: None }
    }

    /// Counts these one after the other. Writes the URL once, and what its history gained.
    fn count(&mut self, connection: &Connection) -> rusqlite::Result<Vec<Counted>> {
        let taken = self.taken.get_or_insert_with(|| self.asks.take(&self.key));
        self.written = None;
        let Some(found) = rows::get(connection, &self.key)? else {
            return Ok(vec![Ok(None); taken.len()]);
        };
        let (mut url, version) = match found {
            Ok(Versioned { record: Record::Url(url), version }) => (url, version),
            Ok(Versioned { record: Record::Newer { key, version }, .. }) => {
                return Ok(vec![Err(rows::newer(key, version)); taken.len()]);
            }
            Ok(_) => return Ok(vec![Ok(None); taken.len()]),
            Err(error) => return Ok(vec![Err(error); taken.len()]),
        };
        let mut counted = Vec::with_capacity(taken.len());
        for Ask { outcomes, now, .. } in taken.iter() {
            let before = url.clone();
            for history in url.count(outcomes, *now) {
                Row::of(&Record::History(history)).put(connection)?;
            }
            counted.push(Ok(Some((before, url.clone()))));
        }
        let record = Record::Url(url);
        let row = Row::of(&record);
        row.put(connection)?;
        self.written = Some((row.document_bytes(), Versioned { record, version: version + 1 }));
        Ok(counted)
    }
}

impl Job for CountJob {
    fn run(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        self.counted = self.count(connection)?;
        Ok(())
    }

    fn done(mut self: Box<Self>, committed: Result<(), Failure>) {
        if let (Ok(()), Some((bytes, written))) = (&committed, self.written.take()) {
            self.cache.replace(&self.key, bytes, written);
        }
        let counted = std::mem::take(&mut self.counted);
        let asks = self.taken.take().unwrap_or_default();
        let results: Vec<Counted> = match committed.map_err(StoreError::from) {
            Ok(()) => counted,
            Err(error) => vec![Err(error); asks.len()],
        };
        for (Ask { reply, .. }, result) in asks.into_iter().zip(results) {
            // The caller may have stopped waiting.
            let _ = reply.send(result);
        }
        // What came since then has a job of its own.
        self.taken = Some(Vec::new());
    }
}

impl Drop for CountJob {
    /// A job that was never run tells those who wait, by dropping their senders.
    fn drop(&mut self) {
        if self.taken.is_none() {
            drop(self.asks.take(&self.key));
        }
    }
}
