//! Why an event did, or did not, arrive at a subscription.

use super::super::{Engine, Result};
use super::{DeliveryView, EventView};
use crate::ids::{DeliveryKey, SubscriptionId, Tenant};
use crate::records::{EventRecord, IdPhase, Subscription, UrlRecord};
use crate::rules::delivery::DeliveryState;
use crate::rules::matching::{Refusal, Selection};

/// The answer in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Delivered,
    Waiting,
    Parked,
    Dead,
    RefusedByFilter,
    TypeNotSubscribed,
    Inactive,
    SubscribedLater,
    /// It matches and has no record: its first attempt is queued or being made, or it succeeded at once and only trouble is logged.
    OnItsWay,
    /// The body is not stored, so its filters cannot be asked.
    NotKnown,
    UnknownEvent,
    UnknownSubscription,
}

/// The verdict and the facts that led to it.
#[derive(Clone, Debug)]
pub struct Explanation {
    pub verdict: Verdict,
    pub event: Option<EventRecord>,
    pub subscription: Option<Subscription>,
    pub delivery: Option<DeliveryView>,
    /// Of the delivery.
    pub url: Option<UrlRecord>,
    pub refusal: Option<Refusal>,
}

impl Explanation {
    /// Without any facts.
    #[must_use]
    pub fn of(verdict: Verdict) -> Explanation {
        Explanation { verdict, event: None, subscription: None, delivery: None, url: None, refusal: None }
    }
}

impl Engine {
    /// Subscriptions are taken as they are now: an event that was accepted before a change may have met other filters.
    pub async fn explain(
        &self,
        tenant: &Tenant,
        event_id: &str,
        subscription_id: &SubscriptionId,
    ) -> Result<Explanation> {
        let subscription = self.get_subscription(tenant, subscription_id).await?;
        let Some((event_key, _)) = self.find_event(tenant, event_id).await? else {
            return Ok(Explanation { subscription, ..Explanation::of(Verdict::UnknownEvent) });
        };
        let key = DeliveryKey { tenant: tenant.clone(), event_key, subscription_id: subscription_id.clone() };
        if let Some(delivery) = self.view_delivery(&key).await? {
            let url = self.repository.get_url(tenant, &delivery.url_id).await?.map(|url| url.record);
            let verdict = match delivery.state {
                DeliveryState::Delivered => Verdict::Delivered,
                DeliveryState::Waiting => Verdict::Waiting,
                DeliveryState::Parked => Verdict::Parked,
                DeliveryState::Dead => Verdict::Dead,
            };
            let delivery = Some(delivery);
            return Ok(Explanation { subscription, delivery, url, ..Explanation::of(verdict) });
        }
        let Some(event) = self.view_event(tenant, event_id).await? else {
            return Ok(Explanation { subscription, ..Explanation::of(Verdict::UnknownEvent) });
        };
        let (verdict, refusal) = self.without_delivery(&event, subscription.as_ref()).await;
        Ok(Explanation { event: Some(event.event), subscription, refusal, ..Explanation::of(verdict) })
    }

    /// The event is known, but not a delivery of it to this subscription.
    async fn without_delivery(
        &self,
        EventView { event, body, .. }: &EventView,
        subscription: Option<&Subscription>,
    ) -> (Verdict, Option<Refusal>) {
        let Some(subscription) = subscription else { return (Verdict::UnknownSubscription, None) };
        if subscription.created_at > event.accepted_at {
            return (Verdict::SubscribedLater, None);
        }
        let selector = subscription.selector();
        let has_body = body.is_some() || selector.filters.is_empty();
        let body = body.as_deref().unwrap_or_default();
        match self.select(&event.tenant, &selector, (&event.event_type, body)).await {
            Selection::Inactive => (Verdict::Inactive, None),
            Selection::OtherType => (Verdict::TypeNotSubscribed, None),
            _ if event.phase != IdPhase::Done => (Verdict::OnItsWay, None),
            _ if !has_body => (Verdict::NotKnown, None),
            Selection::Refused(refusal) => (Verdict::RefusedByFilter, Some(refusal)),
            Selection::Matches => (Verdict::OnItsWay, None),
        }
    }
}
