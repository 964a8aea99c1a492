//! URLs, one or a list of them.

use futures_util::future::join;

use super::super::steer::MOST_COUNTED;
use super::super::{Engine, Unavailable};
use super::{ListPage, MOST_LOOKED_THROUGH, looked_at};
use crate::ids::{Tenant, UrlId};
use crate::ports::{Order, Query};
use crate::records::{HistoryEntry, Record, TopicName, UrlListEntry, UrlRecord};
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
const MOST_HISTORY: usize = 100;

impl Engine {
    pub async fn view_url(&self, tenant: &Tenant, id: &UrlId) -> Result<Option<UrlView>, Unavailable> {
        let Some((url, _)) = self.get_url(tenant, id).await? else { return Ok(None) };
        let query = Query {
            partition: UrlRecord::partition(tenant, id),
            prefix: HistoryEntry::PREFIX.to_owned(),
            after: None,
            order: Order::Descending,
            limit: MOST_HISTORY,
        };
        let (parked, history) =
            join(self.parked(tenant, id, MOST_COUNTED), self.ports.store.query(query)).await;
        let parked = parked?;
        let now = self.ports.clock.now();
        // What is past its time is dead, whether or not anything has touched it yet.
        let alive = parked.pointers.iter().filter(|p| p.expires_at >= now).count() as u64;
        let history = history?.items.into_iter().filter_map(|v| match v.record {
            Record::History(entry) => Some(entry),
            _ => None,
        });
        Ok(Some(UrlView { url, parked: Some((alive, parked.more)), history: Some(history.collect()) }))
    }

    /// In the order of their ids.
    pub async fn list_urls(
        &self,
        tenant: &Tenant,
        state: Option<UrlState>,
        after: Option<String>,
        limit: usize,
    ) -> Result<ListPage<UrlView>, Unavailable> {
        if let Some((state, topic)) = state.and_then(|state| Some((state, TopicName::of_url(state)?))) {
            return self.list_urls_in(topic, tenant, state, after, limit).await;
        }
        let mut page = ListPage { items: Vec::new(), next: after };
        let mut looked_through = 0;
        loop {
            let query = Query {
                partition: UrlListEntry::partition(tenant),
                prefix: String::new(),
                after: page.next.take(),
                order: Order::Ascending,
                limit: limit - page.items.len(),
            };
            let found = self.ports.store.query(query).await?;
            looked_through += looked_at(found.items.len());
            page.next = found.next;
            let keys: Vec<_> = found
                .items
                .iter()
                .filter_map(|v| match &v.record {
                    Record::UrlListEntry(entry) => Some(UrlRecord::key(tenant, &entry.id)),
                    _ => None,
                })
                .collect();
            let urls = self.get_all(&keys).await?.into_iter().flatten().filter_map(|v| match v.record {
                Record::Url(url) => Some(url),
                _ => None,
            });
            let wanted = urls.filter(|url| state.is_none_or(|state| url.health.state == state));
            page.items.extend(wanted.map(UrlView::of));
            if page.next.is_none() || page.items.len() >= limit || looked_through >= MOST_LOOKED_THROUGH {
                return Ok(page);
            }
        }
    }
}
