//! Deliveries and URLs by state, so that those in trouble are counted and listed without reading the others.

use super::{DeliveryRecord, ListIndex, UrlRecord};
use crate::ids::Tenant;
use crate::rules::delivery::DeliveryState;
use crate::rules::health::UrlState;

/// Everything of one tenant that is in one of these states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StateIndex {
    Waiting,
    Parked,
    Dead,
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
            StateIndex::UrlDisabled => "url-disabled",
            StateIndex::UrlFrozen => "url-frozen",
        };
        format!("state#{tenant}#{name}")
    }
}

/// A record's entry in [`ListIndex::ByState`]. It has an order of its own, because URLs stand there too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateEntry {
    pub partition: String,
    /// Of a delivery: acceptance time, then delivery id. Of a URL: its id.
    pub sort: String,
}

impl StateEntry {
    pub(super) fn of_delivery(record: &DeliveryRecord, sort: &str) -> Option<StateEntry> {
        let partition = StateIndex::of_delivery(record.progress.state)?.partition(&record.key.tenant);
        Some(StateEntry { partition, sort: sort.to_owned() })
    }

    pub(super) fn of_url(record: &UrlRecord) -> Option<StateEntry> {
        let partition = StateIndex::of_url(record.health.state)?.partition(&record.tenant);
        Some(StateEntry { partition, sort: record.id.to_string() })
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
