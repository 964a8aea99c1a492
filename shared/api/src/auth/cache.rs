//! Keys that were looked up a moment ago. Only those that were found, so that a new key is valid everywhere at once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use holdfast_core::ids::KeyId;
use holdfast_core::records::KeyRecord;
use holdfast_core::time::Timestamp;

/// In real time. A deleted key must be rejected everywhere within 5 s, and the lookup itself takes some of that.
const TTL: Duration = Duration::from_secs(2);
const MAX_ENTRIES: usize = 10_000;

#[derive(Default)]
pub(super) struct KeyCache {
    entries: Mutex<Entries>,
}

#[derive(Default)]
struct Entries {
    by_hash: HashMap<String, Entry>,
    /// Counts removals.
    revision: u64,
}

struct Entry {
    key: Arc<KeyRecord>,
    /// When the lookup started.
    looked_up_at: Timestamp,
}

impl Entry {
    fn is_fresh(&self, now: Timestamp) -> bool {
        self.looked_up_at <= now && now < self.looked_up_at + TTL
    }
}

impl KeyCache {
    pub(super) fn get(&self, hash: &str, now: Timestamp) -> Option<Arc<KeyRecord>> {
        let entries = self.lock();
        let entry = entries.by_hash.get(hash).filter(|entry| entry.is_fresh(now))?;
        entry.key.is_valid_at(now).then(|| Arc::clone(&entry.key))
    }

    /// Read it before a lookup, and pass it to `insert` with the result.
    pub(super) fn revision(&self) -> u64 {
        self.lock().revision
    }

    pub(super) fn insert(&self, key: Arc<KeyRecord>, looked_up_at: Timestamp, revision: u64) {
        let mut entries = self.lock();
        // A key was deleted during the lookup, and it may be this one.
        if entries.revision != revision {
            return;
        }
        if entries.by_hash.len() >= MAX_ENTRIES {
            entries.by_hash.retain(|_, entry| entry.is_fresh(looked_up_at));
        }
        if entries.by_hash.len() < MAX_ENTRIES {
            entries.by_hash.insert(key.hash.clone(), Entry { key, looked_up_at });
        }
    }

    pub(super) fn evict(&self, id: &KeyId) {
        let mut entries = self.lock();
        entries.revision += 1;
        entries.by_hash.retain(|_, entry| entry.key.id != *id);
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use holdfast_core::ids::fingerprint;
    use holdfast_core::rules::access::Role;

    use super::*;

    const START: Timestamp = Timestamp::from_millis(1_000_000);

    fn key(text: &str) -> Arc<KeyRecord> {
        let hash = fingerprint(text.as_bytes());
        Arc::new(KeyRecord {
            id: KeyId::of(&hash),
            tenant: None,
            role: Role::Operator,
            hash,
            description: None,
            created_at_real: START,
            expires_at_real: None,
        })
    }

    #[test]
    fn a_key_is_cached_for_two_seconds() {
        let (cache, key) = (KeyCache::default(), key("a"));
        cache.insert(key.clone(), START, cache.revision());
        let cached_at = |ms: i64| cache.get(&key.hash, Timestamp::from_millis(1_000_000 + ms)).is_some();
        assert!(cached_at(0) && cached_at(1_999));
        assert!(!cached_at(2_000));
        assert!(!cached_at(-1), "setting the clock back must not extend an entry");
    }

    #[test]
    fn a_key_that_was_looked_up_during_a_removal_is_not_cached() {
        let (cache, key) = (KeyCache::default(), key("a"));
        let revision = cache.revision();
        cache.evict(&key.id);
        cache.insert(key.clone(), START, revision);
        assert!(cache.get(&key.hash, START).is_none());
        cache.insert(key.clone(), START, cache.revision());
        assert!(cache.get(&key.hash, START).is_some());
        cache.evict(&key.id);
        assert!(cache.get(&key.hash, START).is_none());
    }

    #[test]
    fn the_size_is_limited() {
        let cache = KeyCache::default();
        for n in 0..MAX_ENTRIES + 10 {
            cache.insert(key(&n.to_string()), START, 0);
        }
        assert_eq!(cache.lock().by_hash.len(), MAX_ENTRIES);
        cache.insert(key("later"), START + TTL, 0);
        assert_eq!(cache.lock().by_hash.len(), 1, "expired entries make room");
    }
}
