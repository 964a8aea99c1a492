//! How a tenant is doing: what happened in the last minutes, and what is waiting, parked or dead.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::{try_join, try_join3};

use super::super::urls::MAX_PARKED_COUNTED as MAX_COUNTED;
use super::super::{Engine, Result};
use crate::ids::Tenant;
use crate::ports::{Count, IndexCount, IndexQuery, Query};
use crate::records::{DeliveryRecord, ListIndex, MinuteRecord, StateIndex};
use crate::rules::activity::{Counts, by_minute, first_minute};
use crate::rules::delivery::DeliveryState;
use crate::time::Timestamp;

/// The most minutes that are shown: a day.
pub const MAX_MINUTES_SHOWN: u32 = 1_440;

const PAGE: usize = 500;
/// Each engine has a record for each of its minutes: a day of very many engines is not read to its end.
const MAX_PAGES: usize = 100;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overview {
    pub at: Timestamp,
    /// In order, up to the minute of `at`, none missing.
    pub minutes: Vec<(Timestamp, Counts)>,
    /// Of all these minutes.
    pub totals: Counts,
    pub waiting: Count,
    pub parked: Count,
    pub dead: Count,
    pub urls: UrlCounts,
}

/// How many URLs are in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct UrlCounts {
    pub enabled: u64,
    pub disabled: u64,
    pub frozen: u64,
    /// More are disabled or frozen than were counted, and fewer are enabled.
    pub more: bool,
}

/// What is in each state, of all tenants together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StateCounts {
    pub waiting: u64,
    pub parked: u64,
    pub dead: u64,
    pub urls_enabled: u64,
    pub urls_disabled: u64,
    pub urls_frozen: u64,
    /// There is more than was counted.
    pub more: bool,
}

const NONE: Count = Count { count: 0, more: false };

impl Overview {
    /// Puts two tenants together. Both were asked for the same minutes.
    pub fn add(&mut self, other: &Overview) {
        self.at = self.at.max(other.at);
        self.totals.add(&other.totals);
        for (minute, counts) in &other.minutes {
            match self.minutes.iter_mut().find(|(mine, _)| mine == minute) {
                Some((_, sum)) => sum.add(counts),
                // A minute began between the two.
                None => self.minutes.push((*minute, counts.clone())),
            }
        }
        self.minutes.sort_by_key(|(minute, _)| *minute);
        self.waiting = sum(self.waiting, other.waiting);
        self.parked = sum(self.parked, other.parked);
        self.dead = sum(self.dead, other.dead);
        self.urls.enabled += other.urls.enabled;
        self.urls.disabled += other.urls.disabled;
        self.urls.frozen += other.urls.frozen;
        self.urls.more |= other.urls.more;
    }
}

/// Both together. Beyond what is counted of one nothing is known, so `more` of either is `more` of both.
fn sum(a: Count, b: Count) -> Count {
    Count { count: a.count + b.count, more: a.more || b.more }
}

/// Shows at most this many, however they were counted.
fn at_most(most: usize, count: Count) -> Count {
    let most = most as u64;
    Count { count: count.count.min(most), more: count.more || count.count > most }
}

/// Live deliveries in one state, and those among them that have expired.
struct Live {
    alive: Count,
    expired: Count,
}

impl Engine {
    /// Counts lag behind by a second or so. `minutes`: from 1 to [`MAX_MINUTES_SHOWN`].
    pub async fn overview(&self, tenant: &Tenant, minutes: u32) -> Result<Overview> {
        let now = self.ports.clock.now();
        let ((waiting, parked, dead), urls, counted) = try_join3(
            self.count_deliveries(tenant, now),
            self.count_urls(tenant),
            self.minutes_since(tenant, first_minute(now, minutes)),
        )
        .await?;
        let minutes = by_minute(now, minutes, counted.iter().map(|(minute, counts)| (*minute, counts)));
        let mut totals = Counts::default();
        minutes.iter().for_each(|(_, counts)| totals.add(counts));
        Ok(Overview { at: now, minutes, totals, waiting, parked, dead, urls })
    }

    /// Those that are waiting, parked and dead.
    async fn count_deliveries(&self, tenant: &Tenant, now: Timestamp) -> Result<(Count, Count, Count)> {
        let (waiting, parked, dead) = try_join3(
            self.count_live(tenant, StateIndex::Waiting, now),
            self.count_live(tenant, StateIndex::Parked, now),
            self.count_state(tenant, StateIndex::Dead, None),
        )
        .await?;
        // What is past its time is dead, whether or not anything has touched it yet.
        let dead = sum(dead, sum(waiting.expired, parked.expired));
        let capped = |count| at_most(MAX_COUNTED, count);
        Ok((capped(waiting.alive), capped(parked.alive), capped(dead)))
    }

