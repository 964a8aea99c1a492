use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{IndexEntries, Key, Listed, Subscription, Topic, tenant_list};
use crate::ids::{DeliveryKey, EventKey, JobId, SubscriptionId, Tenant, UrlId};
use crate::rules::schedule::{Next, Schedule};
use crate::time::Timestamp;

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

/// Why a delivery is dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reason {
    /// All retries failed.
    Exhausted,
    /// Its 52 hours were over.
    Expired,
    /// Its subscription was deleted.
    Unsubscribed,
    /// Its subscription was deactivated.
    Inactive,
}

/// The right to make attempt (epoch, n). In real time: it guards against a function that died, and functions die in real time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    pub until_real: Timestamp,
    /// How often attempt n was taken. The third take sends nothing: whatever killed two functions is not given a third.
    pub takes: u32,
}

/// A delivery that needed more than one try. Created only where none exists, changed only by conditional writes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveryRecord {
    pub v: u32,
    pub key: DeliveryKey,
    pub event_id: String,
    pub event_type: String,
    pub accepted_at: Timestamp,
    pub url_id: UrlId,
    pub url: String,
    pub state: DeliveryState,
    pub reason: Option<Reason>,
    /// Counts replays: each gives a fresh schedule.
    pub epoch: u32,
    pub epoch_began_at: Timestamp,
    /// The bulk replay that came by last: it does not replay this delivery again.
    #[serde(default)]
    pub replayed_by: Option<JobId>,
    pub first_attempt_at: Option<Timestamp>,
    /// The attempt that is next in this epoch: 0 is the first, 1..=11 are retries.
    pub next_attempt: u32,
    pub due_at: Timestamp,
    pub expires_at: Timestamp,
    pub lease: Option<Lease>,
    pub look_at: Option<Timestamp>,
    /// How often the sweep looked since the last progress: its looks grow rarer.
    pub looks: u32,
    pub remove_at: Option<Timestamp>,
}

/// What a new record is made from: what a first-attempt message carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewDelivery {
    pub key: DeliveryKey,
    pub event_id: String,
    pub event_type: String,
    pub accepted_at: Timestamp,
    pub url_id: UrlId,
    pub url: String,
}

/// When a ticket is out it should have arrived by then.
const TICKET_GRACE: Duration = Duration::from_secs(5 * 60);
/// A delivery that rests in the store is looked at this long before it is due, so that its ticket is out in time.
const LOOK_AHEAD: Duration = Duration::from_secs(2 * 60);
/// The longest that a queue holds a ticket.
const LONGEST_TICKET: Duration = Duration::from_secs(crate::ports::Delay::MAX_SECS as u64);

impl DeliveryRecord {
    #[must_use]
    pub fn new(new: NewDelivery, schedule: &Schedule) -> DeliveryRecord {
        DeliveryRecord {
            v: super::VERSION,
            event_id: new.event_id,
            event_type: new.event_type,
            accepted_at: new.accepted_at,
            url_id: new.url_id,
            url: new.url,
            state: DeliveryState::Waiting,
            reason: None,
            epoch: 0,
            epoch_began_at: new.accepted_at,
            replayed_by: None,
            first_attempt_at: None,
            next_attempt: 0,
            due_at: new.accepted_at,
            expires_at: schedule.expires_at(new.accepted_at, None),
            lease: None,
            look_at: Some(new.accepted_at + TICKET_GRACE),
            looks: 0,
            remove_at: None,
            key: new.key,
        }
    }

    #[must_use]
    pub fn partition(tenant: &Tenant, event_key: &EventKey) -> String {
        format!("deliveries#{tenant}#{event_key}")
    }

    #[must_use]
    pub fn key(key: &DeliveryKey) -> Key {
        Key::new(Self::partition(&key.tenant, &key.event_key), key.subscription_id.as_str())
    }

    /// As shown, listed and counted: an expired delivery is dead, whether or not anything has touched it yet.
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

    /// Whether somebody is making an attempt right now.
    #[must_use]
    pub fn is_leased(&self, now_real: Timestamp) -> bool {
        self.lease.is_some_and(|lease| lease.until_real > now_real)
    }

