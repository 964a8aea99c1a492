//! How many connections are kept for another attempt, to all receivers together. The HTTP client has only a limit for each receiver.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::meter::Meter;

#[derive(Debug)]
pub(crate) struct IdleConnections {
    max: usize,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    /// The one that has been idle longest is first.
    by_number: BTreeMap<u64, Weak<Meter>>,
    count: u64,
}

/// A connection that is kept, as of one moment: when it is used and kept again, it has another number.
#[derive(Debug)]
pub(crate) struct KeptConnection {
    pub(crate) number: u64,
    pub(crate) meter: Weak<Meter>,
}

impl IdleConnections {
    pub(crate) fn new(max: usize) -> Arc<IdleConnections> {
        Arc::new(IdleConnections { max, kept: Mutex::default() })
    }

    /// Keeps one more. Returns its number, and which one is to be closed, if there are too many.
    pub(crate) fn keep(&self, meter: Weak<Meter>) -> (u64, Option<KeptConnection>) {
        let mut kept = self.lock();
        kept.count += 1;
        let number = kept.count;
        kept.by_number.insert(number, meter);
        let is_over = kept.by_number.len() > self.max;
        let oldest = if is_over { kept.by_number.pop_first() } else { None };
        (number, oldest.map(|(number, meter)| KeptConnection { number, meter }))
    }

    /// It is used again, or closed.
    pub(crate) fn release(&self, number: u64) {
        self.lock().by_number.remove(&number);
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
