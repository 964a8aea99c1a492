//! URLs, one or a list of them.

use futures_util::future::{try_join_all, try_join3};

use super::super::urls::MAX_PARKED_COUNTED;
use super::super::{Engine, Page, Result};
use super::{MAX_SCANNED, TroubleSort, scan_cost};
use crate::ids::{Tenant, UrlId};
use crate::ports::{Count, IndexQuery, Order, Query};
use crate::records::{
    DeliveryRecord, HistoryEntry, ListIndex, StateEntry, StateIndex, Subscription, UrlListEntry, UrlRecord,
};
use crate::rules::delivery::DeliveryState;
use crate::rules::health::UrlState;
use crate::time::Timestamp;

#[derive(Clone, Debug)]
pub struct UrlView {
    pub url: UrlRecord,
    /// Only when one URL is asked for.
    pub details: Option<UrlDetails>,
}

#[derive(Clone, Debug)]
pub struct UrlDetails {
    pub parked: Count,
    /// Those with a record: they have been attempted before.
    pub waiting: Count,
    /// When the first of these expires.
    pub oldest_expiry: Option<Timestamp>,
    pub history: Vec<HistoryEntry>,
}

impl UrlView {
    pub(in super::super) fn of(url: UrlRecord) -> UrlView {
        UrlView { url, details: None }
    }
}

/// The newest changes of state that are shown.
const MAX_HISTORY: usize = 100;
/// How many live deliveries are read to count those that wait, and of how many subscriptions.
const MAX_LIVE_READ: usize = 1_000;
const MAX_SUBSCRIPTIONS_READ: usize = 50;

struct Live {
    items: Vec<DeliveryRecord>,
    /// There are others that were not read.
    more: bool,
}

impl Engine {
    pub async fn view_url(&self, tenant: &Tenant, id: &UrlId) -> Result<Option<UrlView>> {
        let Some(url) = self.repository.get_url(tenant, id).await? else { return Ok(None) };
        let (parked, history, live) = try_join3(
            self.repository.list_parked(tenant, id, None, MAX_PARKED_COUNTED),
            self.repository.list_history(tenant, id, MAX_HISTORY),
            self.live_deliveries(tenant, id),
        )
        .await?;
        let now = self.ports.clock.now();
        // What has expired is dead, even if it has not been written so yet.
        let is_waiting = |one: &&DeliveryRecord| one.progress.state_at(now).0 == DeliveryState::Waiting;
        let waiting = || live.items.iter().filter(|one| one.url_id == *id).filter(is_waiting);
        let parked_alive = || parked.items.iter().filter(|pointer| pointer.expires_at >= now);
        let expiries = waiting().map(|one| one.progress.expires_at);
        let oldest_expiry = expiries.chain(parked_alive().map(|pointer| pointer.expires_at)).min();
        let details = UrlDetails {
            parked: Count { count: parked_alive().count() as u64, more: parked.next.is_some() },
            waiting: Count { count: waiting().count() as u64, more: live.more },
            oldest_expiry,
            history,
        };
        Ok(Some(UrlView { url: url.record, details: Some(details) }))
    }

    /// The live deliveries of the URL's subscriptions, each oldest first, by their indexes.
    async fn live_deliveries(&self, tenant: &Tenant, id: &UrlId) -> Result<Live> {
        let partition = StateEntry::subscriptions_of(tenant, id);
        let query = IndexQuery::of(ListIndex::ByState, partition, MAX_SUBSCRIPTIONS_READ);
        let subscriptions = self.repository.list_index::<Subscription>(query).await?;
        let each = MAX_LIVE_READ / subscriptions.items.len().max(1);
        let lists = subscriptions.items.iter().map(|subscription| {
            let partition = DeliveryRecord::live_subscription_list(tenant, &subscription.id);
            let query = IndexQuery::of(ListIndex::BySubscription, partition, each);
            self.repository.list_index::<DeliveryRecord>(query)
        });
        let lists = try_join_all(lists).await?;
        let more = subscriptions.next.is_some() || lists.iter().any(|page| page.next.is_some());
        Ok(Live { items: lists.into_iter().flat_map(|page| page.items).collect(), more })
    }

    /// In the order of their ids, except those that an index has by their state.
    pub async fn list_urls(
        &self,
        tenant: &Tenant,
        filter: &UrlFilter,
        after: Option<String>,
        limit: usize,
    ) -> Result<Page<UrlView>> {
        match filter {
            UrlFilter::State(state) if *state != UrlState::Enabled => {
                let Some(states) = StateIndex::of_url(*state) else {
                    return Ok(Page { items: Vec::new(), next: None });
                };
                self.list_urls_in(states, tenant, *state, after, limit).await
            }
            UrlFilter::Failing(sort, order) => {
                self.list_failing_urls(tenant, (*sort, *order), after, limit).await
            }
            UrlFilter::Exact(id) => {
                let url = self.repository.get_url(tenant, id).await?;
                let items = url.into_iter().map(|url| UrlView::of(url.record)).collect();
                Ok(Page { items, next: None })
            }
            UrlFilter::All | UrlFilter::State(_) | UrlFilter::Prefix(_) => {
                self.list_all_urls(tenant, filter, after, limit).await
            }
        }
    }

    async fn list_all_urls(
        &self,
        tenant: &Tenant,
        filter: &UrlFilter,
        after: Option<String>,
        limit: usize,
    ) -> Result<Page<UrlView>> {
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
            page.items.extend(urls.filter(|url| filter.wants(url)).map(UrlView::of));
            if page.next.is_none() || page.items.len() >= limit || scanned >= MAX_SCANNED {
                return Ok(page);
            }
        }
    }
}

/// Which URLs are listed. Each is answered by another list or index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UrlFilter {
    All,
    State(UrlState),
    /// Those in trouble, in any state.
    Failing(TroubleSort, Order),
    Exact(UrlId),
    /// Those that begin with this: all are read.
    Prefix(String),
}

impl UrlFilter {
    fn wants(&self, url: &UrlRecord) -> bool {
        match self {
            UrlFilter::State(state) => url.health.state == *state,
            UrlFilter::Prefix(prefix) => url.url.starts_with(prefix),
            UrlFilter::Failing(..) => url.health.failing,
            UrlFilter::Exact(id) => url.id == *id,
            UrlFilter::All => true,
        }
    }
}