    /// Counts of all tenants together, for metrics: of the first `max_tenants`, and of each at most 1,000 in a state. `also`: tenants that
    /// only the host knows. One tenant after the other, so that it does not hold up other reads.
    pub async fn count_states(&self, also: &[Tenant], max_tenants: usize) -> Result<StateCounts> {
        let listed = self.list_tenants(None, max_tenants).await?;
        let mut more = listed.next.is_some();
        let tenants: BTreeSet<Tenant> = also.iter().cloned().chain(listed.items).collect();
        let mut all = StateCounts::default();
        let (mut waiting, mut parked, mut dead) = (NONE, NONE, NONE);
        for tenant in tenants {
            let now = self.ports.clock.now();
            let (of_tenant, urls) =
                try_join(self.count_deliveries(&tenant, now), self.count_urls(&tenant)).await?;
            (waiting, parked) = (sum(waiting, of_tenant.0), sum(parked, of_tenant.1));
            dead = sum(dead, of_tenant.2);
            all.urls_enabled += urls.enabled;
            all.urls_disabled += urls.disabled;
            all.urls_frozen += urls.frozen;
            more |= urls.more;
        }
        (all.waiting, all.parked, all.dead) = (waiting.count, parked.count, dead.count);
        all.more = more || waiting.more || parked.more || dead.more;
        Ok(all)
    }

    async fn count_state(&self, tenant: &Tenant, state: StateIndex, from: Option<String>) -> Result<Count> {
        let (index, partition) = (ListIndex::ByState, state.partition(tenant));
        Ok(self.ports.store.count_index(IndexCount { index, partition, from, limit: MAX_COUNTED }).await?)
    }

    /// What was accepted less than a lifetime ago cannot have expired, and is only counted. The rest are few, because the sweep
    /// ends what expires: replays, and what it has not come to yet. They are looked at.
    async fn count_live(&self, tenant: &Tenant, state: StateIndex, now: Timestamp) -> Result<Live> {
        let young = (now - self.settings.schedule.lifetime).sort_key();
        let old = IndexQuery::of(ListIndex::ByState, state.partition(tenant), MAX_COUNTED)
            .between(None, Some(young.clone()));
        let (young, old) = try_join(
            self.count_state(tenant, state, Some(young)),
            self.repository.list_index::<DeliveryRecord>(old),
        )
        .await?;
        let is_dead = |record: &&DeliveryRecord| record.progress.state_at(now).0 == DeliveryState::Dead;
        let expired = old.items.iter().filter(is_dead).count();
        let more = old.next.is_some();
        let alive = Count { count: (old.items.len() - expired) as u64, more };
        Ok(Live { alive: sum(young, alive), expired: Count { count: expired as u64, more } })
    }

    async fn count_urls(&self, tenant: &Tenant) -> Result<UrlCounts> {
        let counted = try_join(
            self.count_state(tenant, StateIndex::UrlDisabled, None),
            self.count_state(tenant, StateIndex::UrlFrozen, None),
        );
        let ((disabled, frozen), version) =
            try_join(counted, self.repository.get_tenant_version(tenant)).await?;
        let all = version.record.urls;
        Ok(UrlCounts {
            enabled: all.saturating_sub(disabled.count + frozen.count),
            disabled: disabled.count,
            frozen: frozen.count,
            more: disabled.more || frozen.more,
        })
    }

    /// What all engines counted since then, minute by minute. Newest first, so that what is given up is the oldest.
    async fn minutes_since(&self, tenant: &Tenant, first: Timestamp) -> Result<BTreeMap<Timestamp, Counts>> {
        let mut minutes: BTreeMap<Timestamp, Counts> = BTreeMap::new();
        let mut after = None;
        for _ in 0..MAX_PAGES {
            let query = Query::of(MinuteRecord::partition(tenant), PAGE).after(after).descending();
            let page = self.repository.list::<MinuteRecord>(query).await?;
            let mut older = false;
            for one in page.items {
                older |= one.minute < first;
                minutes.entry(one.minute).or_default().add(&one.counts);
            }
            after = page.next;
            if older || after.is_none() {
                break;
            }
        }
        Ok(minutes)
    }
}
