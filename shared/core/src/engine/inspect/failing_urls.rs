//! URLs in trouble, in the order of their trouble. The index has them by the beginning of their failures, which is not written again with every
//! failure.

use super::super::{Engine, Page, Result};
use super::{MAX_SCANNED, UrlView, scan_cost};
use crate::ids::Tenant;
use crate::ports::{IndexQuery, Order};
use crate::records::{ListIndex, Record, StateIndex, UrlRecord};
use crate::time::Timestamp;

/// Only so many are put into another order than that of the index: those that have been failing longest.
const MAX_SORTED: usize = 1_000;
/// After every character of a place, and before every place that continues it.
const BEYOND: char = '!';

/// What URLs in trouble are sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TroubleSort {
    FailingSince,
    LastFailureAt,
}

impl TroubleSort {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            TroubleSort::FailingSince => "failing_since",
            TroubleSort::LastFailureAt => "last_failure_at",
        }
    }
}

/// A URL and its place in the index.
type Found = (String, UrlRecord);

impl Engine {
    pub(super) async fn list_failing_urls(
        &self,
        tenant: &Tenant,
        (sort, order): (TroubleSort, Order),
        after: Option<String>,
        limit: usize,
    ) -> Result<Page<UrlView>> {
        if sort == TroubleSort::LastFailureAt {
            return self.list_by_last_failure(tenant, order, after, limit).await;
        }
        let mut page = Page { items: Vec::new(), next: after };
        let mut scanned = 0;
        loop {
            let wanted = limit - page.items.len();
            let (found, more) = self.failing_after(tenant, order, page.next.take(), wanted).await?;
            scanned += scan_cost(found.len());
            page.next = found.last().filter(|_| more).map(|(place, _)| place.clone());
            let failing = found.into_iter().filter(|(_, url)| url.health.failing);
            page.items.extend(failing.map(|(_, url)| UrlView::of(url)));
            if page.next.is_none() || page.items.len() >= limit || scanned >= MAX_SCANNED {
                return Ok(page);
            }
        }
    }

    /// A cursor is the place of the last one that was shown, in this order.
    async fn list_by_last_failure(
        &self,
        tenant: &Tenant,
        order: Order,
        after: Option<String>,
        limit: usize,
    ) -> Result<Page<UrlView>> {
        let longest = (TroubleSort::FailingSince, Order::Ascending);
        let all = Box::pin(self.list_failing_urls(tenant, longest, None, MAX_SORTED)).await?.items;
        let mut all: Vec<(String, UrlView)> =
            all.into_iter().map(|view| (place_by_failure(&view.url), view)).collect();
        all.sort_by(|(one, _), (other, _)| one.cmp(other));
        if order == Order::Descending {
            all.reverse();
        }
        let is_beyond = |place: &String| match (&after, order) {
            (None, _) => true,
            (Some(after), Order::Ascending) => place > after,
            (Some(after), Order::Descending) => place < after,
        };
        let mut left = all.into_iter().filter(|(place, _)| is_beyond(place));
        let shown: Vec<_> = left.by_ref().take(limit).collect();
        let last = shown.last().map(|(place, _)| place.clone());
        let next = left.next().and(last);
        Ok(Page { items: shown.into_iter().map(|(_, view)| view).collect(), next })
    }

    /// The next ones beyond a place, and whether there are more.
    async fn failing_after(
        &self,
        tenant: &Tenant,
        order: Order,
        after: Option<String>,
        wanted: usize,
    ) -> Result<(Vec<Found>, bool)> {
        let (from, to) = match order {
            Order::Ascending => (after.map(|after| format!("{after}{BEYOND}")), None),
            Order::Descending => (None, after),
        };
        let mut all: Vec<Found> = Vec::new();
        // A list that has more is known only as far as its last one: beyond that, others may not go on without it.
        let mut edge: Option<String> = None;
        for list in StateIndex::TROUBLE {
            let query = IndexQuery::of(ListIndex::ByState, list.partition(tenant), wanted)
                .between(from.clone(), to.clone());
            let page = self.repository.list_index::<UrlRecord>(IndexQuery { order, ..query }).await?;
            let found: Vec<Found> = page.items.into_iter().filter_map(with_place).collect();
            if page.next.is_some() {
                let last = found.last().map(|(place, _)| place.clone());
                edge = match order {
                    Order::Ascending => edge.into_iter().chain(last).min(),
                    Order::Descending => edge.max(last),
                };
            }
            all.extend(found);
        }
        all.sort_by(|(one, _), (other, _)| one.cmp(other));
        all.dedup_by(|(one, _), (other, _)| one == other);
        if order == Order::Descending {
            all.reverse();
        }
        let whole = all.len();
        all.retain(|(place, _)| {
            edge.as_ref()
                .is_none_or(|edge| if order == Order::Ascending { place <= edge } else { place >= edge })
        });
        all.truncate(wanted);
        let more = edge.is_some() || all.len() < whole;
        Ok((all, more))
    }
}

/// `None`: it is in none of the lists any more.
fn with_place(url: UrlRecord) -> Option<Found> {
    let record = Record::Url(url);
    let (_, place) = record.index_entries().in_list(ListIndex::ByState)?;
    let Record::Url(url) = record else { return None };
    Some((place, url))
}

fn place_by_failure(url: &UrlRecord) -> String {
    let at = url.health.last_failure.as_ref().map_or(Timestamp::ZERO, |last| last.at);
    format!("{}#{}", at.sort_key(), url.id)
}