    /// Gives back a lease under which nothing was attempted.
    pub fn unclaim(&mut self) {
        let taken_before = self.lease.map_or(0, |lease| lease.takes.saturating_sub(1));
        self.lease = (taken_before > 0).then_some(Lease { until_real: Timestamp::ZERO, takes: taken_before });
    }

    /// Takes the lease on the next attempt. The caller has checked that it may.
    pub fn claim(&mut self, now: Timestamp, now_real: Timestamp, function_timeout: Duration) {
        let takes = self.lease.map_or(0, |lease| lease.takes) + 1;
        self.state = DeliveryState::Waiting;
        self.lease = Some(Lease { until_real: now_real + function_timeout, takes });
        self.remove_at = None;
        self.looked_after(now + TICKET_GRACE);
    }

    pub fn succeed(&mut self, ended: Timestamp, keep: Duration) {
        self.finish(DeliveryState::Delivered, None, ended, keep);
    }

    pub fn die(&mut self, reason: Reason, now: Timestamp, keep: Duration) {
        self.finish(DeliveryState::Dead, Some(reason), now, keep);
    }

    fn finish(&mut self, state: DeliveryState, reason: Option<Reason>, at: Timestamp, keep: Duration) {
        self.state = state;
        self.reason = reason;
        self.lease = None;
        self.look_at = None;
        self.looks = 0;
        self.remove_at = Some(at + keep);
    }

    /// Counts the failure of the next attempt, which started at `started`.
    pub fn fail(
        &mut self,
        schedule: &Schedule,
        started: Timestamp,
        asked: Option<Duration>,
        now: Timestamp,
        keep: Duration,
    ) {
        self.lease = None;
        let first_attempt_at = *self.first_attempt_at.get_or_insert(started);
        self.expires_at = schedule.expires_at(self.epoch_began_at, Some(first_attempt_at));
        match schedule.after_failure(self.next_attempt, started, asked) {
            Next::RetryAt(due) => {
                self.state = DeliveryState::Waiting;
                self.next_attempt += 1;
                self.due_at = due;
                self.rest(now);
            }
            Next::GiveUp(reason) => {
                self.next_attempt += 1;
                self.die(reason, now, keep);
            }
        }
    }

    /// Sets `look_at` for a delivery that waits: by ticket if the queue can hold one that long, else in the store.
    pub fn rest(&mut self, now: Timestamp) {
        let look_at = if self.fits_in_queue(now) {
            self.due_at.max(now) + TICKET_GRACE
        } else {
            self.due_at - LOOK_AHEAD
        };
        self.looked_after(look_at);
    }

    /// Whether a ticket sent now could wait in the queue until the delivery is due.
    #[must_use]
    pub fn fits_in_queue(&self, now: Timestamp) -> bool {
        self.due_at.since(now) <= LONGEST_TICKET
    }

    /// Its next attempt goes where the subscription is now.
    pub fn head_for(&mut self, subscription: &Subscription) {
        self.url_id.clone_from(&subscription.url_id);
        self.url.clone_from(&subscription.url);
    }

    pub fn park(&mut self) {
        self.state = DeliveryState::Parked;
        // `takes` stays: an attempt that killed two functions must not get fresh chances by being parked in between.
        if let Some(lease) = &mut self.lease {
            lease.until_real = Timestamp::ZERO;
        }
        self.looked_after(self.expires_at);
    }

    /// Leaves parked; its ticket is about to be sent.
    pub fn unpark(&mut self, now: Timestamp) {
        self.state = DeliveryState::Waiting;
        self.looked_after(now + TICKET_GRACE);
    }

    /// A new epoch with a fresh schedule.
    pub fn replay(&mut self, schedule: &Schedule, now: Timestamp) {
        self.epoch += 1;
        self.epoch_began_at = now;
        self.first_attempt_at = None;
        self.next_attempt = 0;
        self.due_at = now;
        self.expires_at = schedule.expires_at(now, None);
        self.state = DeliveryState::Waiting;
        self.reason = None;
        self.lease = None;
        self.remove_at = None;
        self.looked_after(now + TICKET_GRACE);
    }

    fn looked_after(&mut self, look_at: Timestamp) {
        self.look_at = Some(look_at);
        self.looks = 0;
    }

