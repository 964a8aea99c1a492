//! The health of one URL: whether it may be attempted, and what an outcome does to that.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::rules::last_failure::{AttemptError, LastFailure};
use crate::time::Timestamp;

/// The window counters are halved here, so that old history fades.
pub const WINDOW_HALVED_AT: u64 = 10_000;
/// The failure rate means nothing before this many attempts.
pub const DISABLE_MIN_ATTEMPTS: u64 = 100;
pub const DISABLE_FAILURE_PERCENT: u64 = 70;
pub const DISABLE_STREAK: u64 = 2_000;
const FREEZE_STREAK: u64 = 2_000;
const FREEZE_SILENCE: Duration = Duration::from_secs(72 * 3600);
const FREEZE_STREAK_ANY_TIME: u64 = 50_000;
pub const PROBE_INTERVAL: Duration = Duration::from_secs(600);
/// So many consecutive failures are trouble.
pub const FAILING_STREAK: u64 = 10;
/// A delivery whose retry with this number fails is trouble too: a quiet URL may never reach the streak.
pub const FAILING_RETRY: u32 = 3;
/// After a recovery, only a streak is trouble for this long. A receiver that refuses some events for good would otherwise fail and recover with
/// each of their retries.
pub const CALM_AFTER_RECOVERY: Duration = Duration::from_secs(600);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UrlState {
    Enabled,
    /// The circuit is open: deliveries are parked, and the URL is probed every 10 minutes.
    Disabled,
    /// Never attempted until a person enables it.
    Frozen,
}

impl UrlState {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            UrlState::Enabled => "enabled",
            UrlState::Disabled => "disabled",
            UrlState::Frozen => "frozen",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    pub state: UrlState,
    /// When the present state began.
    pub since: Timestamp,
    /// Why it is in this state, in words for the operator.
    pub reason: String,
    /// Consecutive failures.
    pub streak: u64,
    pub window_attempts: u64,
    pub window_failures: u64,
    /// First attempts in the window, without retries: the share of them that failed is the share of deliveries that the receiver refuses. It
    /// is shown to operators and decides nothing.
    #[serde(default)]
    pub window_first_attempts: u64,
    #[serde(default)]
    pub window_first_failures: u64,
    /// `None` until there is one.
    pub last_success_at: Option<Timestamp>,
    /// When the first attempt started, from which silence is counted until there is a success.
    #[serde(default)]
    pub first_attempt_at: Option<Timestamp>,
    /// The latest failure that was counted. Kept after a success.
    #[serde(default)]
    pub last_failure: Option<LastFailure>,
    /// When the first attempt of the current streak of failures started. `None` while the streak is 0.
    #[serde(default)]
    pub failing_since: Option<Timestamp>,
    /// It is in trouble: it has failed often enough for operators to hear of it, and has not succeeded since.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub failing: bool,
    /// When it was last in trouble and succeeded.
    #[serde(default)]
    pub recovered_at: Option<Timestamp>,
    /// Set exactly while disabled.
    pub next_probe_at: Option<Timestamp>,
    /// Counts state changes and every enable by hand, so that late outcomes can be told apart from current ones.
    pub generation: u64,
}

/// How one attempt ended, as far as the URL is concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub success: bool,
    /// Of a failure.
    pub error: Option<AttemptError>,
    /// The first attempt of its delivery: neither a retry nor a replay.
    pub is_first: bool,
    /// Which retry it is; 0 is the first attempt of an epoch.
    pub retry: u32,
    /// Of an event that Holdfast itself posted. Trouble that it shows is not announced.
    pub is_own_event: bool,
    pub started_at: Timestamp,
    pub ended_at: Timestamp,
    /// The generation that the attempt read before it started.
    pub generation: u64,
    /// How long the URL's recent answers took, with this one: a moving average in milliseconds.
    pub recent_ms: u32,
}

/// A change of state, for the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub from: UrlState,
    pub to: UrlState,
    pub why: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperatorAction {
    Enable,
    Freeze,
    Disable,
}

/// A frozen URL cannot be disabled: a probe would then enable it, although an operator froze it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a frozen URL cannot be disabled")]
pub struct CannotDisableFrozen;

impl Health {
    #[must_use]
    pub fn new(now: Timestamp) -> Health {
        Health {
            state: UrlState::Enabled,
            since: now,
            reason: "created".to_owned(),
            streak: 0,
            window_attempts: 0,
            window_failures: 0,
            window_first_attempts: 0,
            window_first_failures: 0,
            last_success_at: None,
            first_attempt_at: None,
            last_failure: None,
            failing_since: None,
            failing: false,
            recovered_at: None,
            next_probe_at: None,
            generation: 0,
        }
    }

    /// Since when there has been no success: since the first attempt if there never was one.
    #[must_use]
    pub fn silent_since(&self) -> Option<Timestamp> {
        self.last_success_at.or(self.first_attempt_at)
    }

    #[must_use]
    pub fn probe_due(&self, now: Timestamp) -> bool {
        self.state == UrlState::Disabled && self.next_probe_at.is_some_and(|at| at <= now)
    }

