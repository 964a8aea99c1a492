//! Posts an event for each change of a URL's state, for the tenant's own subscriptions.

use serde::Serialize;
use serde_json::value::to_raw_value;

use super::super::{AcceptError, ConflictRetries, Engine, Loaded, NewEvent, Result, Unavailable};
use crate::ids::{Tenant, UrlId, change_event_id};
use crate::ports::Query;
use crate::records::{HistoryEntry, PendingAnnouncement, UrlRecord};
use crate::rules::event_type;
use crate::rules::health::UrlState;

/// How many changes are announced before the record is written.
const PAGE: usize = 100;

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
        // The same change always has the same id, so that announcing it twice posts it once.
        id: Some(change_event_id(&url.id, entry.generation, entry.at)),
        event_type: format!("{}url.{}", event_type::RESERVED, entry.to.as_str()),
        subject: None,
        data: to_raw_value(&data).expect("plain data can be written"),
    }
}

impl Engine {
    pub(crate) async fn announce(&self, tenant: &Tenant, url_id: &UrlId) -> Result<()> {
        let mut retries = ConflictRetries::new();
        loop {
            let Some(url) = self.repository.get_url(tenant, url_id).await? else { return Ok(()) };
            let Loaded { record: mut url, version } = url;
            let Some(pending) = url.announcement else { return Ok(()) };
            let next = self.post_changes(&url, pending).await?;
            // What changed after the record was read changed its version too, and is announced in the next round.
            url.announcement = next.map(|from_generation| PendingAnnouncement { from_generation, ..pending });
            let is_last = url.announcement.is_none();
            if self.repository.replace(url, version).await? && is_last {
                return Ok(());
            }
            retries.again(url_id)?;
        }
    }

    /// Returns the generation to go on with, if there may be more.
    async fn post_changes(&self, url: &UrlRecord, pending: PendingAnnouncement) -> Result<Option<u64>> {
        let query = Query::of(UrlRecord::partition(&url.tenant, &url.id), PAGE)
            .prefix(HistoryEntry::PREFIX)
            .after(pending.from_generation.checked_sub(1).map(HistoryEntry::sort));
        let page = self.repository.list::<HistoryEntry>(query).await?;
        let mut next = None;
        for entry in page.items {
            match self.accept(&url.tenant, vec![event_of(&entry, url)]).await {
                Ok(_) => {}
                // Only the tenant itself can have used an id that is derived from a hash, so this change stays unannounced.
                Err(AcceptError::IdTaken { id, .. }) => {
                    tracing::warn!(tenant = %url.tenant, url_id = %url.id, id, "the id of a change is taken");
                }
                Err(AcceptError::Busy { id, .. }) => return Err(Unavailable::Busy(id)),
                Err(AcceptError::Unavailable(error)) => return Err(error),
            }
            next = Some(entry.generation + 1);
        }
        Ok(next.filter(|_| page.next.is_some()))
    }
}
