//! The health of a URL once more, written from the promises and not from the code, to compare the two.

use std::time::Duration;

use holdfast_core::rules::health::{Health, Outcome, UrlState};
use holdfast_core::time::Timestamp;

const TEN_MINUTES: Duration = Duration::from_secs(600);
const THREE_DAYS: Duration = Duration::from_secs(72 * 3_600);

/// What outcomes and people may change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) state: UrlState,
    pub(super) streak: u64,
    pub(super) attempts: u64,
    pub(super) failures: u64,
    pub(super) generation: u64,
    pub(super) last_success_at: Option<Timestamp>,
    pub(super) first_attempt_at: Option<Timestamp>,
    pub(super) next_probe_at: Option<Timestamp>,
}

impl Facts {
    pub(super) fn of(health: &Health) -> Facts {
        Facts {
            state: health.state,
            streak: health.streak,
            attempts: health.window_attempts,
            failures: health.window_failures,
            generation: health.generation,
            last_success_at: health.last_success_at,
            first_attempt_at: health.first_attempt_at,
            next_probe_at: health.next_probe_at,
        }
    }

    /// The same without the time of the next probe, which is moved to take the right to it.
    pub(super) fn without_probe(self) -> Facts {
        Facts { next_probe_at: None, ..self }
    }

    pub(super) fn count(&mut self, outcome: &Outcome) {
        self.first_attempt_at = self.first_attempt_at.or(Some(outcome.started_at));
        if outcome.success {
            self.last_success_at = self.last_success_at.max(Some(outcome.ended_at));
        }
        if outcome.generation != self.generation {
            return;
        }
        self.attempts += 1;
        (self.streak, self.failures) =
            if outcome.success { (0, self.failures) } else { (self.streak + 1, self.failures + 1) };
        if self.attempts == 10_000 {
            (self.attempts, self.failures) = (5_000, self.failures / 2);
        }
        self.change_state(outcome);
    }

    fn change_state(&mut self, outcome: &Outcome) {
        let now = outcome.ended_at;
        let silent =
            self.last_success_at.or(self.first_attempt_at).is_some_and(|at| now.since(at) > THREE_DAYS);
        let freezes = self.streak >= 50_000 || (self.streak > 2_000 && silent);
        let disables =
            self.streak >= 2_000 || (self.attempts > 100 && self.failures * 10 > self.attempts * 7);
        let to = match self.state {
            UrlState::Frozen => return,
            UrlState::Disabled if outcome.success => UrlState::Enabled,
            _ if freezes => UrlState::Frozen,
            UrlState::Enabled if disables => UrlState::Disabled,
            UrlState::Enabled => return,
            UrlState::Disabled => {
                self.next_probe_at = Some(now + TEN_MINUTES);
                return;
            }
        };
        self.generation += 1;
        self.state = to;
        self.next_probe_at = (to == UrlState::Disabled).then(|| now + TEN_MINUTES);
        if to == UrlState::Enabled {
            (self.streak, self.attempts, self.failures) = (0, 0, 0);
        }
    }

    /// Whether a person's action leads from the one to the other.
    pub(super) fn is_by_hand(&self, after: &Facts) -> bool {
        let cleared = after.streak == 0 && after.attempts == 0 && after.failures == 0;
        let same =
            (after.streak, after.attempts, after.failures) == (self.streak, self.attempts, self.failures);
        after.generation == self.generation + 1
            && after.last_success_at == self.last_success_at
            && match after.state {
                UrlState::Enabled => cleared,
                UrlState::Frozen => same,
                UrlState::Disabled => same && self.state == UrlState::Enabled,
            }
    }
}
