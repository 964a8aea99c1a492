use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use holdfast_core::records::{Key, UrlRecord};

const MAX_HINTS: usize = 10_000;

/// URL records as this process last read them. They may be stale: a hint only decides what is tried first.
#[derive(Default)]
pub(super) struct Hints(Mutex<HashMap<Key, (UrlRecord, u64)>>);

impl Hints {
    pub(super) fn get(&self, key: &Key) -> Option<(UrlRecord, u64)> {
        self.lock().get(key).cloned()
    }

    pub(super) fn remember(&self, url: &UrlRecord, version: u64) {
        let mut hints = self.lock();
        // Rare, so all of them are dropped instead of tracking which one is the oldest.
        if hints.len() >= MAX_HINTS {
            hints.clear();
        }
        hints.insert(UrlRecord::key(&url.tenant, &url.id), (url.clone(), version));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, (UrlRecord, u64)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
