//! What the engine did, for metrics: since the counters were last taken, and by tenant since the start.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::Engine;
use crate::ids::Tenant;
use crate::rules::shortage::Shortage;

/// Up to which latency each bin of the histogram counts. An attempt takes at most its timeout, which is 5 s by default; the last bin
/// has what takes longer.
pub const LATENCY_BOUNDS_MS: [u64; 11] = [5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000];

/// How many latencies are kept as they are until they are taken: as many as one CloudWatch metric takes at a time.
const MAX_LATENCIES: usize = 100;

/// Tenants that are counted one by one. Those beyond are in the totals only.
const MAX_TENANTS: usize = 1_000;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub events_accepted: u64,
    pub attempts_succeeded: u64,
    pub attempts_failed: u64,
    /// Attempts by how long they took, in the bins of [`LATENCY_BOUNDS_MS`] and one beyond.
    pub latency_bins: [u64; LATENCY_BOUNDS_MS.len() + 1],
    /// How long all of them took together.
    pub latency_total_us: u64,
    /// Attempts that a shortage of ours kept from being made, by [`Shortage::ALL`].
    pub not_attempted: [u64; Shortage::ALL.len()],
    /// Outcomes that could not be counted on their URL: its health is a little behind.
    pub health_writes_dropped: u64,
    /// The sweep sends them again.
    pub tickets_not_sent: u64,
    /// Posts that a quota of their tenant refused.
    pub posts_over_quota: u64,
    /// First attempts that were left to the queue for slow URLs.
    pub sent_to_slow_queue: u64,
    /// How often a URL got into trouble, and out of it.
    pub urls_failing: u64,
    pub urls_recovered: u64,
    /// Deliveries that were given up.
    pub deliveries_dead: u64,
    /// Events for operators that their feed did not take.
    pub events_not_published: u64,
}

/// What was counted for one tenant since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TenantCounters {
    pub events_accepted: u64,
    pub attempts_succeeded: u64,
    pub attempts_failed: u64,
    pub deliveries_dead: u64,
}

#[derive(Default)]
pub(super) struct AtomicCounters {
    events_accepted: AtomicU64,
    attempts_succeeded: AtomicU64,
    attempts_failed: AtomicU64,
    latency_bins: [AtomicU64; LATENCY_BOUNDS_MS.len() + 1],
    latency_total_us: AtomicU64,
    latencies: Latencies,
    not_attempted: [AtomicU64; Shortage::ALL.len()],
    pub(super) health_writes_dropped: AtomicU64,
    pub(super) tickets_not_sent: AtomicU64,
    pub(super) posts_over_quota: AtomicU64,
    pub(super) sent_to_slow_queue: AtomicU64,
    pub(super) urls_failing: AtomicU64,
    pub(super) urls_recovered: AtomicU64,
    pub(super) events_not_published: AtomicU64,
}

impl AtomicCounters {
    pub(super) fn count_events(&self, accepted: u64) {
        self.events_accepted.fetch_add(accepted, Ordering::Relaxed);
    }

    pub(super) fn count_attempt(&self, succeeded: bool, took: Duration) {
        let counter = if succeeded { &self.attempts_succeeded } else { &self.attempts_failed };
        counter.fetch_add(1, Ordering::Relaxed);
        self.latency_bins[bin_of(took)].fetch_add(1, Ordering::Relaxed);
        self.latency_total_us.fetch_add(took.as_micros() as u64, Ordering::Relaxed);
        self.latencies.keep(took);
    }

    pub(super) fn count_not_attempted(&self, shortage: Shortage) {
        self.not_attempted[shortage as usize].fetch_add(1, Ordering::Relaxed);
    }
}

/// The bin of the histogram that counts an attempt of this length.
fn bin_of(took: Duration) -> usize {
    LATENCY_BOUNDS_MS.partition_point(|bound| Duration::from_millis(*bound) < took)
}

/// The first latencies since they were last taken, in milliseconds.
struct Latencies {
    kept: AtomicUsize,
    values: [AtomicU32; MAX_LATENCIES],
}

impl Default for Latencies {
    fn default() -> Latencies {
        Latencies { kept: AtomicUsize::new(0), values: [const { AtomicU32::new(0) }; MAX_LATENCIES] }
    }
}

impl Latencies {
    fn keep(&self, took: Duration) {
        // Checked first: a host that never takes them must not write to shared memory with every attempt.
        if self.kept.load(Ordering::Relaxed) >= MAX_LATENCIES {
            return;
        }
        if let Some(value) = self.values.get(self.kept.fetch_add(1, Ordering::Relaxed)) {
            value.store(u32::try_from(took.as_millis()).unwrap_or(u32::MAX), Ordering::Relaxed);
        }
    }

