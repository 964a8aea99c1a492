//! One event, with the first of its deliveries.

use futures_util::future::join;

use super::super::{Engine, Result};
use super::{DeliveryFilter, DeliveryView};
use crate::ids::{EventKey, Tenant, generated_at};
use crate::ports::{BodyKey, Query};
use crate::records::{EventRecord, IdPhase};

#[derive(Clone, Debug)]
pub struct EventView {
    pub event: EventRecord,
    /// Not kept for an event that is still on its way, or of which only trouble is logged.
    pub body: Option<bytes::Bytes>,
    pub deliveries: Vec<DeliveryView>,
    /// There are more deliveries than are shown here: they are to be listed.
    pub more: bool,
}

/// How many deliveries are shown with their event.
const MAX_SHOWN: usize = 100;

impl Engine {
    pub async fn view_event(&self, tenant: &Tenant, id: &str) -> Result<Option<EventView>> {
        let Some((event_key, recorded)) = self.find_event(tenant, id).await? else { return Ok(None) };
        let body_key = BodyKey::new(tenant, &event_key);
        let filter = DeliveryFilter::of_event(id);
        let (deliveries, bodies) = join(
            self.list_deliveries_of(tenant, &event_key, &filter, None, MAX_SHOWN),
            self.ports.store.get_bodies(std::slice::from_ref(&body_key)),
        )
        .await;
        let (page, body) = (deliveries?, bodies?.into_iter().next().flatten());
        let event = recorded.or_else(|| unrecorded(tenant, event_key, &page.items, body.as_deref()));
        let more = page.next.is_some();
        Ok(event.map(|event| EventView { event, body, deliveries: page.items, more }))
    }

    /// The key of its deliveries, and its own record if it has one. `None`: there cannot be such an event.
    pub(super) async fn find_event(
        &self,
        tenant: &Tenant,
        id: &str,
    ) -> Result<Option<(EventKey, Option<EventRecord>)>> {
        // As a list: an embedded store reads lists beside the threads that accept events, and this record may be days old.
        let query = Query::of(EventRecord::key(tenant, id).partition, 1);
        let found = self.repository.list::<EventRecord>(query).await?.items.pop();
        Ok(match found {
            Some(event) => Some((event.event_key.clone(), Some(event))),
            None => generated_at(id).map(|accepted_at| (EventKey::of(id, accepted_at), None)),
        })
    }
}

/// An event that has no record of its own, as its deliveries show it: where only trouble is logged.
fn unrecorded(
    tenant: &Tenant,
    event_key: EventKey,
    deliveries: &[DeliveryView],
    body: Option<&[u8]>,
) -> Option<EventRecord> {
    #[derive(serde::Deserialize)]
    struct Posted {
        subject: Option<String>,
    }
    let one = deliveries.first()?;
    Some(EventRecord {
        tenant: tenant.clone(),
        id: one.event_id.clone(),
        event_key,
        event_type: one.event_type.clone(),
        subject: body.and_then(|body| serde_json::from_slice::<Posted>(body).ok()?.subject),
        accepted_at: one.accepted_at,
        deliveries: deliveries.len() as u64,
        fingerprint: String::new(),
        phase: IdPhase::Done,
        remove_at: None,
    })
}
