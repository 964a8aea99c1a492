//! Says which subscriptions a sample event would match. Nothing is sent or stored.

use super::super::{Engine, NewEvent, Result};
use super::create::{LISTED_AT_A_TIME, MAX_LISTED_BYTES};
use crate::ids::{SubscriptionId, Tenant, UrlId};
use crate::ports::Query;
use crate::records::Subscription;
use crate::rules::matching::Selection;

/// How many subscriptions are asked.
pub const MAX_TRIED: usize = 1_000;
/// What the sample has instead of an id.
const SAMPLE_ID: &str = "evt_sample";

/// A subscription that was asked. No more of it is kept than is shown: a whole one may take more than 100 kB.
#[derive(Debug)]
pub struct TriedSubscription {
    pub id: SubscriptionId,
    pub url_id: UrlId,
    pub url: String,
    pub selection: Selection,
}

impl TriedSubscription {
    /// About as many as it takes in memory, and in an answer.
    fn bytes(&self) -> usize {
        let refusal = match &self.selection {
            Selection::Refused(refusal) => refusal.shown_bytes(),
            _ => 0,
        };
        self.url.len() + refusal
    }
}

/// What the sample event would find.
#[derive(Debug)]
pub struct TriedEvent {
    /// In the order of their ids.
    pub items: Vec<TriedSubscription>,
    /// The tenant has more subscriptions than were asked, by their number or size.
    pub more: bool,
}

impl Engine {
    pub async fn try_event(&self, tenant: &Tenant, event: &NewEvent) -> Result<TriedEvent> {
        let body = event.body(SAMPLE_ID, self.ports.clock.now());
        let mut tried = TriedEvent { items: Vec::new(), more: false };
        let (mut after, mut bytes) = (None, 0);
        loop {
            let query = Query::of(Subscription::partition(tenant), LISTED_AT_A_TIME).after(after);
            let page = self.repository.list::<Subscription>(query).await?;
            for subscription in page.items {
                let selector = subscription.selector();
                let selection = self.select(tenant, &selector, (&event.event_type, &body)).await;
                let Subscription { id, url_id, url, .. } = subscription;
                let one = TriedSubscription { id, url_id, url, selection };
                bytes += one.bytes();
                tried.items.push(one);
            }
            after = page.next;
            tried.more = after.is_some();
            if !tried.more || tried.items.len() >= MAX_TRIED || bytes >= MAX_LISTED_BYTES {
                return Ok(tried);
            }
        }
    }
}
