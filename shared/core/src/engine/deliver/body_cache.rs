//! Bodies that were read from the store a moment ago. All deliveries of a fan-out need the same one, and those that run at the same
//! time share it. A body never changes, so that what is cached is never out of date.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures_util::lock::Mutex as AsyncMutex;

use crate::ports::BodyKey;

/// Beyond either of these, the least recently used body is evicted.
const MAX_BODIES: usize = 64;
const MAX_BYTES: usize = 16 << 20;

/// Locked while the body is being read, so that it is read once.
pub(super) type Place = Arc<AsyncMutex<Option<Bytes>>>;

#[derive(Default)]
pub(crate) struct BodyCache(Mutex<Cached>);

#[derive(Default)]
struct Cached {
    by_key: HashMap<BodyKey, Entry>,
    bytes: usize,
    /// Counts uses, to tell which was the last.
    uses: u64,
}

#[derive(Default)]
struct Entry {
    place: Place,
    bytes: usize,
    used: u64,
}

impl BodyCache {
    pub(super) fn place(&self, key: &BodyKey) -> Place {
        let mut cached = self.lock();
        cached.uses += 1;
        let used = cached.uses;
        let entry = cached.by_key.entry(key.clone()).or_default();
        entry.used = used;
        Arc::clone(&entry.place)
    }

    /// The body in this place has this size now.
    pub(super) fn resize(&self, key: &BodyKey, bytes: usize) {
        self.lock().resize(key, bytes);
    }

    /// No change can panic halfway, so the data behind a poisoned lock is consistent.
    fn lock(&self) -> MutexGuard<'_, Cached> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cached {
    fn resize(&mut self, key: &BodyKey, bytes: usize) {
        if let Some(entry) = self.by_key.get_mut(key) {
            self.bytes = self.bytes - entry.bytes + bytes;
            entry.bytes = bytes;
        }
        while self.by_key.len() > MAX_BODIES || self.bytes > MAX_BYTES {
            let oldest = self.by_key.iter().min_by_key(|(_, entry)| entry.used);
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else { return };
            if let Some(evicted) = self.by_key.remove(&oldest) {
                self.bytes -= evicted.bytes;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::EventKey;

    fn key(n: usize) -> BodyKey {
        BodyKey::new(&"a".into(), &EventKey(n.to_string()))
    }

    fn cache(cached: &BodyCache, n: usize, bytes: usize) {
        cached.place(&key(n));
        cached.resize(&key(n), bytes);
    }

    fn cached(cache: &BodyCache) -> Vec<usize> {
        let mut numbers: Vec<usize> =
            cache.lock().by_key.keys().map(|key| key.event_key.as_str().parse().unwrap()).collect();
        numbers.sort_unstable();
        numbers
    }

    #[test]
    fn the_least_recently_used_bodies_make_room() {
        let bodies = BodyCache::default();
        for n in 0..4 {
            cache(&bodies, n, MAX_BYTES / 4);
        }
        bodies.place(&key(0));
        cache(&bodies, 4, MAX_BYTES / 2);
        assert_eq!(cached(&bodies), [0, 3, 4]);
        assert_eq!(bodies.lock().bytes, MAX_BYTES);
    }

    #[test]
    fn a_body_that_is_read_again_is_counted_once() {
        let bodies = BodyCache::default();
        cache(&bodies, 0, 5);
        cache(&bodies, 0, 7);
        assert_eq!(bodies.lock().bytes, 7);
    }

    #[test]
    fn no_more_bodies_are_kept_than_allowed() {
        let bodies = BodyCache::default();
        for n in 0..=MAX_BODIES {
            cache(&bodies, n, 1);
        }
        assert_eq!(cached(&bodies), (1..=MAX_BODIES).collect::<Vec<_>>());
        assert_eq!(bodies.lock().bytes, MAX_BODIES);
    }
}
