//! Tells the tenant's own subscriptions that a URL's state changed, by events of Holdfast's own.

use serde::Serialize;
use serde_json::value::to_raw_value;

use super::{AcceptError, Engine, MOST_CONFLICTS, NewEvent, Unavailable};
use crate::ids::{Tenant, UrlId, change_event_id};
use crate::ports::{Order, Query};
use crate::records::{HistoryEntry, Record, Unannounced, UrlRecord};
use crate::rules::event_type;
use crate::rules::health::UrlState;

/// How many changes are told in one go.
const MOST_AT_ONCE: usize = 100;

/// What the event says about the change.
#[derive(Serialize)]
struct Data<'a> {
    url_id: &'a UrlId,
    url: &'a str,
    from: UrlState,
    to: UrlState,
    at: String,
    by: &'a str,
    why: &'a str,
}

fn event_of(entry: &HistoryEntry, url: &UrlRecord) -> NewEvent {
    let data = Data {
        url_id: &url.id,
        url: &url.url,
        from: entry.from,
        to: entry.to,
        at: entry.at.to_string(),
        by: &entry.by,
        why: &entry.why,
    };
    NewEvent {
        // The same change always has the same id, so that a change that is told twice is accepted once.
        id: Some(change_event_id(&url.id, entry.generation, entry.at)),
        event_type: format!("{}url.{}", event_type::RESERVED, entry.to.as_str()),
        subject: None,
        data: to_raw_value(&data).expect("plain data can be written"),
    }
}

impl Engine {
    pub(super) async fn announce(&self, tenant: &Tenant, url_id: &UrlId) -> Result<(), Unavailable> {
        for _ in 0..MOST_CONFLICTS {
            let Some((mut url, version)) = self.get_url(tenant, url_id).await? else { return Ok(()) };
            let Some(unannounced) = url.unannounced else { return Ok(()) };
            let told = self.tell_changes(&url, unannounced).await?;
            // Whatever changed after the record was read changed its version too, and is told in the next round.
            url.unannounced = told.map(|next| Unannounced { from_generation: next, ..unannounced });
            if self.put_url(&url, version, None).await? && url.unannounced.is_none() {
                return Ok(());
            }
        }
        Err(Unavailable(format!("{url_id} changes too often to be announced")))
    }

    /// Answers the generation to go on with, if there may be more.
    async fn tell_changes(
        &self,
        url: &UrlRecord,
        unannounced: Unannounced,
    ) -> Result<Option<u64>, Unavailable> {
        let query = Query {
            partition: UrlRecord::partition(&url.tenant, &url.id),
            prefix: HistoryEntry::PREFIX.to_owned(),
            after: unannounced.from_generation.checked_sub(1).map(HistoryEntry::sort),
            order: Order::Ascending,
            limit: MOST_AT_ONCE,
        };
        let page = self.ports.store.query(query).await?;
        let mut told = None;
        for item in page.items {
            let Record::History(entry) = item.record else { continue };
            match self.accept(&url.tenant, vec![event_of(&entry, url)]).await {
                Ok(_) => {}
                // Only the tenant itself can have taken an id that is made from a hash: it is not told twice of that.
                Err(AcceptError::IdTaken { id, .. }) => {
                    tracing::warn!(tenant = %url.tenant, url_id = %url.id, id, "the id of a change is taken");
                }
                Err(AcceptError::Busy { id, .. }) => {
                    return Err(Unavailable(format!("somebody else announces {id} right now")));
                }
                Err(AcceptError::Unavailable(error)) => return Err(error),
            }
            told = Some(entry.generation + 1);
        }
        Ok(told.filter(|_| page.next.is_some()))
    }
}
