use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// How often things happened: faults, transitions, branches of the rules.
#[derive(Debug, Default)]
pub struct Counts(Mutex<BTreeMap<&'static str, u64>>);

impl Counts {
    pub(super) fn add(&self, what: &'static str) {
        self.add_many(what, 1);
    }

    pub(super) fn add_many(&self, what: &'static str, times: u64) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(what).or_default() += times;
    }

    #[must_use]
    pub fn all(&self) -> BTreeMap<&'static str, u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
