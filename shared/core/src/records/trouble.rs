//! What the tenant is still to be told about the trouble of a URL.

use serde::{Deserialize, Serialize};

use crate::rules::health::Health;
use crate::rules::last_failure::AttemptError;
use crate::time::Timestamp;

/// More are never announced at once, so older ones make room.
const MAX_NOTES: usize = 10;

/// A URL got into trouble, or out of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TroubleNote {
    /// Counts the notes of a URL, so that each is announced under an id of its own.
    pub number: u64,
    pub at: Timestamp,
    /// When the streak of failures began.
    pub failing_since: Option<Timestamp>,
    pub change: TroubleChange,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TroubleChange {
    Failing { streak: u64, error: Option<AttemptError> },
    Recovered,
}

/// What was announced of a URL's trouble, and what is to be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TroubleNotes {
    /// How many there have been.
    count: u64,
    /// The trouble that the URL is in was announced, or is about to be, so its end will be too.
    is_announced: bool,
    pending: Vec<TroubleNote>,
}

impl TroubleNotes {
    /// Oldest first.
    #[must_use]
    pub fn pending(&self) -> &[TroubleNote] {
        &self.pending
    }

    pub(super) fn failing(&mut self, health: &Health, at: Timestamp) {
        self.is_announced = true;
        let error = health.last_failure.as_ref().map(|last| last.error.clone());
        let change = TroubleChange::Failing { streak: health.streak, error };
        self.add(at, health.failing_since, change);
    }

    /// `false`: there is nothing to tell, because the trouble was never announced.
    pub(super) fn recovered(&mut self, since: Option<Timestamp>, at: Timestamp) -> bool {
        let was_announced = std::mem::take(&mut self.is_announced);
        if was_announced {
            self.add(at, since, TroubleChange::Recovered);
        }
        was_announced
    }

    /// The trouble is over, and a change of state says so.
    pub(super) fn forget(&mut self) {
        self.is_announced = false;
    }

    fn add(&mut self, at: Timestamp, failing_since: Option<Timestamp>, change: TroubleChange) {
        self.count += 1;
        self.pending.push(TroubleNote { number: self.count, at, failing_since, change });
        let surplus = self.pending.len().saturating_sub(MAX_NOTES);
        self.pending.drain(..surplus);
    }

    /// Everything up to this number is announced, or replaced by newer ones.
    pub(super) fn end(&mut self, up_to: u64) {
        self.pending.retain(|note| note.number > up_to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_notes_stay_and_numbers_are_never_used_again() {
        let mut notes = TroubleNotes::default();
        let mut health = Health::new(Timestamp::ZERO);
        health.streak = 10;
        for _ in 0..6 {
            notes.failing(&health, Timestamp::ZERO);
            assert!(notes.recovered(None, Timestamp::ZERO));
        }
        let numbers = |notes: &TroubleNotes| -> Vec<_> { notes.pending().iter().map(|n| n.number).collect() };
        assert_eq!(numbers(&notes), (3..=12).collect::<Vec<_>>());
        notes.end(11);
        assert_eq!(numbers(&notes), [12]);
        notes.end(12);
        notes.failing(&health, Timestamp::ZERO);
        assert_eq!(numbers(&notes), [13]);
    }

    #[test]
    fn the_end_of_a_trouble_is_told_only_if_its_beginning_was() {
        let mut notes = TroubleNotes::default();
        assert!(!notes.recovered(None, Timestamp::ZERO));
        notes.failing(&Health::new(Timestamp::ZERO), Timestamp::ZERO);
        notes.forget();
        assert!(!notes.recovered(None, Timestamp::ZERO));
        assert_eq!(notes.pending().len(), 1);
    }
}
