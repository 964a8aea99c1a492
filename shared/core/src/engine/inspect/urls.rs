//! URLs, one or a list of them.

use futures_util::future::try_join;

use super::super::urls::MAX_PARKED_COUNTED;
use super::super::{Engine, Page, Result};
use super::{MAX_SCANNED, scan_cost};
use crate::ids::{Tenant, UrlId};
use crate::ports::Query;
use crate::records::{HistoryEntry, StateIndex, UrlListEntry, UrlRecord};
use crate::rules::health::UrlState;

#[derive(Clone, Debug)]
pub struct UrlView {
    pub url: UrlRecord,
    /// Only when one URL is asked for.
    pub parked: Option<(u64, bool)>,
    pub history: Option<Vec<HistoryEntry>>,
}

impl UrlView {
    pub(in super::super) fn of(url: UrlRecord) -> UrlView {
        UrlView { url, parked: None, history: None }
    }
}

/// The newest changes of state that are shown.
const MAX_HISTORY: usize = 100;

impl Engine {
    pub async fn view_url(&self, tenant: &Tenant, id: &UrlId) -> Result<Option<UrlView>> {
        let Some(url) = self.repository.get_url(tenant, id).await? else { return Ok(None) };
        let (parked, history) = try_join(
            self.repository.list_parked(tenant, id, None, MAX_PARKED_COUNTED),
            self.repository.list_history(tenant, id, MAX_HISTORY),
        )
        .await?;
        let now = self.ports.clock.now();
        // What has expired is dead, even if it has not been written so yet.
        let alive = parked.items.iter().filter(|pointer| pointer.expires_at >= now).count() as u64;
        let parked = Some((alive, parked.next.is_some()));
        Ok(Some(UrlView { url: url.record, parked, history: Some(history) }))
    }

    /// In the order of their ids.
    pub async fn list_urls(
        &self,
        tenant: &Tenant,
        state: Option<UrlState>,
        after: Option<String>,
        limit: usize,
    ) -> Result<Page<UrlView>> {
        if let Some((state, states)) = state.and_then(|state| Some((state, StateIndex::of_url(state)?))) {
            return self.list_urls_in(states, tenant, state, after, limit).await;
        }
        let mut page = Page { items: Vec::new(), next: after };
        let mut scanned = 0;
        loop {
            let query =
                Query::of(UrlListEntry::partition(tenant), limit - page.items.len()).after(page.next.take());
            let found = self.repository.list::<UrlListEntry>(query).await?;
            scanned += scan_cost(found.items.len());
            page.next = found.next;
            let keys: Vec<_> = found.items.iter().map(|entry| UrlRecord::key(tenant, &entry.id)).collect();
            let urls = self.repository.get_each::<UrlRecord>(&keys).await?;
            let urls = urls.into_iter().collect::<Result<Vec<_>, _>>()?;
            let urls = urls.into_iter().flatten().map(|loaded| loaded.record);
            let wanted = urls.filter(|url| state.is_none_or(|state| url.health.state == state));
            page.items.extend(wanted.map(UrlView::of));
            if page.next.is_none() || page.items.len() >= limit || scanned >= MAX_SCANNED {
                return Ok(page);
            }
        }
    }
}
