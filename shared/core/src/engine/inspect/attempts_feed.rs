//! The latest attempts, to be followed live.
//!
//! Each engine writes some of its attempts about once a second, as one record under the real time at which it does so. A reader goes on
//! behind the last record that it was shown. Several machines write at the same time, and a write takes a moment, so a record may
//! appear behind one with a later time. Therefore nothing younger than [`SETTLED`] is shown: by then every record is in its place. A
//! write that takes longer is missed by a reader that has gone past it, and shown to one that starts anew.

use std::time::Duration;

use super::super::{Engine, Result};
use crate::ids::{Tenant, UrlId};
use crate::ports::{Order, Query};
use crate::records::{AttemptSummaries, AttemptSummary, Key};
use crate::rules::delivery::AttemptOutcome;

/// The most attempts of one answer.
pub const MAX_FEED_ITEMS: usize = 100;

/// In real time.
pub(super) const SETTLED: Duration = Duration::from_secs(2);
pub(super) const PAGE: usize = 20;
/// How many pages are read for one answer, if few attempts are wanted.
pub(super) const MAX_PAGES: usize = 50;

/// Which attempts are shown. The feed itself answers it: what is not wanted is read and left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AttemptFilter {
    pub url: Option<UrlId>,
    pub outcome: Option<AttemptOutcome>,
    pub delivery: Option<String>,
}

impl AttemptFilter {
    fn wants(&self, attempt: &AttemptSummary) -> bool {
        self.url.as_ref().is_none_or(|url| attempt.url_id == url.as_str())
            && self.outcome.is_none_or(|outcome| attempt.outcome == outcome)
            && self.delivery.as_ref().is_none_or(|delivery| attempt.delivery_id == *delivery)
    }

    /// The record with what is wanted of it. The same attempts each time, so that a place in it stays the same.
    pub(super) fn apply(&self, mut record: AttemptSummaries) -> AttemptSummaries {
        record.summaries.retain(|attempt| self.wants(attempt));
        record
    }
}

/// Attempts in the order of their time, and where the feed goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptsPage {
    pub items: Vec<AttemptSummary>,
    /// How many there were besides: more than can be shown.
    pub omitted: u64,
    /// Where the feed goes on, even if nothing was new.
    pub next: String,
}

/// Where a reader stands: behind this record, or behind so many attempts of it.
struct Place {
    sort: String,
    shown: Option<usize>,
}

impl Place {
    fn read(cursor: &str) -> Place {
        match cursor.split_once(' ') {
            Some((sort, shown)) => Place { sort: sort.to_owned(), shown: shown.parse().ok() },
            None => Place { sort: cursor.to_owned(), shown: None },
        }
    }

    fn write(&self) -> String {
        match self.shown {
            Some(shown) => format!("{} {shown}", self.sort),
            None => self.sort.clone(),
        }
    }
}

impl AttemptsPage {
    fn new() -> AttemptsPage {
        AttemptsPage { items: Vec::new(), omitted: 0, next: String::new() }
    }

    /// Adds what there is room for. Returns where that ends.
    fn add(&mut self, record: AttemptSummaries, skip: usize, limit: usize) -> Place {
        let (sort, whole) = (record.key().sort, record.summaries.len());
        let room = limit - self.items.len();
        if skip == 0 {
            self.omitted += record.omitted;
        }
        self.items.extend(record.summaries.into_iter().skip(skip).take(room));
        let shown = skip.saturating_add(room);
        Place { sort, shown: (shown < whole).then_some(shown) }
    }

    fn at(mut self, place: &Place) -> AttemptsPage {
        // Each record is in order already; several engines' are not, one behind the other.
        self.items.sort_by_key(|attempt| attempt.at);
        self.next = place.write();
        self
    }
}

impl Engine {
    /// The attempts after `after`, the `next` of the answer before; without it, the latest. At most `limit`, and at most
    /// [`MAX_FEED_ITEMS`].
    pub async fn attempts_feed(
        &self,
        tenant: &Tenant,
        filter: &AttemptFilter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<AttemptsPage> {
        let limit = limit.clamp(1, MAX_FEED_ITEMS);
        // Records of that time are longer than this, and so behind it.
        let horizon = (self.ports.clock.now_real() - SETTLED).sort_key();
        match after {
            Some(after) => self.attempts_behind((tenant, filter), Place::read(after), &horizon, limit).await,
            None => self.latest_attempts((tenant, filter), horizon, limit).await,
        }
    }

    async fn attempts_behind(
        &self,
        (tenant, filter): (&Tenant, &AttemptFilter),
        mut place: Place,
        horizon: &str,
        limit: usize,
    ) -> Result<AttemptsPage> {
        let mut page = AttemptsPage::new();
        if let Some(shown) = place.shown.take() {
            let key = Key::new(AttemptSummaries::partition(tenant), place.sort.as_str());
            // It may be past its time by now.
            if let Some(record) = self.repository.get::<AttemptSummaries>(key).await? {
                place = page.add(filter.apply(record.record), shown, limit);
            }
        }
        for _ in 0..MAX_PAGES {
            if page.items.len() >= limit {
                break;
            }
            let (records, more) = self.summaries(tenant, &place.sort, Order::Ascending).await?;
            for record in records {
                if record.key().sort.as_str() >= horizon || page.items.len() == limit {
                    return Ok(page.at(&place));
                }
                place = page.add(filter.apply(record), 0, limit);
            }
            if !more {
                break;
            }
        }
        Ok(page.at(&place))
    }

    async fn latest_attempts(
        &self,
        (tenant, filter): (&Tenant, &AttemptFilter),
        horizon: String,
        limit: usize,
    ) -> Result<AttemptsPage> {
        let mut found: Vec<AttemptSummaries> = Vec::new();
        let mut after = horizon.clone();
        for _ in 0..MAX_PAGES {
            let (records, more) = self.summaries(tenant, &after, Order::Descending).await?;
            after = records.last().map_or(after, |record| record.key().sort);
            found.extend(records.into_iter().map(|record| filter.apply(record)));
            if !more || found.iter().map(|record| record.summaries.len()).sum::<usize>() >= limit {
                break;
            }
        }
        let sort = found.first().map_or(horizon, |newest| newest.key().sort);
        let mut page = AttemptsPage::new();
        for record in found {
            if page.items.len() == limit {
                break;
            }
            page.omitted += record.omitted;
            let room = limit - page.items.len();
            page.items.extend(record.summaries.into_iter().rev().take(room));
        }
        page.items.reverse();
        Ok(page.at(&Place { sort, shown: None }))
    }

    pub(super) async fn summaries(
        &self,
        tenant: &Tenant,
        after: &str,
        order: Order,
    ) -> Result<(Vec<AttemptSummaries>, bool)> {
        let query = Query::of(AttemptSummaries::partition(tenant), PAGE).after(Some(after.to_owned()));
        let page = self.repository.list(Query { order, ..query }).await?;
        Ok((page.items, page.next.is_some()))
    }
}
