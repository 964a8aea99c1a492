//! Keys that were looked up a moment ago. Only those that were found: a new key is then valid at once, everywhere.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use holdfast_core::ids::KeyId;
use holdfast_core::records::KeyRecord;
use holdfast_core::time::Timestamp;

/// In real time. A revoked key must be refused everywhere within 5 s, and the look-up itself takes some of them.
const KEPT: Duration = Duration::from_secs(2);
const MAX_KEPT: usize = 10_000;

#[derive(Default)]
pub(super) struct KeyCache {
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    by_hash: HashMap<String, Kept>,
    /// How often something was forgotten.
    revision: u64,
}

struct Kept {
    key: Arc<KeyRecord>,
    /// When the look-up began.
    asked_at: Timestamp,
}

impl Kept {
    fn is_fresh(&self, now: Timestamp) -> bool {
        self.asked_at <= now && now < self.asked_at + KEPT
    }
}

impl KeyCache {
    pub(super) fn get(&self, hash: &str, now: Timestamp) -> Option<Arc<KeyRecord>> {
        let known = self.lock();
        let kept = known.by_hash.get(hash).filter(|kept| kept.is_fresh(now))?;
        kept.key.is_valid_at(now).then(|| Arc::clone(&kept.key))
    }

    /// To be asked for before a look-up begins, and handed back with what it found.
    pub(super) fn revision(&self) -> u64 {
        self.lock().revision
    }

    pub(super) fn keep(&self, key: Arc<KeyRecord>, asked_at: Timestamp, revision: u64) {
        let mut known = self.lock();
        // Somebody revoked a key while this one was looked up: it may be the one.
        if known.revision != revision {
            return;
        }
        if known.by_hash.len() >= MAX_KEPT {
            known.by_hash.retain(|_, kept| kept.is_fresh(asked_at));
        }
        if known.by_hash.len() < MAX_KEPT {
            known.by_hash.insert(key.hash.clone(), Kept { key, asked_at });
        }
    }

    pub(super) fn forget(&self, id: &KeyId) {
        let mut known = self.lock();
        known.revision += 1;
        known.by_hash.retain(|_, kept| kept.key.id != *id);
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
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
            v: 1,
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
    fn a_key_is_known_for_two_seconds() {
        let (cache, key) = (KeyCache::default(), key("a"));
        cache.keep(key.clone(), START, cache.revision());
        let known_at = |ms: i64| cache.get(&key.hash, Timestamp::from_millis(1_000_000 + ms)).is_some();
        assert!(known_at(0) && known_at(1_999));
        assert!(!known_at(2_000));
        assert!(!known_at(-1), "a clock that was set back makes nothing last longer");
    }

    #[test]
    fn what_was_looked_up_while_a_key_was_revoked_is_not_kept() {
        let (cache, key) = (KeyCache::default(), key("a"));
        let revision = cache.revision();
        cache.forget(&key.id);
        cache.keep(key.clone(), START, revision);
        assert!(cache.get(&key.hash, START).is_none());
        cache.keep(key.clone(), START, cache.revision());
        assert!(cache.get(&key.hash, START).is_some());
        cache.forget(&key.id);
        assert!(cache.get(&key.hash, START).is_none());
    }

    #[test]
    fn it_stays_bounded() {
        let cache = KeyCache::default();
        for n in 0..MAX_KEPT + 10 {
            cache.keep(key(&n.to_string()), START, 0);
        }
        assert_eq!(cache.lock().by_hash.len(), MAX_KEPT);
        cache.keep(key("later"), START + KEPT, 0);
        assert_eq!(cache.lock().by_hash.len(), 1, "what is no longer fresh makes room");
    }
}
