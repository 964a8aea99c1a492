//! Deliveries and URLs by state, so that those in trouble are counted and listed without reading the others; subscriptions by URL, and replays and events by time.

use super::{DeliveryRecord, EventRecord, ListIndex, ReplayRecord, Subscription, UrlRecord};
use crate::ids::{Tenant, UrlId};
use crate::rules::delivery::DeliveryState;
use crate::rules::health::UrlState;

/// Everything of one tenant that is in one of these states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StateIndex {
    Waiting,
    Parked,
    Dead,
    /// Enabled, but in trouble.
    UrlFailing,
    UrlDisabled,
    UrlFrozen,
}

impl StateIndex {
    /// `None`: delivered ones are not counted by state.
    #[must_use]
    pub fn of_delivery(state: DeliveryState) -> Option<StateIndex> {
        match state {
            DeliveryState::Waiting => Some(StateIndex::Waiting),
            DeliveryState::Parked => Some(StateIndex::Parked),
            DeliveryState::Dead => Some(StateIndex::Dead),
            DeliveryState::Delivered => None,
        }
    }

    /// The lists that have all URLs in trouble, and some that are disabled or frozen without any.
    pub const TROUBLE: [StateIndex; 3] =
        [StateIndex::UrlFailing, StateIndex::UrlDisabled, StateIndex::UrlFrozen];

    /// `None`: most URLs are enabled, and keeping them in the index would cost a write each.
    #[must_use]
    pub fn of_url(state: UrlState) -> Option<StateIndex> {
        match state {
            UrlState::Disabled => Some(StateIndex::UrlDisabled),
            UrlState::Frozen => Some(StateIndex::UrlFrozen),
            UrlState::Enabled => None,
        }
    }

    /// Its partition in [`ListIndex::ByState`].
    #[must_use]
    pub fn partition(self, tenant: &Tenant) -> String {
        let name = match self {
            StateIndex::Waiting => "waiting",
            StateIndex::Parked => "parked",
            StateIndex::Dead => "dead",
            StateIndex::UrlFailing => "url-failing",
            StateIndex::UrlDisabled => "url-disabled",
            StateIndex::UrlFrozen => "url-frozen",
        };
        format!("state#{tenant}#{name}")
    }
}

/// A record's entry in [`ListIndex::ByState`]. It has an order of its own, because URLs and subscriptions stand there too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateEntry {
    pub partition: String,
    /// Of a delivery: acceptance time, then delivery id. Of a URL: since when it has been failing, or in its state, then its id. Both times
    /// stay while it is in this list, or change with a write that is made anyway. Of a subscription: its id. Of a replay: when it
    /// was started, then its id. Of an event: acceptance time, then event key.
    pub sort: String,
}

impl StateEntry {
    pub(super) fn of_delivery(record: &DeliveryRecord, sort: &str) -> Option<StateEntry> {
        let partition = StateIndex::of_delivery(record.progress.state)?.partition(&record.key.tenant);
        Some(StateEntry { partition, sort: sort.to_owned() })
    }

    /// Subscriptions stand in a list of their URL, whatever their state.
    pub(super) fn of_subscription(record: &Subscription) -> StateEntry {
        let partition = StateEntry::subscriptions_of(&record.tenant, &record.url_id);
        StateEntry { partition, sort: record.id.to_string() }
    }

    /// The partition of [`ListIndex::ByState`] that has the subscriptions of a URL.
    #[must_use]
    pub fn subscriptions_of(tenant: &Tenant, url_id: &UrlId) -> String {
        format!("subscribed#{tenant}#{url_id}")
    }

    pub(super) fn of_replay(record: &ReplayRecord) -> StateEntry {
        let sort = format!("{}#{}", record.created_at.sort_key(), record.id);
        StateEntry { partition: StateEntry::replays_of(&record.tenant), sort }
    }

    /// The partition of [`ListIndex::ByState`] that has the replays of a tenant.
    #[must_use]
    pub fn replays_of(tenant: &Tenant) -> String {
        format!("replays#{tenant}")
    }

    pub(super) fn of_event(record: &EventRecord) -> StateEntry {
        StateEntry { partition: StateEntry::events_of(&record.tenant), sort: record.listed() }
    }

    /// The partition of [`ListIndex::ByState`] that has the events of a tenant.
    #[must_use]
    pub fn events_of(tenant: &Tenant) -> String {
        format!("events#{tenant}")
    }

    pub(super) fn of_url(record: &UrlRecord) -> Option<StateEntry> {
        let health = &record.health;
        let failing = health.failing.then_some(StateIndex::UrlFailing);
        let partition = StateIndex::of_url(health.state).or(failing)?.partition(&record.tenant);
        let since = health.failing_since.unwrap_or(health.since).sort_key();
        Some(StateEntry { partition, sort: format!("{since}#{}", record.id) })
    }
}

impl super::IndexEntries {
    /// Partition and sort in one of the lists, if it is in that list.
    #[must_use]
    pub fn in_list(self, index: ListIndex) -> Option<(String, String)> {
        if index == ListIndex::ByState {
            return self.by_state.map(|entry| (entry.partition, entry.sort));
        }
        let listed = self.listed?;
        let partition = match index {
            ListIndex::ByTenant => listed.by_tenant,
            ListIndex::ByUrl => listed.by_url,
            ListIndex::BySubscription => listed.by_subscription,
            ListIndex::ByState => return None,
        };
        Some((partition, listed.sort))
    }
}
