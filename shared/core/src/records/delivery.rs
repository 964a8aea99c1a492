use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{IndexEntries, Key, Listed, StateEntry, Subscription, active_subscription};
use crate::ids::{DeliveryKey, EventKey, JobId, StepId, SubscriptionId, Tenant, UrlId};
use crate::rules::delivery::{AttemptNumber, AttemptOutcome, Progress};
use crate::rules::reassign::{Reassignment, reassign};
use crate::rules::schedule::Schedule;
use crate::rules::trace::TraceContext;
use crate::time::Timestamp;

/// A delivery that did not succeed at once: it failed, was parked, or is dead. Created only where none exists, changed only by conditional
/// writes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveryRecord {
    pub key: DeliveryKey,
    pub event_id: String,
    pub event_type: String,
    pub accepted_at: Timestamp,
    pub url_id: UrlId,
    pub url: String,
    /// The bulk replay that replayed this delivery last, so that it does not do so twice.
    pub replayed_by: Option<JobId>,
    /// The step of a release or bulk replay that is judged by the next attempt. `None`: no step waits for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub released_in: Option<StepId>,
    /// The trace that its event belongs to. `None`: the producer sent none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Box<TraceContext>>,
    pub progress: Progress,
}

/// What is known of a delivery before its first attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewDelivery {
    pub key: DeliveryKey,
    pub event_id: String,
    pub event_type: String,
    pub accepted_at: Timestamp,
    pub url_id: UrlId,
    pub url: String,
    /// The trace that its event belongs to. `None`: the producer sent none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Box<TraceContext>>,
}

impl DeliveryRecord {
    #[must_use]
    pub fn new(new: NewDelivery, schedule: &Schedule) -> DeliveryRecord {
        DeliveryRecord {
            progress: Progress::new(new.accepted_at, schedule),
            key: new.key,
            event_id: new.event_id,
            event_type: new.event_type,
            accepted_at: new.accepted_at,
            url_id: new.url_id,
            url: new.url,
            replayed_by: None,
            released_in: None,
            trace: new.trace,
        }
    }

    #[must_use]
    pub fn partition(tenant: &Tenant, event_key: &EventKey) -> String {
        format!("deliveries#{tenant}#{event_key}")
    }

    #[must_use]
    pub fn key(key: &DeliveryKey) -> Key {
        Key::new(Self::partition(&key.tenant, &key.event_key), format!("{}#delivery", key.subscription_id))
    }

    /// What the sort keys of all records of one delivery begin with: its own, its log and its attempts.
    #[must_use]
    pub fn prefix(id: &SubscriptionId) -> String {
        format!("{id}#")
    }

    /// Sends the next attempt to the URL that the subscription has now.
    pub fn retarget(&mut self, subscription: &Subscription) {
        self.url_id.clone_from(&subscription.url_id);
        self.url.clone_from(&subscription.url);
    }

    /// What its subscription, as it is now, means for the delivery.
    #[must_use]
    pub fn reassignment(&self, subscription: Option<&Subscription>) -> Reassignment {
        let wanted_at = active_subscription(subscription).map(|subscription| &subscription.url_id);
        reassign(self.progress.state, &self.url_id, wanted_at)
    }

    #[must_use]
    pub fn tenant_list(tenant: &Tenant) -> String {
        format!("list#{tenant}")
    }

    #[must_use]
    pub fn url_list(tenant: &Tenant, url_id: &UrlId) -> String {
        format!("list#{tenant}#{url_id}")
    }

    /// Deliveries of a subscription that are over. Those that are alive have a list of their own, so that what happens to a
    /// subscription reads them and not its whole history.
    #[must_use]
    pub fn subscription_list(tenant: &Tenant, id: &SubscriptionId) -> String {
        format!("list#{tenant}#{id}")
    }

    /// Deliveries of a subscription that are waiting or parked.
    #[must_use]
    pub fn live_subscription_list(tenant: &Tenant, id: &SubscriptionId) -> String {
        format!("live#{tenant}#{id}")
    }

