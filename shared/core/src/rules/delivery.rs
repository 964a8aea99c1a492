//! The life of a delivery: its state, which attempt is next and when, and when it is given up.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::look_at;
use super::schedule::{Next, Schedule};
use crate::time::{Now, Timestamp};

/// How often attempt n is claimed before it counts as failed without being made.
pub(super) const MAX_TAKES: u32 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeliveryState {
    /// Due later, or being attempted.
    Waiting,
    /// Held back because its URL is disabled or frozen.
    Parked,
    Delivered,
    /// Given up, with a reason, kept for replay.
    Dead,
}

impl DeliveryState {
    #[must_use]
    pub fn is_live(self) -> bool {
        matches!(self, DeliveryState::Waiting | DeliveryState::Parked)
    }

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            DeliveryState::Waiting => "waiting",
            DeliveryState::Parked => "parked",
            DeliveryState::Delivered => "delivered",
            DeliveryState::Dead => "dead",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reason {
    /// All retries failed.
    Exhausted,
    /// Its 52 hours are over.
    Expired,
    /// Its subscription was deleted.
    Unsubscribed,
    /// Its subscription was deactivated.
    Inactive,
}

impl Reason {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::Exhausted => "exhausted",
            Reason::Expired => "expired",
            Reason::Unsubscribed => "unsubscribed",
            Reason::Inactive => "inactive",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AttemptOutcome {
    Success,
    Failure,
    /// Two functions died while they made this attempt, so it was not made a third time.
    Interrupted,
}

/// The right to make attempt (epoch, n). In real time, because it guards against functions that died, and they die in real time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    pub until_real: Timestamp,
    /// How often attempt n was claimed. The third claim sends nothing: what killed two functions might kill a third.
    pub takes: u32,
}

/// Names one attempt of a delivery: attempt `n` (0 is the first) of `epoch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptNumber {
    pub epoch: u32,
    pub n: u32,
}

/// How an attempt ended, as far as its delivery is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptEnd {
    pub success: bool,
    pub started_at: Timestamp,
    pub ended_at: Timestamp,
    /// How long after the start of the attempt the receiver asked to be left alone.
    pub retry_after: Option<Duration>,
}

