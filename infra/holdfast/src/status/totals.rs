use std::collections::VecDeque;
use std::time::Duration;

use holdfast_core::engine::Counters;
use holdfast_core::rules::shortage::Shortage;
use holdfast_core::time::Timestamp;

const RECENT: Duration = Duration::from_secs(60);

type ByShortage = [u64; Shortage::ALL.len()];

/// The engine's counters since the start.
#[derive(Default)]
pub(super) struct Totals {
    counters: Counters,
    /// Attempts that a shortage prevented, by second: at most one entry for each second of the last minute.
    recent: VecDeque<(i64, ByShortage)>,
}

impl Totals {
    pub(super) fn counters(&self) -> &Counters {
        &self.counters
    }

    pub(super) fn add(&mut self, new: &Counters, now: Timestamp) {
        // Names every field, so that a new counter cannot be forgotten here.
        let Counters {
            events_accepted,
            attempts_succeeded,
            attempts_failed,
            latency_bins,
            latency_total_us,
            not_attempted,
            health_writes_dropped,
            tickets_not_sent,
            posts_over_quota,
            // One machine has no such queue.
            sent_to_slow_queue: _,
            urls_failing,
            urls_recovered,
            deliveries_dead,
            // One machine has no such feed.
            events_not_published: _,
        } = new;
        self.counters.events_accepted += events_accepted;
        self.counters.attempts_succeeded += attempts_succeeded;
        self.counters.attempts_failed += attempts_failed;
        add_each(&mut self.counters.latency_bins, latency_bins);
        self.counters.latency_total_us += latency_total_us;
        add_each(&mut self.counters.not_attempted, not_attempted);
        self.counters.health_writes_dropped += health_writes_dropped;
        self.counters.tickets_not_sent += tickets_not_sent;
        self.counters.posts_over_quota += posts_over_quota;
        self.counters.urls_failing += urls_failing;
        self.counters.urls_recovered += urls_recovered;
        self.counters.deliveries_dead += deliveries_dead;
        self.forget_old(now);
        if not_attempted.iter().any(|count| *count > 0) {
            match self.recent.back_mut() {
                Some((second, counts)) if *second == now.as_secs() => add_each(counts, not_attempted),
                _ => self.recent.push_back((now.as_secs(), *not_attempted)),
            }
        }
    }

    pub(super) fn shortages_in_last_minute(&mut self, now: Timestamp) -> ByShortage {
        self.forget_old(now);
        let mut sum = ByShortage::default();
        self.recent.iter().for_each(|(_, counts)| add_each(&mut sum, counts));
        sum
    }

    fn forget_old(&mut self, now: Timestamp) {
        let first = (now - RECENT).as_secs();
        // What lies in the future is from before the clock was set back.
        self.recent.retain(|(second, _)| (first..=now.as_secs()).contains(second));
    }
}

fn add_each(sum: &mut [u64], new: &[u64]) {
    sum.iter_mut().zip(new).for_each(|(sum, new)| *sum += new);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_millis(second * 1_000)
    }

    #[test]
    fn totals_grow_and_shortages_are_forgotten_after_a_minute() {
        let mut totals = Totals::default();
        let one =
            Counters { attempts_succeeded: 2, not_attempted: [1, 0, 0, 3, 0, 0], ..Counters::default() };
        for second in [1_000, 1_000, 1_030] {
            totals.add(&one, at(second));
        }
        assert_eq!(totals.recent.len(), 2, "one entry for each second");
        assert_eq!(totals.shortages_in_last_minute(at(1_030)), [3, 0, 0, 9, 0, 0]);
        assert_eq!(totals.shortages_in_last_minute(at(1_075)), [1, 0, 0, 3, 0, 0]);
        assert_eq!(totals.shortages_in_last_minute(at(1_100)), [0; 6]);
        assert_eq!(totals.counters().attempts_succeeded, 6);
        assert_eq!(totals.counters().not_attempted, [3, 0, 0, 9, 0, 0]);
        totals.add(&one, at(2_000));
        assert_eq!(totals.shortages_in_last_minute(at(1_500)), [0; 6], "the clock was set back");
    }
}
