use std::fmt;

use serde::{Deserialize, Serialize};

use super::Key;
use crate::ids::{SubscriptionId, Tenant, UrlId};
use crate::rules::delivery::Reason;
use crate::rules::filter::{Connector, Filter};
use crate::rules::matching::{Selector, index_bytes};
use crate::rules::quota::Quotas;
use crate::rules::signing::Secret;
use crate::time::Timestamp;

/// What is shown of a subscription beside what can be large: its ids, state and times.
const PLAIN_BYTES: usize = 300;

/// Who wants which events, at which URL.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Subscription {
    pub tenant: Tenant,
    pub id: SubscriptionId,
    /// As the URL standard writes it, without its fragment.
    pub url: String,
    pub url_id: UrlId,
    pub event_types: Vec<String>,
    pub filters: Vec<Filter>,
    pub filter_connector: Connector,
    pub auth_token: Option<String>,
    pub description: Option<String>,
    pub active: bool,
    pub secrets: Vec<Secret>,
    pub created_at: Timestamp,
}

// By hand, so that no token reaches a log through `{:?}`.
impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription")
            .field("tenant", &self.tenant)
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl Subscription {
    #[must_use]
    pub fn partition(tenant: &Tenant) -> String {
        format!("subscriptions#{tenant}")
    }

    #[must_use]
    pub fn key(tenant: &Tenant, id: &SubscriptionId) -> Key {
        Key::new(Self::partition(tenant), id.as_str())
    }

    /// How much memory it takes in the index at the most.
    #[must_use]
    pub fn index_bytes(&self) -> u64 {
        if self.active { index_bytes(&self.selector()) } else { 0 }
    }

    /// About how many bytes it takes to show it.
    #[must_use]
    pub fn shown_bytes(&self) -> usize {
        let filters = serde_json::to_vec(&self.filters).map_or(0, |filters| filters.len());
        let types: usize = self.event_types.iter().map(|event_type| event_type.len() + 3).sum();
        self.url.len() + self.description.as_ref().map_or(0, String::len) + types + filters + PLAIN_BYTES
    }

    /// What the matching index keeps of it.
    #[must_use]
    pub fn selector(&self) -> Selector {
        Selector {
            id: self.id.clone(),
            url_id: self.url_id.clone(),
            event_types: self.event_types.clone(),
            filters: self.filters.clone(),
            filter_connector: self.filter_connector,
            active: self.active,
        }
    }
}

/// The subscription if it takes deliveries, or the reason why they are dead.
pub fn active_subscription(subscription: Option<&Subscription>) -> Result<&Subscription, Reason> {
    match subscription {
        None => Err(Reason::Unsubscribed),
        Some(subscription) if !subscription.active => Err(Reason::Inactive),
        Some(subscription) => Ok(subscription),
    }
}

/// Exists as long as a subscription with this fingerprint does: no two equal ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubscriptionGuard {
    pub tenant: Tenant,
    pub fingerprint: String,
    pub subscription_id: SubscriptionId,
}

impl SubscriptionGuard {
    #[must_use]
    pub fn key(&self) -> Key {
        Key::new(format!("distinct#{}", self.tenant), self.fingerprint.as_str())
    }
}

/// Grows with every change of the tenant's subscriptions, so that a cached list is known to be current by one small read.
/// Also what else a post needs to know of its tenant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TenantVersion {
    pub tenant: Tenant,
    pub version: u64,
    pub subscriptions: u64,
    /// How many URLs the tenant has ever subscribed. URLs stay when their subscriptions are deleted.
    pub urls: u64,
    /// How much memory its active subscriptions take in the index at the most.
    #[serde(default)]
    pub index_bytes: u64,
    /// The version of the latest snapshot of the subscriptions. Here, like the quotas, because every post reads this record anyway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<u64>,
    /// When that snapshot was stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Quotas::are_off")]
    pub quotas: Quotas,
}

impl TenantVersion {
    /// As it is before the first subscription.
    #[must_use]
    pub fn new(tenant: &Tenant) -> TenantVersion {
        TenantVersion {
            tenant: tenant.clone(),
            version: 0,
            subscriptions: 0,
            urls: 0,
            index_bytes: 0,
            snapshot: None,
            snapshot_at: None,
            quotas: Quotas::default(),
        }
    }

    #[must_use]
    pub fn key(tenant: &Tenant) -> Key {
        Key::new(format!("tenant#{tenant}"), "version")
    }
}

/// Which subscription a version of the tenant changed. A cache of an earlier version reads these and just those subscriptions, and not
/// all of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubscriptionChange {
    pub tenant: Tenant,
    pub version: u64,
    pub subscription_id: SubscriptionId,
    /// A cache that is older than this reads all subscriptions.
    pub remove_at: Timestamp,
}

impl SubscriptionChange {
    #[must_use]
    pub fn partition(tenant: &Tenant) -> String {
        format!("changes#{tenant}")
    }

    /// Of fixed width, so that changes stand in the order of their versions.
    #[must_use]
    pub fn sort(version: u64) -> String {
        format!("{version:020}")
    }

    #[must_use]
    pub fn key(&self) -> Key {
        Key::new(Self::partition(&self.tenant), Self::sort(self.version))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Record;
    use super::*;

    #[test]
    fn a_tenant_version_without_quotas_has_none() {
        let stored = br#"{"v":1,"kind":"tenant_version","tenant":"t","version":3,"subscriptions":2,"urls":1,"index_bytes":9}"#;
        let read = Record::decode(|| TenantVersion::key(&"t".into()), stored);
        let without = TenantVersion {
            version: 3,
            subscriptions: 2,
            urls: 1,
            index_bytes: 9,
            ..TenantVersion::new(&"t".into())
        };
        assert_eq!(read, Ok(Record::TenantVersion(without.clone())));
        assert_eq!(
            Record::TenantVersion(without.clone()).encode(),
            stored,
            "quotas that are off are not stored"
        );
        let quotas = Quotas { waiting_bytes: Some(5), ..Quotas::default() };
        let with = Record::TenantVersion(TenantVersion { quotas, ..without });
        assert_eq!(Record::decode(|| with.key(), &with.encode()), Ok(with.clone()));
    }
}