    pub(super) fn index_entries(&self) -> IndexEntries {
        let mut listed = listed(&self.key, &self.url_id, self.accepted_at);
        if self.progress.state.is_live() {
            listed.by_subscription =
                Self::live_subscription_list(&self.key.tenant, &self.key.subscription_id);
        }
        IndexEntries {
            look_at: self.progress.look_at,
            by_state: StateEntry::of_delivery(self, &listed.sort),
            listed: Some(listed),
            remove_at: self.progress.remove_at,
        }
    }
}

fn listed(key: &DeliveryKey, url_id: &UrlId, accepted_at: Timestamp) -> Listed {
    Listed {
        by_tenant: DeliveryRecord::tenant_list(&key.tenant),
        by_url: DeliveryRecord::url_list(&key.tenant, url_id),
        by_subscription: DeliveryRecord::subscription_list(&key.tenant, &key.subscription_id),
        sort: format!("{}#{}", accepted_at.sort_key(), key.id()),
    }
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
    /// The beginning of the response body, as text.
    pub excerpt: Option<String>,
    pub remove_at: Timestamp,
}

impl Attempt {
    #[must_use]
    pub fn key(&self) -> Key {
        let Attempt { epoch, n, at, .. } = self;
        let number = AttemptNumber { epoch: *epoch, n: *n };
        // The time tells a repeated attempt (after a crash) from the one before: both were made, both are shown.
        let sort = Self::prefix(&self.key.subscription_id, number) + &at.sort_key();
        Key::new(DeliveryRecord::partition(&self.key.tenant, &self.key.event_key), sort)
    }

    /// What the sort keys of all takes of one attempt begin with.
    #[must_use]
    pub fn prefix(id: &SubscriptionId, AttemptNumber { epoch, n }: AttemptNumber) -> String {
        format!("{id}#attempt#{epoch:05}#{n:02}#")
    }

    #[must_use]
    pub fn ended_at(&self) -> Timestamp {
        self.at + Duration::from_millis(self.ms)
    }
}

/// A delivery that succeeded at once: kept under its own key, never over a record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoggedDelivery {
    #[serde(flatten)]
    pub delivery: NewDelivery,
    pub attempt: Attempt,
}

impl LoggedDelivery {
    #[must_use]
    pub fn new(record: &DeliveryRecord, attempt: Attempt) -> LoggedDelivery {
        let delivery = NewDelivery {
            key: record.key.clone(),
            event_id: record.event_id.clone(),
            event_type: record.event_type.clone(),
            accepted_at: record.accepted_at,
            url_id: record.url_id.clone(),
            url: record.url.clone(),
            trace: record.trace.clone(),
        };
        LoggedDelivery { delivery, attempt }
    }

    /// The record that the delivery would have if it had not succeeded at once.
    #[must_use]
    pub fn into_record(self, schedule: &Schedule, keep: Duration) -> DeliveryRecord {
        let ended_at = self.attempt.ended_at();
        let mut record = DeliveryRecord::new(self.delivery, schedule);
        record.progress.succeed(ended_at, keep);
        record
    }

    #[must_use]
    pub fn key(key: &DeliveryKey) -> Key {
        let sort = format!("{}#log", key.subscription_id);
        Key::new(DeliveryRecord::partition(&key.tenant, &key.event_key), sort)
    }

    pub(super) fn index_entries(&self) -> IndexEntries {
        IndexEntries {
            look_at: None,
            listed: Some(listed(&self.delivery.key, &self.delivery.url_id, self.delivery.accepted_at)),
            by_state: None,
            remove_at: Some(self.attempt.remove_at),
        }
    }
}

/// Exists under the URL's key while a delivery is parked there, ordered by due time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParkedPointer {
    pub key: DeliveryKey,
    pub url_id: UrlId,
    pub due_at: Timestamp,
    /// So that expired deliveries can be counted without reading every record.
    pub expires_at: Timestamp,
}

impl ParkedPointer {
    #[must_use]
    pub fn of(record: &DeliveryRecord) -> ParkedPointer {
        ParkedPointer {
            key: record.key.clone(),
            url_id: record.url_id.clone(),
            due_at: record.progress.due_at,
            expires_at: record.progress.expires_at,
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