    fn take(&self) -> Vec<u32> {
        let kept = self.kept.swap(0, Ordering::Relaxed).min(MAX_LATENCIES);
        self.values[..kept].iter().map(|value| value.load(Ordering::Relaxed)).collect()
    }
}

/// Counts by tenant, on a host that is asked for them.
#[derive(Default)]
pub(super) struct TenantTotals(Option<Mutex<BTreeMap<Tenant, TenantCounters>>>);

impl TenantTotals {
    pub(super) fn new(is_on: bool) -> TenantTotals {
        TenantTotals(is_on.then(Mutex::default))
    }

    pub(super) fn count(&self, tenant: &Tenant, add: impl FnOnce(&mut TenantCounters)) {
        let Some(totals) = &self.0 else { return };
        let mut totals = totals.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(counters) = totals.get_mut(tenant) {
            add(counters);
        } else if totals.len() < MAX_TENANTS {
            add(totals.entry(tenant.clone()).or_default());
        }
    }

    fn all(&self) -> BTreeMap<Tenant, TenantCounters> {
        let totals = self.0.as_ref().map(|totals| totals.lock().unwrap_or_else(PoisonError::into_inner));
        totals.map_or_else(BTreeMap::new, |totals| totals.clone())
    }
}

impl Engine {
    /// Starts again from zero.
    pub fn take_counters(&self) -> Counters {
        let take = |counter: &AtomicU64| counter.swap(0, Ordering::Relaxed);
        Counters {
            events_accepted: take(&self.counters.events_accepted),
            attempts_succeeded: take(&self.counters.attempts_succeeded),
            attempts_failed: take(&self.counters.attempts_failed),
            latency_bins: self.counters.latency_bins.each_ref().map(take),
            latency_total_us: take(&self.counters.latency_total_us),
            not_attempted: self.counters.not_attempted.each_ref().map(take),
            health_writes_dropped: take(&self.counters.health_writes_dropped),
            tickets_not_sent: take(&self.counters.tickets_not_sent),
            posts_over_quota: take(&self.counters.posts_over_quota),
            sent_to_slow_queue: take(&self.counters.sent_to_slow_queue),
            urls_failing: take(&self.counters.urls_failing),
            urls_recovered: take(&self.counters.urls_recovered),
            deliveries_dead: self.repository.take_deaths(),
            events_not_published: take(&self.counters.events_not_published),
        }
    }

    /// How long the first 100 attempts took since this was last asked, in milliseconds.
    pub fn take_latencies_ms(&self) -> Vec<u32> {
        self.counters.latencies.take()
    }

    /// Of the first 1,000 tenants that did anything since the start, if `Settings::count_by_tenant` is on.
    pub fn tenant_counters(&self) -> BTreeMap<Tenant, TenantCounters> {
        self.tenant_totals.all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_is_in_the_first_bin_whose_bound_it_does_not_exceed() {
        let cases =
            [(0, 0), (5_000, 0), (5_001, 1), (10_000, 1), (2_500_000, 8), (5_000_000, 9), (10_000_001, 11)];
        for (micros, expected) in cases {
            assert_eq!(bin_of(Duration::from_micros(micros)), expected, "{micros} us");
        }
    }

    #[test]
    fn latencies_are_bounded_and_start_again_when_they_are_taken() {
        let latencies = Latencies::default();
        for ms in 0..250 {
            latencies.keep(Duration::from_millis(ms));
        }
        assert_eq!(latencies.take(), (0..100).collect::<Vec<u32>>());
        assert_eq!(latencies.take(), [] as [u32; 0]);
        latencies.keep(Duration::from_millis(7));
        assert_eq!(latencies.take(), [7]);
    }

    #[test]
    fn tenants_are_counted_only_if_asked_and_up_to_a_bound() {
        let (off, on) = (TenantTotals::default(), TenantTotals::new(true));
        for round in 0..2 {
            for number in 0..MAX_TENANTS + 5 {
                let tenant: Tenant = format!("t{number}").as_str().into();
                off.count(&tenant, |counters| counters.deliveries_dead += 1);
                on.count(&tenant, |counters| counters.deliveries_dead += 1);
            }
            assert_eq!(on.all().len(), MAX_TENANTS);
            assert!(on.all().values().all(|counters| counters.deliveries_dead == round + 1));
        }
        assert!(off.all().is_empty());
    }
}
