use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{DeliveryRecord, Key};
use crate::ids::{DeliveryKey, JobId, StepId, Tenant, UrlId};
use crate::rules::delivery::{DeliveryState, Reason};
use crate::rules::release::{Release, STEP_INTERVAL, spread};
use crate::time::{Now, Timestamp};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReplayState {
    Running,
    Done,
}

/// How far a replay has come, as the API shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplayRecord {
    pub tenant: Tenant,
    pub id: JobId,
    pub of: ReplayOf,
    /// How many deliveries were found in the wanted states: counted at the start, exact at the end.
    pub matched: u64,
    /// There were more than could be counted at the start.
    pub more: bool,
    /// How many got a new epoch.
    pub done: u64,
    /// How many were left as they are: waiting or parked, or without an active subscription or a body.
    pub skipped: u64,
    pub state: ReplayState,
    pub created_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    pub remove_at: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplayOf {
    Delivery(DeliveryKey),
    Url(UrlReplay),
}

/// Which deliveries of a URL are replayed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UrlReplay {
    pub url_id: UrlId,
    /// Accepted then or later.
    pub since: Option<Timestamp>,
    /// Accepted before; if nothing is given, before the replay was asked for.
    pub until: Option<Timestamp>,
    /// Delivered, dead or both: nothing else can be replayed.
    pub states: Vec<DeliveryState>,
    /// Only what expired, and was found so not before this.
    pub expired_since: Option<Timestamp>,
}

/// What a bulk replay does when it comes to a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayDecision {
    /// Gives it a new epoch.
    Replay,
    /// Has done so before it was interrupted.
    AlreadyReplayed,
    /// Leaves it as it is and counts it as skipped: it is waiting or parked, or another replay was faster.
    Skip,
    /// It was not asked for.
    Ignore,
}

impl ReplayRecord {
    #[must_use]
    pub fn new(tenant: &Tenant, id: JobId, of: ReplayOf, now: Timestamp) -> ReplayRecord {
        ReplayRecord {
            tenant: tenant.clone(),
            id,
            of,
            matched: 0,
            more: false,
            done: 0,
            skipped: 0,
            state: ReplayState::Running,
            created_at: now,
            ended_at: None,
            remove_at: None,
        }
    }

    pub fn end(&mut self, matched: u64, now: Timestamp, keep: Duration) {
        self.matched = matched;
        self.more = false;
        self.state = ReplayState::Done;
        self.ended_at = Some(now);
        self.remove_at = Some(now + keep);
    }

    #[must_use]
    pub fn key(tenant: &Tenant, id: &JobId) -> Key {
        Key::new(format!("replay#{tenant}#{id}"), "replay")
    }
}

/// A running bulk replay: goes through the URL's deliveries, oldest first, at the pace of a release.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BulkReplay {
    pub wanted: UrlReplay,
    /// As it is shown. Written beside the job whenever the job is.
    pub shown: ReplayRecord,
    /// The place in the URL's list of the last delivery that was looked at.
    pub place: Option<String>,
    pub matched: u64,
    pub pace: Release,
    /// How many deliveries of the present step are still to be replayed.
    pub left: u32,
    /// How many of them were replayed.
    #[serde(default)]
    pub replayed_in_step: u32,
}

impl BulkReplay {
    /// When deliveries are too young to be replayed by this.
    #[must_use]
    pub fn accepted_before(&self) -> Timestamp {
        self.wanted.until.unwrap_or(self.shown.created_at + Duration::from_millis(1))
    }

    #[must_use]
    pub fn decide(&self, delivery: &DeliveryRecord, now: Timestamp, keep: Duration) -> ReplayDecision {
        let (state, reason) = delivery.progress.state_at(now);
        if delivery.replayed_by.as_ref() == Some(&self.shown.id) {
            return ReplayDecision::AlreadyReplayed;
        }
        // A new epoch since this was asked for is what was asked for, even if it has ended already.
        if state.is_live()
            || (delivery.progress.epoch > 0 && delivery.progress.epoch_began_at > self.shown.created_at)
        {
            return ReplayDecision::Skip;
        }
        let meant = match self.wanted.expired_since {
            None => true,
            Some(since) => {
                let died_at = delivery.progress.remove_at.map(|remove_at| remove_at - keep);
                reason == Some(Reason::Expired) && died_at.is_none_or(|at| at >= since)
            }
        };
        if meant && self.wanted.states.contains(&state) {
            ReplayDecision::Replay
        } else {
            ReplayDecision::Ignore
        }
    }

    /// Whether a ticket of this step has something to do: the step is the next one, or the present one, which is not over.
    #[must_use]
    pub fn is_wanted(&self, step: u64) -> bool {
        step == self.pace.step || (self.left > 0 && step + 1 == self.pace.step)
    }

    pub fn claim_step(&mut self, now: Now, http_timeout: Duration) {
        (_, self.left) = self.pace.claim_step(now, http_timeout);
        self.replayed_in_step = 0;
    }

    /// The step that was claimed last.
    fn present_step(&self) -> u64 {
        self.pace.step.saturating_sub(1)
    }

    /// When the next ticket of the step that was claimed last is due.
    #[must_use]
    pub fn next_ticket_at(&self) -> Timestamp {
        let began_at = self.pace.next_step_at - STEP_INTERVAL;
        began_at + spread(self.replayed_in_step, self.replayed_in_step.saturating_add(self.left))
    }

    /// Names the step that was claimed last.
    #[must_use]
    pub fn step_id(&self) -> StepId {
        self.pace.step_id(self.shown.id.as_str(), self.present_step())
    }

    pub fn count_done(&mut self) {
        self.matched += 1;
        self.shown.done += 1;
        self.left = self.left.saturating_sub(1);
        self.replayed_in_step += 1;
        if self.left == 0 {
            self.pace.end_step(self.present_step(), self.replayed_in_step);
        }
        self.show_matched();
    }

    /// `matched`: it was in one of the wanted states, but cannot be replayed.
    pub fn count_skipped(&mut self, matched: bool) {
        self.matched += u64::from(matched);
        self.shown.skipped += 1;
        self.show_matched();
    }

    /// What was counted at the start may have been too little, and is never shown to shrink on the way.
    fn show_matched(&mut self) {
        self.shown.matched = self.shown.matched.max(self.matched);
    }

    pub fn end(&mut self, now: Timestamp, keep: Duration) {
        self.shown.end(self.matched, now, keep);
    }
}

#[cfg(test)]
#[path = "replay_tests.rs"]
mod tests;
