//! Tells operators what is announced to tenants.

use std::sync::atomic::Ordering;

use serde::Serialize;
use serde_json::value::RawValue;

use crate::engine::{Engine, NewEvent};
use crate::ids::Tenant;
use crate::ports::FeedEvent;

#[derive(Serialize)]
struct Published<'a> {
    tenant: &'a Tenant,
    id: Option<&'a str>,
    r#type: &'a str,
    timestamp: String,
    data: &'a RawValue,
}

impl Engine {
    /// Best effort: what cannot be published is counted, and the tenant has it all the same.
    pub(super) async fn publish(&self, tenant: &Tenant, events: &[NewEvent]) {
        let Some(feed) = self.feed.as_ref().filter(|_| !events.is_empty()) else { return };
        let timestamp = self.ports.clock.now().to_string();
        let published = events.iter().map(|event| {
            let published = Published {
                tenant,
                id: event.id.as_deref(),
                r#type: &event.event_type,
                timestamp: timestamp.clone(),
                data: &event.data,
            };
            let json = serde_json::to_string(&published).expect("plain data can be written");
            FeedEvent { event_type: event.event_type.clone(), json }
        });
        let unpublished = feed.publish(tenant, published.collect()).await;
        self.counters.events_not_published.fetch_add(unpublished as u64, Ordering::Relaxed);
    }
}
