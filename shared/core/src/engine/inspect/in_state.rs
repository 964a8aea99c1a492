//! Lists of what is in one state, from the index of that state: nothing else is looked through.

use super::super::{Engine, Page, Result};
use super::{DeliveryFilter, DeliveryView, MAX_SCANNED, UrlView, scan_cost};
use crate::ids::{DeliveryKey, Tenant};
use crate::ports::IndexQuery;
use crate::records::{DeliveryRecord, ListIndex, Record, StateIndex, UrlRecord};
use crate::rules::health::UrlState;
use crate::time::Timestamp;

/// A delivery and its place, which is the same for every state: a delivery has one state at a time.
type Found = (String, DeliveryKey);

impl Engine {
    /// Newest first. A cursor is the place of the last delivery that was looked at.
    pub(super) async fn list_deliveries_in(
        &self,
        states: StateIndex,
        tenant: &Tenant,
        filter: &DeliveryFilter,
        after: Option<String>,
        limit: usize,
    ) -> Result<Page<DeliveryView>> {
        let mut page = Page { items: Vec::new(), next: after };
        let mut scanned = 0;
        loop {
            let until = filter.until.map(Timestamp::sort_key);
            let to = page.next.take().into_iter().chain(until).min();
            let wanted = limit - page.items.len();
            let (found, more) = self.deliveries_in(states, tenant, filter.since, to, wanted).await?;
            scanned += scan_cost(found.len());
            page.next = found.last().filter(|_| more).map(|(place, _)| place.clone());
            let keys: Vec<DeliveryKey> = found.into_iter().map(|(_, key)| key).collect();
            // It is shown as it is now, which may be later than what the index says.
            page.items.extend(self.view_each(&keys).await?.into_iter().filter(|view| filter.wants(view)));
            if page.next.is_none() || page.items.len() >= limit || scanned >= MAX_SCANNED {
                return Ok(page);
            }
        }
    }

    /// The next ones before `to`, newest first, and whether there are more. Live ones that may have expired stand among the dead.
    async fn deliveries_in(
        &self,
        states: StateIndex,
        tenant: &Tenant,
        since: Option<Timestamp>,
        to: Option<String>,
        wanted: usize,
    ) -> Result<(Vec<Found>, bool)> {
        let mut lists = vec![(states, to.clone())];
        if states == StateIndex::Dead {
            // What was accepted later than this is certainly alive.
            let oldest = (self.ports.clock.now() - self.settings.schedule.lifetime).sort_key();
            let to = to.map_or(oldest.clone(), |to| to.min(oldest));
            lists.extend([StateIndex::Waiting, StateIndex::Parked].map(|live| (live, Some(to.clone()))));
        }
        let mut all: Vec<Found> = Vec::new();
        // A list that has more is known only down to its last one: below that, others may not go on without it.
        let mut known_down_to: Option<String> = None;
        for (states, to) in lists {
            let query = IndexQuery::of(ListIndex::ByState, states.partition(tenant), wanted)
                .between(since.map(Timestamp::sort_key), to)
                .descending();
            let page = self.repository.list_index::<DeliveryRecord>(query).await?;
            let found: Vec<Found> = page.items.into_iter().filter_map(place_of).collect();
            if page.next.is_some() {
                known_down_to = known_down_to.max(found.last().map(|(place, _)| place.clone()));
            }
            all.extend(found);
        }
        all.sort_by(|a, b| b.cmp(a));
        all.dedup();
        let whole = all.len();
        all.retain(|(place, _)| known_down_to.as_ref().is_none_or(|lowest| place >= lowest));
        all.truncate(wanted);
        let more = known_down_to.is_some() || all.len() < whole;
        Ok((all, more))
    }

    /// In the order of their ids.
    pub(super) async fn list_urls_in(
        &self,
        states: StateIndex,
        tenant: &Tenant,
        state: UrlState,
        after: Option<String>,
        limit: usize,
    ) -> Result<Page<UrlView>> {
        let query = IndexQuery::of(ListIndex::ByState, states.partition(tenant), limit).after(after);
        let page = self.repository.list_index::<UrlRecord>(query).await?;
        // The index may lag behind the record.
        let urls = page.items.into_iter().filter(|url| url.health.state == state);
        Ok(Page { items: urls.map(UrlView::of).collect(), next: page.next })
    }
}

fn place_of(record: DeliveryRecord) -> Option<Found> {
    let key = record.key.clone();
    let (_, place) = Record::Delivery(record).index_entries().in_list(ListIndex::ByState)?;
    Some((place, key))
}
