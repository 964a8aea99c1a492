use async_trait::async_trait;

use crate::ids::Tenant;

/// Where operators hear of Holdfast's own events, those of all tenants. Best effort: nothing is decided by it, and nothing waits for it for
/// long.
#[async_trait]
pub trait Feed: Send + Sync {
    /// Publishes events of one tenant, and returns how many were not. An event may be published twice. Ends within a few seconds,
    /// whatever happens.
    async fn publish(&self, tenant: &Tenant, events: Vec<FeedEvent>) -> usize;
}

/// An event as operators get it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedEvent {
    pub event_type: String,
    /// `{"tenant", "id", "type", "timestamp", "data"}`.
    pub json: String,
}
