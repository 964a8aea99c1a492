//! Lists of what is in one state, from the index of that state: nothing else is looked through.

use super::super::{Engine, Unavailable};
use super::{DeliveryFilter, DeliveryView, ListPage, MOST_LOOKED_THROUGH, UrlView, looked_at};
use crate::ids::{DeliveryKey, Tenant};
use crate::ports::{IndexQuery, Order, Versioned};
use crate::records::{ListIndex, Record, TopicName};
use crate::rules::health::UrlState;
use crate::time::Timestamp;

/// A delivery and its place, which is the same in every topic: a delivery stands in at most one at a time.
type Found = (String, DeliveryKey);

impl Engine {
    /// Newest first. A cursor is the place of the last delivery that was looked at.
    pub(super) async fn list_deliveries_in(
        &self,
        topic: TopicName,
        tenant: &Tenant,
        filter: &DeliveryFilter,
        after: Option<String>,
        limit: usize,
    ) -> Result<ListPage<DeliveryView>, Unavailable> {
        let mut page = ListPage { items: Vec::new(), next: after };
        let mut looked_through = 0;
        loop {
            let until = filter.until.map(Timestamp::sort_key);
            let to = page.next.take().into_iter().chain(until).min();
            let wanted = limit - page.items.len();
            let (found, more) = self.deliveries_in(topic, tenant, filter.since, to, wanted).await?;
            looked_through += looked_at(found.len());
            page.next = found.last().filter(|_| more).map(|(place, _)| place.clone());
            let keys: Vec<DeliveryKey> = found.into_iter().map(|(_, key)| key).collect();
            // It is shown as it is now, which may be later than what the index says.
            page.items.extend(self.view_each(&keys).await?.into_iter().filter(|view| filter.wants(view)));
            if page.next.is_none() || page.items.len() >= limit || looked_through >= MOST_LOOKED_THROUGH {
                return Ok(page);
            }
        }
    }

    /// The next ones before `to`, newest first, and whether there are more. Live ones that may have expired stand among the dead.
    async fn deliveries_in(
        &self,
        topic: TopicName,
        tenant: &Tenant,
        since: Option<Timestamp>,
        to: Option<String>,
        wanted: usize,
    ) -> Result<(Vec<Found>, bool), Unavailable> {
        let mut lists = vec![(topic, to.clone())];
        if topic == TopicName::Dead {
            // What was accepted later than this is certainly alive.
            let oldest = (self.ports.clock.now() - self.settings.schedule.lifetime).sort_key();
            let to = to.map_or(oldest.clone(), |to| to.min(oldest));
            lists.extend([TopicName::Waiting, TopicName::Parked].map(|live| (live, Some(to.clone()))));
        }
        let mut all: Vec<Found> = Vec::new();
        // A list that has more is known only down to its last one: below that, others may not go on without it.
        let mut known_down_to: Option<String> = None;
        for (topic, to) in lists {
            let query = IndexQuery {
                index: ListIndex::ByTopic,
                partition: topic.partition(tenant),
                from: since.map(Timestamp::sort_key),
                to,
                after: None,
                order: Order::Descending,
                limit: wanted,
            };
            let page = self.ports.store.query_index(query).await?;
            let found: Vec<Found> = page.items.iter().filter_map(place_of).collect();
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
        topic: TopicName,
        tenant: &Tenant,
        state: UrlState,
        after: Option<String>,
        limit: usize,
    ) -> Result<ListPage<UrlView>, Unavailable> {
        let query = IndexQuery {
            index: ListIndex::ByTopic,
            partition: topic.partition(tenant),
            from: None,
            to: None,
            after,
            order: Order::Ascending,
            limit,
        };
        let page = self.ports.store.query_index(query).await?;
        let urls = page.items.into_iter().filter_map(|item| match item.record {
            Record::Url(url) if url.health.state == state => Some(UrlView::of(url)),
            _ => None,
        });
        Ok(ListPage { items: urls.collect(), next: page.next })
    }
}

fn place_of(item: &Versioned) -> Option<Found> {
    let (_, place) = item.record.index_entries().in_list(ListIndex::ByTopic)?;
    match &item.record {
        Record::Delivery(record) => Some((place, record.key.clone())),
        _ => None,
    }
}
