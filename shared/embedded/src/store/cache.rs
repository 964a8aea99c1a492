//! Records that are read again and again, as the file has them: a read of others may have to wait for the disk.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use holdfast_core::ports::Versioned;
use holdfast_core::records::Key;

/// How much is known of the latest, and up to as much of what was used before them. In memory a record takes about twice its bytes in the file.
const MAX_LATEST_BYTES: usize = 8 << 20;
/// What an entry takes beside its key and its record.
const ENTRY_BYTES: usize = 200;
/// Larger records are read from the file each time.
const MAX_RECORD_BYTES: usize = 64 << 10;

/// Never behind a change that was acknowledged: the writing thread updates it before it answers. Until then it may have what the change
/// replaces, as a read that began before it would.
#[derive(Default)]
pub(super) struct RecordCache {
    known: Mutex<Known>,
}

/// What a record takes in the file, and the record. `None`: there is none.
type Entry = (usize, Option<Versioned>);

#[derive(Default)]
struct Known {
    latest: HashMap<Key, Entry>,
    latest_bytes: usize,
    before: HashMap<Key, Entry>,
    /// Grows when something was forgotten. What a read found that began before then may be out of date.
    epoch: u64,
}

/// What the cache knows of some keys.
pub(super) enum Lookup {
    Known(Vec<Option<Versioned>>),
    /// At least one of them has to be read.
    Unknown(Epoch),
}

/// When a read began.
#[derive(Clone, Copy)]
pub(super) struct Epoch(u64);

impl Known {
    fn find(&mut self, key: &Key) -> Option<Option<Versioned>> {
        if let Some((_, found)) = self.latest.get(key) {
            return Some(found.clone());
        }
        // What is used stays known.
        let (key, entry) = self.before.remove_entry(key)?;
        let found = entry.1.clone();
        self.insert(key, entry, MAX_LATEST_BYTES);
        Some(found)
    }

    fn insert(&mut self, key: Key, entry: Entry, max_bytes: usize) {
        if self.latest_bytes >= max_bytes {
            self.before = std::mem::take(&mut self.latest);
            self.latest_bytes = 0;
            self.epoch += 1;
        }
        self.before.remove(&key);
        self.latest_bytes += entry_bytes(&key, &entry);
        let key_bytes = key.partition.len() + key.sort.len();
        if let Some((bytes, _)) = self.latest.insert(key, entry) {
            self.latest_bytes -= ENTRY_BYTES + key_bytes + bytes;
        }
    }

    fn remove(&mut self, key: &Key) {
        self.before.remove(key);
        if let Some((key, entry)) = self.latest.remove_entry(key) {
            self.latest_bytes -= entry_bytes(&key, &entry);
        }
    }

    /// Whether a later version of the record is known.
    fn has_later(&self, key: &Key, found: Option<&Versioned>) -> bool {
        let known =
            self.latest.get(key).or_else(|| self.before.get(key)).and_then(|(_, known)| known.as_ref());
        known.is_some_and(|known| found.is_none_or(|found| known.version > found.version))
    }
}

fn entry_bytes(key: &Key, (bytes, _): &Entry) -> usize {
    ENTRY_BYTES + key.partition.len() + key.sort.len() + bytes
}

impl RecordCache {
    /// What is known of all these keys, at one moment.
    pub(super) fn look_up(&self, keys: &[Key]) -> Lookup {
        let mut known = self.lock();
        let found: Option<Vec<_>> = keys.iter().map(|key| known.find(key)).collect();
        found.map_or_else(|| Lookup::Unknown(Epoch(known.epoch)), Lookup::Known)
    }

    /// Adds what a read found that began at this epoch.
    pub(super) fn add(&self, key: &Key, bytes: usize, found: Option<&Versioned>, began: Epoch) {
        // What ends by itself is removed without a word.
        let ends = found.is_some_and(|found| found.record.index_entries().remove_at.is_some());
        if ends || bytes > MAX_RECORD_BYTES {
            return;
        }
        let mut known = self.lock();
        if known.epoch == began.0 && !known.has_later(key, found) {
            known.insert(key.clone(), (bytes, found.cloned()), MAX_LATEST_BYTES);
        }
    }