/// How far a delivery has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    pub state: DeliveryState,
    /// Set exactly while dead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// Counts replays: each starts a fresh schedule.
    pub epoch: u32,
    pub epoch_began_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_attempt_at: Option<Timestamp>,
    /// The next attempt of this epoch: 0 is the first, 1..=11 are retries.
    pub next_attempt: u32,
    pub due_at: Timestamp,
    pub expires_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease: Option<Lease>,
    /// How often the next attempt was made and did not count, because our own network was down.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub spared: u32,
    /// When the sweep looks at the delivery. Set exactly while it is live.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub look_at: Option<Timestamp>,
    /// How often the sweep looked since the last progress.
    pub looks: u32,
    /// When the store may remove it. Never set while it is live.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remove_at: Option<Timestamp>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl Progress {
    /// A delivery that has not been attempted yet.
    #[must_use]
    pub fn new(accepted_at: Timestamp, schedule: &Schedule) -> Progress {
        Progress {
            state: DeliveryState::Waiting,
            reason: None,
            epoch: 0,
            epoch_began_at: accepted_at,
            first_attempt_at: None,
            next_attempt: 0,
            due_at: accepted_at,
            expires_at: schedule.expires_at(accepted_at, None),
            lease: None,
            spared: 0,
            look_at: Some(look_at::while_ticket_is_out(accepted_at)),
            looks: 0,
            remove_at: None,
        }
    }

    #[must_use]
    pub fn number(&self) -> AttemptNumber {
        AttemptNumber { epoch: self.epoch, n: self.next_attempt }
    }

    /// State and reason as shown, listed and counted: an expired delivery is dead even if it has not been written so yet.
    #[must_use]
    pub fn state_at(&self, now: Timestamp) -> (DeliveryState, Option<Reason>) {
        if self.is_expired(now) {
            (DeliveryState::Dead, Some(Reason::Expired))
        } else {
            (self.state, self.reason)
        }
    }

    #[must_use]
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.state.is_live() && now > self.expires_at
    }

    /// Whether an attempt is being made right now.
    #[must_use]
    pub fn is_leased(&self, now_real: Timestamp) -> bool {
        self.lease.is_some_and(|lease| lease.until_real > now_real)
    }

    /// Ends a lease whose holder cannot be alive any more. It still counts as a take.
    pub fn end_lease_if(&mut self, is_dead: impl Fn(Timestamp) -> bool) {
        if let Some(lease) = self.lease.as_mut().filter(|lease| is_dead(lease.until_real)) {
            lease.until_real = Timestamp::ZERO;
        }
    }

    pub fn claim(&mut self, now: Now, function_timeout: Duration) {
        debug_assert!(self.state.is_live(), "a finished delivery is not attempted");
        debug_assert!(!self.is_leased(now.real), "an attempt is made by one function at a time");
        debug_assert!(self.due_at <= now.schedule, "nothing is attempted before it is due");
        let takes = self.lease.map_or(0, |lease| lease.takes) + 1;
        debug_assert!(takes <= MAX_TAKES, "an attempt that killed two functions is not made again");
        self.state = DeliveryState::Waiting;
        self.lease = Some(Lease { until_real: now.real + function_timeout, takes });
        self.remove_at = None;
        self.look_again_at(look_at::after_claim(self.look_at, now.schedule));
    }

    /// Gives back a lease under which no attempt was started.
    pub fn give_back_claim(&mut self) {
        let takes_before = self.lease.map_or(0, |lease| lease.takes.saturating_sub(1));
        self.lease = (takes_before > 0).then_some(Lease { until_real: Timestamp::ZERO, takes: takes_before });
    }

    /// Gives back the lease of an attempt that was made and does not count.
    pub fn spare(&mut self) {
        self.give_back_claim();
        self.spared += 1;
    }

    /// Counts the attempt that is next. `keep` is how long a finished delivery is kept.
    pub fn apply(&mut self, end: &AttemptEnd, schedule: &Schedule, now: Timestamp, keep: Duration) {
        if end.success {
            self.succeed(end.ended_at, keep);
        } else {
            self.fail(schedule, end.started_at, end.retry_after, now, keep);
        }
    }

    pub fn succeed(&mut self, ended_at: Timestamp, keep: Duration) {
        self.finish(DeliveryState::Delivered, None, ended_at, keep);
    }

    pub fn die(&mut self, reason: Reason, now: Timestamp, keep: Duration) {
        self.finish(DeliveryState::Dead, Some(reason), now, keep);
    }

    fn finish(&mut self, state: DeliveryState, reason: Option<Reason>, at: Timestamp, keep: Duration) {
        self.state = state;
        self.reason = reason;
        self.lease = None;
        self.spared = 0;
        self.look_at = None;
        self.looks = 0;
        self.remove_at = Some(at + keep);
    }

    /// Counts the failure of the next attempt, which started at `started_at`.
    pub fn fail(
        &mut self,
        schedule: &Schedule,
        started_at: Timestamp,
        retry_after: Option<Duration>,
        now: Timestamp,
        keep: Duration,
    ) {
        self.lease = None;
        self.spared = 0;
        let first_attempt_at = *self.first_attempt_at.get_or_insert(started_at);
        self.expires_at = schedule.expires_at(self.epoch_began_at, Some(first_attempt_at));
        let next = schedule.after_failure(self.next_attempt, started_at, retry_after);
        self.next_attempt += 1;
        match next {
            Next::RetryAt(due_at) => {
                self.state = DeliveryState::Waiting;
                self.due_at = due_at;
                self.look_again_at(look_at::while_waiting(due_at, now));
            }
            Next::GiveUp(reason) => self.die(reason, now, keep),
        }
    }

    /// Whether an attempt that ended counts on this progress, which other writers may have changed since the attempt was
    /// claimed as `number`.
    #[must_use]
    pub fn accepts_late(&self, number: AttemptNumber, success: bool) -> bool {
        if self.epoch != number.epoch {
            return false;
        }
        if self.state.is_live() {
            // A success is a success even when the next attempt has been scheduled already.
            return success || self.next_attempt == number.n;
        }
        // It was given up while the attempt was in flight, also by the same attempt if its lease had lapsed and it was made again. A
        // failure does not change that.
        success && self.state == DeliveryState::Dead
    }

    pub fn park(&mut self) {
        debug_assert!(self.state.is_live(), "a finished delivery is not parked");
        self.state = DeliveryState::Parked;
        // `takes` stays: an attempt that killed two functions must not get fresh chances by being parked in between.
        if let Some(lease) = &mut self.lease {
            lease.until_real = Timestamp::ZERO;
        }
        self.look_again_at(self.expires_at);
    }

    /// Leaves parked; the ticket is about to be sent.
    pub fn unpark(&mut self, now: Timestamp) {
        debug_assert!(self.state == DeliveryState::Parked, "only a parked delivery is released");
        self.state = DeliveryState::Waiting;
        self.look_again_at(look_at::while_ticket_is_out(now));
    }

    /// Starts a new epoch with a fresh schedule.
    pub fn replay(&mut self, schedule: &Schedule, now: Timestamp) {
        *self = Progress { epoch: self.epoch + 1, ..Progress::new(now, schedule) };
    }

    /// The sweep looked at it and moves the next look on.
    pub fn looked_at(&mut self, now: Timestamp) {
        let from = if self.state == DeliveryState::Parked { self.expires_at } else { self.due_at };
        self.look_at = Some(look_at::after_look(now.max(from)));
        self.looks += 1;
    }

    fn look_again_at(&mut self, look_at: Timestamp) {
        self.look_at = Some(look_at);
        self.looks = 0;
    }
}

#[cfg(test)]
#[path = "delivery_tests.rs"]
mod tests;