    /// Counts one outcome. Returns the change of state that it causes, if any.
    pub fn count(&mut self, outcome: &Outcome) -> Option<Change> {
        self.first_attempt_at.get_or_insert(outcome.started_at);
        if outcome.success {
            self.last_success_at = self.last_success_at.max(Some(outcome.ended_at));
        }
        // A late answer must not close a circuit that just opened, or open one that a person just closed.
        if outcome.generation != self.generation {
            return None;
        }
        self.window_attempts += 1;
        if outcome.success {
            self.streak = 0;
            self.recover(outcome.ended_at);
        } else {
            self.streak += 1;
            self.window_failures += 1;
            self.fail(outcome);
        }
        if outcome.is_first {
            self.window_first_attempts += 1;
            self.window_first_failures += u64::from(!outcome.success);
        }
        if self.window_attempts >= WINDOW_HALVED_AT {
            self.window_attempts /= 2;
            self.window_failures /= 2;
            self.window_first_attempts /= 2;
            self.window_first_failures /= 2;
        }
        self.judge(outcome)
    }

    fn recover(&mut self, now: Timestamp) {
        self.failing_since = None;
        if self.failing {
            self.failing = false;
            self.recovered_at = Some(now);
        }
    }

    fn fail(&mut self, outcome: &Outcome) {
        self.failing_since.get_or_insert(outcome.started_at);
        if let Some(error) = &outcome.error {
            self.last_failure = Some(LastFailure { at: outcome.ended_at, error: error.clone() });
        }
        let is_calm = self.recovered_at.is_some_and(|at| outcome.ended_at.since(at) < CALM_AFTER_RECOVERY);
        self.failing |= self.streak >= FAILING_STREAK || (outcome.retry >= FAILING_RETRY && !is_calm);
    }

    fn judge(&mut self, outcome: &Outcome) -> Option<Change> {
        let now = outcome.ended_at;
        if self.state == UrlState::Disabled && outcome.success {
            self.clear();
            return Some(self.enter(UrlState::Enabled, now, "a probe succeeded".to_owned()));
        }
        if self.state != UrlState::Frozen
            && let Some(why) = self.why_freeze(now)
        {
            self.failing = true;
            return Some(self.enter(UrlState::Frozen, now, why));
        }
        match self.state {
            UrlState::Enabled => self.why_disable().map(|why| {
                self.failing = true;
                self.enter(UrlState::Disabled, now, why)
            }),
            UrlState::Disabled => {
                self.next_probe_at = Some(now + PROBE_INTERVAL);
                None
            }
            UrlState::Frozen => None,
        }
    }

    fn why_freeze(&self, now: Timestamp) -> Option<String> {
        if self.streak >= FREEZE_STREAK_ANY_TIME {
            return Some(format!("{} consecutive failures", self.streak));
        }
        let silent = self.silent_since().is_some_and(|at| now.since(at) > FREEZE_SILENCE);
        (self.streak > FREEZE_STREAK && silent)
            .then(|| format!("{} consecutive failures and no success for more than 72 hours", self.streak))
    }

    fn why_disable(&self) -> Option<String> {
        if self.streak >= DISABLE_STREAK {
            return Some(format!("{} consecutive failures", self.streak));
        }
        let failing = self.window_attempts > DISABLE_MIN_ATTEMPTS
            && self.window_failures * 100 > self.window_attempts * DISABLE_FAILURE_PERCENT;
        failing.then(|| format!("{} of {} attempts failed", self.window_failures, self.window_attempts))
    }

    fn clear(&mut self) {
        self.failing_since = None;
        self.failing = false;
        self.streak = 0;
        self.window_attempts = 0;
        self.window_failures = 0;
        self.window_first_attempts = 0;
        self.window_first_failures = 0;
    }

    fn enter(&mut self, to: UrlState, now: Timestamp, why: String) -> Change {
        let from = self.state;
        self.state = to;
        self.since = now;
        self.reason.clone_from(&why);
        self.generation += 1;
        self.next_probe_at = (to == UrlState::Disabled).then(|| now + PROBE_INTERVAL);
        Change { from, to, why }
    }

    /// Applies what an operator asks for. `Ok(None)`: the state stays as it is.
    pub fn apply_action(
        &mut self,
        action: OperatorAction,
        now: Timestamp,
        why: &str,
    ) -> Result<Option<Change>, CannotDisableFrozen> {
        let to = match action {
            OperatorAction::Enable => {
                // Also when it is enabled already: the person wants clean counters and no late failure to spoil them.
                self.clear();
                UrlState::Enabled
            }
            OperatorAction::Freeze => UrlState::Frozen,
            OperatorAction::Disable if self.state == UrlState::Frozen => return Err(CannotDisableFrozen),
            OperatorAction::Disable => UrlState::Disabled,
        };
        if self.state == to {
            if action == OperatorAction::Enable {
                self.generation += 1;
            }
            return Ok(None);
        }
        Ok(Some(self.enter(to, now, why.to_owned())))
    }

    /// Takes the right to make the one probe of these 10 minutes. The time for the attempt itself is added, so that a probe
    /// under way is never joined by a second one.
    pub fn lease_probe(&mut self, now: Timestamp, function_timeout: Duration) -> bool {
        let due = self.probe_due(now);
        if due {
            self.next_probe_at = Some(now + PROBE_INTERVAL + function_timeout);
        }
        due
    }

    /// Gives back the right to a probe that was not made: it is due now, as before.
    pub fn give_back_probe(&mut self, now: Timestamp) {
        if self.state == UrlState::Disabled {
            self.next_probe_at = Some(now);
        }
    }
}

#[cfg(test)]
#[path = "health_tests.rs"]
mod tests;
