//! What is counted without being read: deliveries and URLs by the states that somebody should care about.

use super::{DeliveryRecord, DeliveryState, ListIndex, UrlRecord};
use crate::ids::Tenant;
use crate::rules::health::UrlState;

/// Everything of one tenant that is in one of these states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TopicName {
    Waiting,
    Parked,
    Dead,
    UrlDisabled,
    UrlFrozen,
}

impl TopicName {
    /// `None`: nobody counts what is delivered.
    #[must_use]
    pub fn of_delivery(state: DeliveryState) -> Option<TopicName> {
        match state {
            DeliveryState::Waiting => Some(TopicName::Waiting),
            DeliveryState::Parked => Some(TopicName::Parked),
            DeliveryState::Dead => Some(TopicName::Dead),
            DeliveryState::Delivered => None,
        }
    }

    /// `None`: most URLs are enabled, and none of them is written only to be counted.
    #[must_use]
    pub fn of_url(state: UrlState) -> Option<TopicName> {
        match state {
            UrlState::Disabled => Some(TopicName::UrlDisabled),
            UrlState::Frozen => Some(TopicName::UrlFrozen),
            UrlState::Enabled => None,
        }
    }

    /// Where it stands in [`ListIndex::ByTopic`].
    #[must_use]
    pub fn partition(self, tenant: &Tenant) -> String {
        let name = match self {
            TopicName::Waiting => "waiting",
            TopicName::Parked => "parked",
            TopicName::Dead => "dead",
            TopicName::UrlDisabled => "url-disabled",
            TopicName::UrlFrozen => "url-frozen",
        };
        format!("topic#{tenant}#{name}")
    }
}

/// A record's entry in [`ListIndex::ByTopic`]. It has an order of its own, because URLs stand there too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic {
    pub partition: String,
    /// Of a delivery: acceptance time, then delivery id. Of a URL: its id.
    pub sort: String,
}

impl Topic {
    pub(super) fn of_delivery(record: &DeliveryRecord, sort: &str) -> Option<Topic> {
        let partition = TopicName::of_delivery(record.state)?.partition(&record.key.tenant);
        Some(Topic { partition, sort: sort.to_owned() })
    }

    pub(super) fn of_url(record: &UrlRecord) -> Option<Topic> {
        let partition = TopicName::of_url(record.health.state)?.partition(&record.tenant);
        Some(Topic { partition, sort: record.id.to_string() })
    }
}

impl super::IndexEntries {
    /// Partition and sort in one of the lists, if it stands there.
    #[must_use]
    pub fn in_list(self, index: ListIndex) -> Option<(String, String)> {
        if index == ListIndex::ByTopic {
            return self.topic.map(|topic| (topic.partition, topic.sort));
        }
        let listed = self.listed?;
        let partition = match index {
            ListIndex::ByTenant => listed.by_tenant,
            ListIndex::ByUrl => listed.by_url,
            ListIndex::BySubscription => listed.by_subscription,
            ListIndex::ByTopic => return None,
        };
        Some((partition, listed.sort))
    }
}
