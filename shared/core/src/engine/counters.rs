//! What the engine did since the counters were last taken, for metrics.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Engine;
use crate::rules::shortage::Shortage;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub attempts_succeeded: u64,
    pub attempts_failed: u64,
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
}

#[derive(Default)]
pub(super) struct AtomicCounters {
    attempts_succeeded: AtomicU64,
    attempts_failed: AtomicU64,
    not_attempted: [AtomicU64; Shortage::ALL.len()],
    pub(super) health_writes_dropped: AtomicU64,
    pub(super) tickets_not_sent: AtomicU64,
    pub(super) posts_over_quota: AtomicU64,
    pub(super) sent_to_slow_queue: AtomicU64,
}

impl AtomicCounters {
    pub(super) fn count_attempt(&self, succeeded: bool) {
        let counter = if succeeded { &self.attempts_succeeded } else { &self.attempts_failed };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_not_attempted(&self, shortage: Shortage) {
        self.not_attempted[shortage as usize].fetch_add(1, Ordering::Relaxed);
    }
}

impl Engine {
    /// Starts again from zero.
    pub fn take_counters(&self) -> Counters {
        let take = |counter: &AtomicU64| counter.swap(0, Ordering::Relaxed);
        Counters {
            attempts_succeeded: take(&self.counters.attempts_succeeded),
            attempts_failed: take(&self.counters.attempts_failed),
            not_attempted: self.counters.not_attempted.each_ref().map(take),
            health_writes_dropped: take(&self.counters.health_writes_dropped),
            tickets_not_sent: take(&self.counters.tickets_not_sent),
            posts_over_quota: take(&self.counters.posts_over_quota),
            sent_to_slow_queue: take(&self.counters.sent_to_slow_queue),
        }
    }
}