    /// A record that does not end by itself was written. For those that change all the time: other reads can still be added.
    pub(super) fn replace(&self, key: &Key, bytes: usize, written: Versioned) {
        self.lock().insert(key.clone(), (bytes, Some(written)), MAX_LATEST_BYTES);
    }

    /// Records were changed or removed.
    pub(super) fn forget<'a>(&self, keys: impl IntoIterator<Item = &'a Key>) {
        let mut known = self.lock();
        let mut any = false;
        for key in keys {
            any = true;
            known.remove(key);
        }
        known.epoch += u64::from(any);
    }

    /// No change can panic halfway, so the data behind a poisoned lock is consistent.
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use holdfast_core::records::Record;

    use super::*;

    fn key(sort: &str) -> Key {
        Key::new("url#t".to_owned(), sort)
    }

    fn version(version: u64) -> Versioned {
        let record = Record::Newer { key: key("a"), version: 9 };
        Versioned { record, version }
    }

    fn known(cache: &RecordCache, sort: &str) -> Option<Option<u64>> {
        match cache.look_up(&[key(sort)]) {
            Lookup::Known(found) => Some(found[0].as_ref().map(|found| found.version)),
            Lookup::Unknown(_) => None,
        }
    }

    fn epoch(cache: &RecordCache) -> Epoch {
        Epoch(cache.lock().epoch)
    }

    #[test]
    fn what_was_read_is_known_also_that_there_is_none() {
        let cache = RecordCache::default();
        assert_eq!(known(&cache, "a"), None);
        cache.add(&key("a"), 10, Some(&version(3)), epoch(&cache));
        cache.add(&key("b"), 0, None, epoch(&cache));
        assert_eq!((known(&cache, "a"), known(&cache, "b")), (Some(Some(3)), Some(None)));
        assert!(matches!(cache.look_up(&[key("a"), key("c")]), Lookup::Unknown(_)), "all or none");
    }

    #[test]
    fn a_read_that_began_before_a_change_adds_nothing() {
        let cache = RecordCache::default();
        let before = epoch(&cache);
        cache.forget(&[key("a")]);
        cache.add(&key("a"), 10, Some(&version(3)), before);
        assert_eq!(known(&cache, "a"), None);
        let before = epoch(&cache);
        cache.replace(&key("a"), 10, version(4));
        cache.add(&key("a"), 10, Some(&version(3)), before);
        assert_eq!(known(&cache, "a"), Some(Some(4)));
        cache.add(&key("b"), 10, Some(&version(1)), before);
        assert_eq!(known(&cache, "b"), Some(Some(1)), "other records can be added");
        cache.forget(&[key("a"), key("b")]);
        assert_eq!((known(&cache, "a"), known(&cache, "b")), (None, None));
        assert_eq!(cache.lock().latest_bytes, 0);
    }

    #[test]
    fn what_is_used_stays_and_the_rest_is_dropped() {
        let cache = RecordCache::default();
        let add = |sort: &str| cache.add(&key(sort), MAX_RECORD_BYTES, Some(&version(1)), epoch(&cache));
        let before = epoch(&cache);
        let fill = |from: usize| {
            for n in from..from + MAX_LATEST_BYTES / MAX_RECORD_BYTES {
                add(&n.to_string());
            }
        };
        add("used");
        for round in 0..5 {
            fill(round * 1_000);
            assert_eq!(known(&cache, "used"), Some(Some(1)));
        }
        assert_eq!(known(&cache, "0"), None);
        let most = 2 * (MAX_LATEST_BYTES / MAX_RECORD_BYTES + 1);
        let known_now = cache.lock();
        let entries = known_now.latest.len() + known_now.before.len();
        drop(known_now);
        assert!(entries <= most, "{entries}");
        cache.add(&key("late"), 10, Some(&version(1)), before);
        assert_eq!(known(&cache, "late"), None, "a later version may have been dropped since it was read");
        cache.add(&key("large"), MAX_RECORD_BYTES + 1, Some(&version(1)), epoch(&cache));
        assert_eq!(known(&cache, "large"), None);
    }
}