    pub(super) fn index_entries(&self) -> IndexEntries {
        let listed = listed(&self.key, &self.url_id, self.accepted_at);
        IndexEntries {
            look_at: self.look_at,
            topic: Topic::of_delivery(self, &listed.sort),
            listed: Some(listed),
            remove_at: self.remove_at,
        }
    }
}

fn listed(key: &DeliveryKey, url_id: &UrlId, accepted_at: Timestamp) -> Listed {
    Listed {
        by_tenant: tenant_list(&key.tenant),
        by_url: DeliveryRecord::url_list(&key.tenant, url_id),
        by_subscription: DeliveryRecord::subscription_list(&key.tenant, &key.subscription_id),
        sort: format!("{}#{}", accepted_at.sort_key(), key.id()),
    }
}

impl DeliveryRecord {
    #[must_use]
    pub fn tenant_list(tenant: &Tenant) -> String {
        tenant_list(tenant)
    }

    #[must_use]
    pub fn url_list(tenant: &Tenant, url_id: &UrlId) -> String {
        format!("list#{tenant}#{url_id}")
    }

    #[must_use]
    pub fn subscription_list(tenant: &Tenant, id: &SubscriptionId) -> String {
        format!("list#{tenant}#{id}")
    }
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AttemptOutcome {
    Success,
    Failure,
    /// Two functions died while they made this attempt; it was not made a third time.
    Interrupted,
}

/// The log of one attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    pub key: DeliveryKey,
    pub epoch: u32,
    pub n: u32,
    pub at: Timestamp,
    pub outcome: AttemptOutcome,
    pub status: Option<u16>,
    /// Failure kind and what happened, in words.
    pub error: Option<String>,
    pub ms: u64,
    /// The beginning of the answer, as text.
    pub excerpt: Option<String>,
    pub remove_at: Timestamp,
}

impl Attempt {
    #[must_use]
    pub fn key(&self) -> Key {
        let Attempt { epoch, n, at, .. } = self;
        // The time tells a repeated attempt (after a crash) from the one before: both were made, both are shown.
        let sort = format!("{}#attempt#{epoch:05}#{n:02}#{}", self.key.subscription_id, at.sort_key());
        Key::new(DeliveryRecord::partition(&self.key.tenant, &self.key.event_key), sort)
    }
}

/// A delivery that succeeded at once: kept under its own key, never over a record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoggedDelivery {
    pub v: u32,
    pub key: DeliveryKey,
    pub event_id: String,
    pub event_type: String,
    pub accepted_at: Timestamp,
    pub url_id: UrlId,
    pub url: String,
    pub attempt: Attempt,
}

impl LoggedDelivery {
    #[must_use]
    pub fn key(key: &DeliveryKey) -> Key {
        let sort = format!("{}#log", key.subscription_id);
        Key::new(DeliveryRecord::partition(&key.tenant, &key.event_key), sort)
    }

    pub(super) fn index_entries(&self) -> IndexEntries {
        IndexEntries {
            look_at: None,
            listed: Some(listed(&self.key, &self.url_id, self.accepted_at)),
            topic: None,
            remove_at: Some(self.attempt.remove_at),
        }
    }
}

/// Stands under the URL's key while a delivery is parked there, ordered by due time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParkedPointer {
    pub key: DeliveryKey,
    pub url_id: UrlId,
    pub due_at: Timestamp,
    /// So that what is past its time can be counted without reading every record.
    pub expires_at: Timestamp,
}

impl ParkedPointer {
    #[must_use]
    pub fn of(record: &DeliveryRecord) -> ParkedPointer {
        ParkedPointer {
            key: record.key.clone(),
            url_id: record.url_id.clone(),
            due_at: record.due_at,
            expires_at: record.expires_at,
        }
    }

    #[must_use]
    pub fn partition(tenant: &Tenant, url_id: &UrlId) -> String {
        format!("parked#{tenant}#{url_id}")
    }

    #[must_use]
    pub fn key(&self) -> Key {
        let sort = format!("{}#{}#{}", self.due_at.sort_key(), self.key.event_key, self.key.subscription_id);
        Key::new(Self::partition(&self.key.tenant, &self.url_id), sort)
    }
}
