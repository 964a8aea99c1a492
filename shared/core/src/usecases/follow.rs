//! The latest attempts, to be followed live.
//!
//! Each engine writes some of its attempts about once a second, as one record under the real time at which it does so. A reader
//! goes on behind the last record that it was shown. Because machines write at the same time, and a write takes a moment, a
//! record may appear behind one with a later time. So nothing younger than [`SETTLED`] is shown: by then it stands where it
//! belongs, and nothing comes in before it any more. A write that takes longer is missed by whoever follows at that moment, and
//! is still there for whoever asks afresh.

use std::time::Duration;

use super::{Engine, Unavailable};
use crate::ids::Tenant;
use crate::ports::{Order, Query};
use crate::records::{Glimpse, GlimpseRecord, Key, Record};

/// The most attempts of one answer.
pub const MOST_FOLLOWED: usize = 100;

/// In real time.
const SETTLED: Duration = Duration::from_secs(2);
const PAGE: usize = 20;

/// Attempts in the order of their time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Followed {
    pub items: Vec<Glimpse>,
    /// How many there were besides: more than can be followed.
    pub left_out: u64,
    /// Where to go on, also if there was nothing.
    pub next: String,
}

/// Where a reader stands: behind this record, or behind so many glimpses of it.
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

impl Followed {
    fn new() -> Followed {
        Followed { items: Vec::new(), left_out: 0, next: String::new() }
    }

    /// Adds what there is room for. Answers where that ends.
    fn add(&mut self, record: GlimpseRecord, skip: usize, limit: usize) -> Place {
        let (sort, whole) = (record.key().sort, record.glimpses.len());
        let room = limit - self.items.len();
        if skip == 0 {
            self.left_out += record.left_out;
        }
        self.items.extend(record.glimpses.into_iter().skip(skip).take(room));
        let shown = skip.saturating_add(room);
        Place { sort, shown: (shown < whole).then_some(shown) }
    }

    fn at(mut self, place: &Place) -> Followed {
        // Each record is in order already; several engines' are not, one behind the other.
        self.items.sort_by_key(|glimpse| glimpse.at);
        self.next = place.write();
        self
    }
}

impl Engine {
    /// What came behind `after`, the `next` of the answer before; without it, the latest. At most `limit`, and at most
    /// [`MOST_FOLLOWED`].
    pub async fn follow_attempts(
        &self,
        tenant: &Tenant,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Followed, Unavailable> {
        let limit = limit.clamp(1, MOST_FOLLOWED);
        // Records of that time are longer than this, and so behind it.
        let horizon = (self.ports.clock.now_real() - SETTLED).sort_key();
        match after {
            Some(after) => self.attempts_behind(tenant, Place::read(after), &horizon, limit).await,
            None => self.latest_attempts(tenant, horizon, limit).await,
        }
    }

    async fn attempts_behind(
        &self,
        tenant: &Tenant,
        mut place: Place,
        horizon: &str,
        limit: usize,
    ) -> Result<Followed, Unavailable> {
        let mut followed = Followed::new();
        if let Some(shown) = place.shown.take() {
            let key = Key::new(GlimpseRecord::partition(tenant), place.sort.as_str());
            // It may be past its time by now.
            if let Some(record) = self.get_one(key).await?.and_then(|v| glimpses_of(v.record)) {
                place = followed.add(record, shown, limit);
            }
        }
        while followed.items.len() < limit {
            let (records, more) = self.glimpses(tenant, &place.sort, Order::Ascending).await?;
            for record in records {
                if record.key().sort.as_str() >= horizon || followed.items.len() == limit {
                    return Ok(followed.at(&place));
                }
                place = followed.add(record, 0, limit);
            }
            if !more {
                break;
            }
        }
        Ok(followed.at(&place))
    }

    async fn latest_attempts(
        &self,
        tenant: &Tenant,
        horizon: String,
        limit: usize,
    ) -> Result<Followed, Unavailable> {
        let mut found: Vec<GlimpseRecord> = Vec::new();
        let mut after = horizon.clone();
        loop {
            let (records, more) = self.glimpses(tenant, &after, Order::Descending).await?;
            after = records.last().map_or(after, |record| record.key().sort);
            found.extend(records);
            if !more || found.iter().map(|record| record.glimpses.len()).sum::<usize>() >= limit {
                break;
            }
        }
        let sort = found.first().map_or(horizon, |newest| newest.key().sort);
        let mut followed = Followed::new();
        for record in found {
            if followed.items.len() == limit {
                break;
            }
            followed.left_out += record.left_out;
            let room = limit - followed.items.len();
            followed.items.extend(record.glimpses.into_iter().rev().take(room));
        }
        followed.items.reverse();
        Ok(followed.at(&Place { sort, shown: None }))
    }

    async fn glimpses(
        &self,
        tenant: &Tenant,
        after: &str,
        order: Order,
    ) -> Result<(Vec<GlimpseRecord>, bool), Unavailable> {
        let query = Query {
            partition: GlimpseRecord::partition(tenant),
            prefix: String::new(),
            after: Some(after.to_owned()),
            order,
            limit: PAGE,
        };
        let page = self.ports.store.query(query).await?;
        let more = page.next.is_some();
        Ok((page.items.into_iter().filter_map(|item| glimpses_of(item.record)).collect(), more))
    }
}

fn glimpses_of(record: Record) -> Option<GlimpseRecord> {
    match record {
        Record::Glimpses(record) => Some(record),
        _ => None,
    }
}
