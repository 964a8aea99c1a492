//! Sends one test event now. It counts neither on the URL nor as a delivery.

use serde_json::json;

use super::super::deliver::{AllowedBy, Ready, is_fresh};
use super::super::{ConflictRetries, Engine, GateLimits, Loaded, NewEvent, Unavailable};
use crate::ids::{DeliveryKey, EventKey, SubscriptionId, Tenant, new_event_id};
use crate::records::{Attempt, DeliveryRecord, NewDelivery, Subscription};
use crate::rules::health::UrlState;

/// Producers may not post events of this prefix, so a receiver can tell.
const PING: &str = "holdfast.ping";

#[derive(Debug, thiserror::Error)]
pub enum PingError {
    #[error("there is no such subscription")]
    Unknown,
    #[error("the URL is {}", .0.as_str())]
    NotEnabled(UrlState),
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// Pings have no place among the attempts of the queues. A receiver that hangs keeps one until the attempt times out.
pub(in crate::engine) const PINGS: GateLimits =
    GateLimits { in_all: MAX_PINGS, per_holder: 4, one_each: true };
/// How many pings of all tenants are made at the same time, beside one of each that has none. A host reserves files for twice as many.
pub const MAX_PINGS: usize = 32;

impl Engine {
    /// `force`: also if the URL is disabled. A frozen one is never attempted.
    pub async fn ping(
        &self,
        tenant: &Tenant,
        id: &SubscriptionId,
        force: bool,
    ) -> Result<Attempt, PingError> {
        // Before the URL is read, because its health must be fresh.
        let _place = self.pings.enter(tenant, 1).await;
        let subscription = self.allowed_target(tenant, id, force).await?;
        let sent = self.send(self.ready_to_ping(subscription)).await;
        let attempted = sent.map_err(|not_made| Unavailable::from(not_made.shortage))?;
        Ok(self.attempt_record(&attempted))
    }

    /// The subscription, if its URL may be attempted at this moment.
    async fn allowed_target(
        &self,
        tenant: &Tenant,
        id: &SubscriptionId,
        force: bool,
    ) -> Result<Subscription, PingError> {
        let mut retries = ConflictRetries::new();
        loop {
            let subscription = self.get_subscription(tenant, id).await?.ok_or(PingError::Unknown)?;
            let read_began_real = self.ports.clock.now_real();
            let url = self.repository.get_url(tenant, &subscription.url_id).await?;
            let state = url.map_or(UrlState::Enabled, |url| url.record.health.state);
            let is_allowed = match state {
                UrlState::Enabled => true,
                UrlState::Disabled => force,
                UrlState::Frozen => false,
            };
            if !is_allowed {
                return Err(PingError::NotEnabled(state));
            }
            if is_fresh(read_began_real, self.ports.clock.now_real()) {
                return Ok(subscription);
            }
            retries.again("the URL")?;
        }
    }

    fn ready_to_ping(&self, subscription: Subscription) -> Ready {
        let now = self.ports.clock.now();
        let event_id = new_event_id(now, self.random());
        let data = json!({ "subscription_id": subscription.id });
        let event = NewEvent::new(PING, &data.to_string());
        let key = DeliveryKey {
            tenant: subscription.tenant.clone(),
            event_key: EventKey::of(&event_id, now),
            subscription_id: subscription.id.clone(),
        };
        let body = event.body(&event_id, now);
        let new = NewDelivery {
            key,
            event_id,
            event_type: event.event_type,
            accepted_at: now,
            url_id: subscription.url_id.clone(),
            url: subscription.url.clone(),
            trace: None,
        };
        let delivery = Loaded::not_stored(DeliveryRecord::new(new, &self.settings.schedule));
        let allowed_by = AllowedBy { generation: 0, is_failing: false, recent_ms: 0 };
        Ready { delivery, body, subscription, allowed_by, body_is_inline: true }
    }
}
