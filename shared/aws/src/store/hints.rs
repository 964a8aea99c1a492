use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use holdfast_core::records::{Key, UrlRecord};

const MOST: usize = 10_000;

/// How URLs were when they were last seen from here. May be wrong: it only decides what is tried first.
#[derive(Default)]
pub(super) struct Hints(Mutex<HashMap<Key, (UrlRecord, u64)>>);

impl Hints {
    pub(super) fn get(&self, key: &Key) -> Option<(UrlRecord, u64)> {
        self.lock().get(key).cloned()
    }

    pub(super) fn saw(&self, url: &UrlRecord, version: u64) {
        let mut hints = self.lock();
        // Rarely, and then all of them: which one is the oldest is not worth knowing.
        if hints.len() >= MOST {
            hints.clear();
        }
        hints.insert(UrlRecord::key(&url.tenant, &url.id), (url.clone(), version));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, (UrlRecord, u64)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
