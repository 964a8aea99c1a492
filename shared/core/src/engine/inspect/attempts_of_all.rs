//! The latest attempts of many tenants, merged by the time at which they were written.
//!
//! Each tenant has a feed of its own (see `attempts_feed`). Their records have one order, because the key of each begins with its time and
//! ends with the engine that wrote it and a number of that engine. So one place says how far all feeds were read.

use futures_util::future::join_all;

use super::super::{Engine, Result};
use super::attempts_feed::{MAX_PAGES, SETTLED};
use super::{AttemptFilter, MAX_FEED_ITEMS};
use crate::ids::Tenant;
use crate::ports::Order;
use crate::records::{AttemptSummaries, AttemptSummary, Key};

/// How many tenants are read at the same time.
const AT_ONCE: usize = 10;

/// Attempts in the order of their time, each with its tenant, and where the feed goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllAttemptsPage {
    pub items: Vec<(Tenant, AttemptSummary)>,
    /// How many there were besides: more than can be shown.
    pub omitted: u64,
    /// Where the feed goes on, even if nothing was new.
    pub next: String,
}

/// Behind this record, or behind so many attempts of it, which is then this tenant's. Neither of the three has a space in it.
struct Place {
    sort: String,
    within: Option<(Tenant, usize)>,
}

impl Place {
    fn read(cursor: &str) -> Place {
        let mut parts = cursor.split(' ');
        let sort = parts.next().unwrap_or_default().to_owned();
        let within = parts.next().map(Tenant::from).zip(parts.next().and_then(|shown| shown.parse().ok()));
        Place { sort, within }
    }

    fn write(&self) -> String {
        match &self.within {
            Some((tenant, shown)) => format!("{} {tenant} {shown}", self.sort),
            None => self.sort.clone(),
        }
    }
}

impl AllAttemptsPage {
    /// Adds what there is room for. Returns where that ends.
    fn add(&mut self, record: AttemptSummaries, skip: usize, limit: usize) -> Place {
        let (sort, whole, tenant) = (record.key().sort, record.summaries.len(), record.tenant);
        let room = limit - self.items.len();
        if skip == 0 {
            self.omitted += record.omitted;
        }
        let shown = record.summaries.into_iter().skip(skip).take(room);
        self.items.extend(shown.map(|attempt| (tenant.clone(), attempt)));
        let shown = skip.saturating_add(room);
        Place { sort, within: (shown < whole).then_some((tenant, shown)) }
    }

    fn at(mut self, place: &Place) -> AllAttemptsPage {
        self.items.sort_by_key(|(_, attempt)| attempt.at);
        self.next = place.write();
        self
    }
}

impl Engine {
    /// The attempts of these tenants after `after`, the `next` of the answer before; without it, the latest. At most `limit`, and at most
    /// [`MAX_FEED_ITEMS`]. One page of records is read for each tenant, or more if there are few tenants and no `after`.
    pub async fn attempts_of_all(
        &self,
        tenants: &[Tenant],
        filter: &AttemptFilter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<AllAttemptsPage> {
        let limit = limit.clamp(1, MAX_FEED_ITEMS);
        // Records of that time are longer than this, and so behind it.
        let horizon = (self.ports.clock.now_real() - SETTLED).sort_key();
        match after {
            Some(after) => {
                self.attempts_of_all_behind((tenants, filter), Place::read(after), &horizon, limit).await
            }
            None => self.latest_of_all((tenants, filter), horizon, limit).await,
        }
    }

    async fn attempts_of_all_behind(
        &self,
        (tenants, filter): (&[Tenant], &AttemptFilter),
        mut place: Place,
        horizon: &str,
        limit: usize,
    ) -> Result<AllAttemptsPage> {
        let mut page = AllAttemptsPage { items: Vec::new(), omitted: 0, next: String::new() };
        if let Some((tenant, shown)) = place.within.take() {
            let key = Key::new(AttemptSummaries::partition(&tenant), place.sort.as_str());
            // It may be past its time by now.
            if let Some(record) = self.repository.get::<AttemptSummaries>(key).await? {
                place = page.add(filter.apply(record.record), shown, limit);
            }
        }
        if page.items.len() >= limit {
            return Ok(page.at(&place));
        }
        let mut found: Vec<AttemptSummaries> = Vec::new();
        // A feed that has more is known only up to its last record: beyond that, the others may not go on without it.
        let mut known_up_to: Option<String> = None;
        for (records, more) in self.summaries_of_each(tenants, &place.sort, Order::Ascending).await? {
            if let Some(last) = records.last().filter(|_| more) {
                let last = last.key().sort;
                known_up_to = Some(known_up_to.map_or(last.clone(), |known| known.min(last)));
            }
            found.extend(records);
        }
        found.sort_by_cached_key(|record| record.key().sort);
        for record in found {
            let sort = record.key().sort;
            let is_known = known_up_to.as_ref().is_none_or(|known| sort <= *known);
            if !is_known || sort.as_str() >= horizon || page.items.len() == limit {
                break;
            }
            place = page.add(filter.apply(record), 0, limit);
        }
        Ok(page.at(&place))
    }

    async fn latest_of_all(
        &self,
        (tenants, filter): (&[Tenant], &AttemptFilter),
        horizon: String,
        limit: usize,
    ) -> Result<AllAttemptsPage> {
        let pages = (MAX_PAGES / tenants.len().max(1)).max(1);
        let mut found: Vec<AttemptSummaries> = Vec::new();
        for some in tenants.chunks(AT_ONCE) {
            let each = some.iter().map(|tenant| self.latest_summaries(tenant, &horizon, pages, limit));
            for records in join_all(each).await {
                found.extend(records?);
            }
        }
        found.sort_by_cached_key(|record| std::cmp::Reverse(record.key().sort));
        let sort = found.first().map_or(horizon, |newest| newest.key().sort);
        let mut page = AllAttemptsPage { items: Vec::new(), omitted: 0, next: String::new() };
        for record in found {
            if page.items.len() == limit {
                break;
            }
            let AttemptSummaries { tenant, summaries, omitted, .. } = filter.apply(record);
            page.omitted += omitted;
            let room = limit - page.items.len();
            page.items
                .extend(summaries.into_iter().rev().take(room).map(|attempt| (tenant.clone(), attempt)));
        }
        page.items.reverse();
        Ok(page.at(&Place { sort, within: None }))
    }

    /// The newest records of one tenant, until they hold enough attempts.
    async fn latest_summaries(
        &self,
        tenant: &Tenant,
        horizon: &str,
        pages: usize,
        enough: usize,
    ) -> Result<Vec<AttemptSummaries>> {
        let mut found: Vec<AttemptSummaries> = Vec::new();
        let mut after = horizon.to_owned();
        for _ in 0..pages {
            let (records, more) = self.summaries(tenant, &after, Order::Descending).await?;
            after = records.last().map_or(after, |record| record.key().sort);
            found.extend(records);
            if !more || found.iter().map(|record| record.summaries.len()).sum::<usize>() >= enough {
                break;
            }
        }
        Ok(found)
    }

    async fn summaries_of_each(
        &self,
        tenants: &[Tenant],
        after: &str,
        order: Order,
    ) -> Result<Vec<(Vec<AttemptSummaries>, bool)>> {
        let mut all = Vec::with_capacity(tenants.len());
        for some in tenants.chunks(AT_ONCE) {
            let each = some.iter().map(|tenant| self.summaries(tenant, after, order));
            for answer in join_all(each).await {
                all.push(answer?);
            }
        }
        Ok(all)
    }
}
