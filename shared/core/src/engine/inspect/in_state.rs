//! Lists of what is in one state, from the index of that state: nothing else is looked through. And lists of a subscription, whose live
//! deliveries stand apart from the others.

use super::super::{Engine, Page, Result};
use super::deliveries::listed_key;
use super::{DeliveryFilter, DeliveryView, MAX_SCANNED, UrlView, scan_cost};
use crate::ids::{DeliveryKey, SubscriptionId, Tenant};
use crate::ports::IndexQuery;
use crate::records::{DeliveryRecord, ListIndex, Record, StateIndex, UrlRecord};
use crate::rules::delivery::DeliveryState;
use crate::rules::health::UrlState;
use crate::time::Timestamp;

/// A delivery and its place, which is the same in every list that it can be in.
type Found = (String, DeliveryKey);

/// One of the lists that together answer a question.
pub(super) struct List {
    index: ListIndex,
    partition: String,
    /// Only what stands before this.
    to: Option<String>,
}

impl List {
    fn whole(index: ListIndex, partition: String) -> List {
        List { index, partition, to: None }
    }
}

/// The lists of a subscription in which deliveries of this state may be.
pub(super) fn lists_of_subscription(
    tenant: &Tenant,
    id: &SubscriptionId,
    state: Option<DeliveryState>,
) -> Vec<List> {
    let list = |partition| List::whole(ListIndex::BySubscription, partition);
    let live = || list(DeliveryRecord::live_subscription_list(tenant, id));
    let over = || list(DeliveryRecord::subscription_list(tenant, id));
    match state {
        Some(DeliveryState::Waiting | DeliveryState::Parked) => vec![live()],
        Some(DeliveryState::Delivered) => vec![over()],
        // Live ones that have expired are shown as dead. Live ones are read first: what ends in between is then found in both.
        Some(DeliveryState::Dead) | None => vec![live(), over()],
    }
}

impl Engine {
    /// The lists in which deliveries of this state may be. Live ones that may have expired stand among the dead.
    pub(super) fn lists_in_state(&self, states: StateIndex, tenant: &Tenant) -> Vec<List> {
        let list = |states: StateIndex| List::whole(ListIndex::ByState, states.partition(tenant));
        let mut lists = vec![list(states)];
        if states == StateIndex::Dead {
            // What was accepted later than this is certainly alive.
            let oldest = (self.ports.clock.now() - self.settings.schedule.lifetime).sort_key();
            let live = [StateIndex::Waiting, StateIndex::Parked].map(list);
            lists.extend(live.into_iter().map(|live| List { to: Some(oldest.clone()), ..live }));
        }
        lists
    }

    /// Newest first, of all these lists. A cursor is the place of the last delivery that was looked at.
    pub(super) async fn list_deliveries_in(
        &self,
        lists: &[List],
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
            let (found, more) = self.deliveries_in(lists, filter.since, to, wanted).await?;
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

    /// The next ones before `to`, newest first, and whether there are more.
    async fn deliveries_in(
        &self,
        lists: &[List],
        since: Option<Timestamp>,
        to: Option<String>,
        wanted: usize,
    ) -> Result<(Vec<Found>, bool)> {
        let mut all: Vec<Found> = Vec::new();
        // A list that has more is known only down to its last one: below that, others may not go on without it.
        let mut known_down_to: Option<String> = None;
        for list in lists {
            let to = to.iter().chain(&list.to).min().cloned();
            let query = IndexQuery::of(list.index, list.partition.clone(), wanted)
                .between(since.map(Timestamp::sort_key), to)
                .descending();
            let page = self.repository.list_index::<Record>(query).await?;
            let found: Vec<Found> =
                page.items.into_iter().filter_map(|record| place_of(record, list.index)).collect();
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

    /// Longest in this state, or failing, first.
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

fn place_of(record: Record, index: ListIndex) -> Option<Found> {
    let key = listed_key(&record)?;
    let (_, place) = record.index_entries().in_list(index)?;
    Some((place, key))
}
