//! The health of one URL: whether it may be attempted, and what an outcome does to that.

use std::time::Duration;

use serde::{Deserialize, Serialize};

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
    /// Until there is a success: the time of the first attempt. `None` before any attempt.
    pub last_success_at: Option<Timestamp>,
    /// Set exactly while disabled.
    pub next_probe_at: Option<Timestamp>,
    /// Counts state changes and every enable by hand, so that late outcomes can be told apart from current ones.
    pub generation: u64,
}

/// How one attempt ended, as far as the URL is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub success: bool,
    /// The first attempt of its delivery: neither a retry nor a replay.
    pub is_first: bool,
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
            next_probe_at: None,
            generation: 0,
        }
    }

    #[must_use]
    pub fn probe_due(&self, now: Timestamp) -> bool {
        self.state == UrlState::Disabled && self.next_probe_at.is_some_and(|at| at <= now)
    }

    /// Counts one outcome. Returns the change of state that it causes, if any.
    pub fn count(&mut self, outcome: &Outcome) -> Option<Change> {
        if self.last_success_at.is_none() {
            self.last_success_at = Some(outcome.started_at);
        }
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
        } else {
            self.streak += 1;
            self.window_failures += 1;
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

    fn judge(&mut self, outcome: &Outcome) -> Option<Change> {
        let now = outcome.ended_at;
        if self.state == UrlState::Disabled && outcome.success {
            self.clear();
            return Some(self.enter(UrlState::Enabled, now, "a probe succeeded".to_owned()));
        }
        if self.state != UrlState::Frozen
            && let Some(why) = self.why_freeze(now)
        {
            return Some(self.enter(UrlState::Frozen, now, why));
        }
        match self.state {
            UrlState::Enabled => self.why_disable().map(|why| self.enter(UrlState::Disabled, now, why)),
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
        let silent = self.last_success_at.is_some_and(|at| now.since(at) > FREEZE_SILENCE);
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
