//! What happened, added up by the minute. These are statistics: nothing is decided by them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::delivery::AttemptOutcome;
use crate::time::Timestamp;

pub const MINUTE: Duration = Duration::from_secs(60);

/// The start of the minute in which this lies.
#[must_use]
pub fn minute_of(at: Timestamp) -> Timestamp {
    let ms = at.as_millis();
    Timestamp::from_millis(ms - ms.rem_euclid(MINUTE.as_millis() as i64))
}

/// What was done in some time, by one engine or by many: counts of several can be added up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Accepted, repeats of an id not among them.
    pub events: u64,
    pub success: u64,
    pub failure: u64,
    pub interrupted: u64,
    /// Of the attempts that came to an end.
    pub latency: Latency,
}

impl Counts {
    pub fn count_attempt(&mut self, outcome: AttemptOutcome, ms: u64) {
        match outcome {
            AttemptOutcome::Success => self.success += 1,
            AttemptOutcome::Failure => self.failure += 1,
            AttemptOutcome::Interrupted => {
                self.interrupted += 1;
                // How long it took is not known.
                return;
            }
        }
        self.latency.count(ms);
    }

    pub fn add(&mut self, other: &Counts) {
        self.events += other.events;
        self.success += other.success;
        self.failure += other.failure;
        self.interrupted += other.interrupted;
        self.latency.add(&other.latency);
    }
}

const BINS: usize = 16;

/// How long attempts took, in bins whose width doubles: 0 ms, 1 ms, 2 to 3 ms, 4 to 7 ms, …, 16,384 ms and more.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latency {
    pub count: u64,
    pub total_ms: u64,
    pub max_ms: u64,
    pub bins: [u64; BINS],
}

/// As it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LatencySummary {
    pub average: u64,
    pub p50: u64,
    pub p95: u64,
    pub max: u64,
}

fn bin_of(ms: u64) -> usize {
    (u64::BITS - ms.leading_zeros()).min(BINS as u32 - 1) as usize
}

fn lower_of(bin: usize) -> u64 {
    if bin == 0 { 0 } else { 1 << (bin - 1) }
}

impl Latency {
    pub fn count(&mut self, ms: u64) {
        self.count += 1;
        self.total_ms = self.total_ms.saturating_add(ms);
        self.max_ms = self.max_ms.max(ms);
        self.bins[bin_of(ms)] += 1;
    }

    pub fn add(&mut self, other: &Latency) {
        self.count += other.count;
        self.total_ms = self.total_ms.saturating_add(other.total_ms);
        self.max_ms = self.max_ms.max(other.max_ms);
        for (bin, more) in self.bins.iter_mut().zip(other.bins) {
            *bin += more;
        }
    }

    /// `None` if nothing was counted.
    #[must_use]
    pub fn summary(&self) -> Option<LatencySummary> {
        let average = self.total_ms.checked_div(self.count)?;
        Some(LatencySummary { average, p50: self.percentile(50), p95: self.percentile(95), max: self.max_ms })
    }

    /// The time within which so many percent of the attempts ended: exact to its bin, and estimated inside of it as if the bin
    /// were filled evenly.
    #[must_use]
    pub fn percentile(&self, percent: u64) -> u64 {
        let mut rank = (self.count * percent).div_ceil(100).max(1);
        for (bin, filled) in self.bins.iter().enumerate() {
            if rank <= *filled {
                let lower = lower_of(bin);
                let end = if bin + 1 < BINS { lower_of(bin + 1) - 1 } else { u64::MAX };
                let width = end.min(self.max_ms).saturating_sub(lower);
                let part = u128::from(width) * u128::from(rank) / u128::from(*filled);
                return lower + u64::try_from(part).unwrap_or(width);
            }
            rank -= filled;
        }
        self.max_ms
    }
}

/// The last `shown` minutes up to the one of `now`, in order and none missing, with what all engines counted in each.
#[must_use]
pub fn by_minute<'a>(
    now: Timestamp,
    shown: u32,
    counted: impl Iterator<Item = (Timestamp, &'a Counts)>,
) -> Vec<(Timestamp, Counts)> {
    let first = first_minute(now, shown);
    let mut minutes: Vec<(Timestamp, Counts)> =
        (0..shown).map(|n| (first + MINUTE * n, Counts::default())).collect();
    for (minute, counts) in counted.filter(|(minute, _)| *minute >= first) {
        let place = minute.since(first).as_millis() / MINUTE.as_millis();
        if let Some((_, sum)) = usize::try_from(place).ok().and_then(|place| minutes.get_mut(place)) {
            sum.add(counts);
        }
    }
    minutes
}

/// Where the last `shown` minutes begin.
#[must_use]
pub fn first_minute(now: Timestamp, shown: u32) -> Timestamp {
    minute_of(now) - MINUTE * shown.saturating_sub(1)
}

/// How often statistics are written: once a second, and a few times at once after a pause, so that where little happens all of
/// it is seen right away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    next_real: Timestamp,
}

const WRITE_EVERY: Duration = Duration::from_secs(1);
const WRITES_AT_ONCE: u32 = 5;

impl Pace {
    /// Whether it may be written now. If so, that counts as done.
    pub fn take(&mut self, now_real: Timestamp) -> bool {
        if self.next_real > now_real + WRITE_EVERY * WRITES_AT_ONCE {
            // The clock was set back.
            self.next_real = now_real;
        }
        if self.next_real > now_real + WRITE_EVERY * (WRITES_AT_ONCE - 1) {
            return false;
        }
        self.next_real = self.next_real.max(now_real) + WRITE_EVERY;
        true
    }
}

#[cfg(test)]
#[path = "activity_tests.rs"]
mod tests;
