//! What was posted, and what the server answered.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::cast::Family;

/// An event that was posted at least once.
#[derive(Clone, Debug)]
pub(super) struct Posted {
    pub(super) tenant: usize,
    pub(super) family: Family,
    /// The id that the producer gave it, which makes it safe to post it again.
    pub(super) given_id: Option<String>,
    pub(super) answer: Answer,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// No answer, or one that says that it may have been accepted: it may be delivered, and need not be.
    Unknown,
    /// 202.
    Accepted { id: String, deliveries: u64 },
    /// It must not be delivered.
    Refused,
}

/// By their numbers.
#[derive(Default)]
pub(super) struct Ledger(Mutex<BTreeMap<u64, Posted>>);

impl Ledger {
    /// Writes an event down before it is posted, and returns its number.
    pub(super) fn add(&self, tenant: usize, family: Family, is_id_given: bool) -> (u64, Option<String>) {
        let mut posted = self.posted();
        let serial = posted.len() as u64;
        let given_id = is_id_given.then(|| format!("given-{serial}"));
        posted.insert(serial, Posted { tenant, family, given_id: given_id.clone(), answer: Answer::Unknown });
        (serial, given_id)
    }

    pub(super) fn answer(&self, serial: u64, answer: Answer) {
        if let Some(posted) = self.posted().get_mut(&serial) {
            posted.answer = answer;
        }
    }

    pub(super) fn posted(&self) -> MutexGuard<'_, BTreeMap<u64, Posted>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
