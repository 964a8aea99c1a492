//! What came of an attack.

use std::time::Duration;

use anyhow::Result;

use super::arena::{Arena, Bound};
use super::victim::Sample;

/// Median, 99th percentile and maximum.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spread<T> {
    pub median: T,
    pub p99: T,
    pub max: T,
}

impl<T: Copy + Default + Ord> Spread<T> {
    fn of(values: impl Iterator<Item = T>) -> Spread<T> {
        let mut values: Vec<T> = values.collect();
        values.sort_unstable();
        let at = |percent: usize| {
            let index = (values.len() * percent / 100).min(values.len().saturating_sub(1));
            values.get(index).copied().unwrap_or_default()
        };
        Spread { median: at(50), p99: at(99), max: at(100) }
    }
}

#[derive(Debug)]
pub struct Outcome {
    pub name: &'static str,
    alone: Vec<Sample>,
    beside: Vec<Sample>,
    /// Peak memory of the server.
    pub memory_mb: u64,
    pub counts: Vec<String>,
    /// Empty if the victim did not notice the attacker.
    pub faults: Vec<String>,
}

impl Outcome {
    pub(super) fn of(name: &'static str, arena: Arena, max_memory_mb: u64) -> Result<Outcome> {
        let bound = Bound::of(arena.server.settings().slots, arena.attackers);
        let memory_mb = arena.peak_memory_mb()?;
        let Arena { alone, beside, counts, faults, .. } = arena;
        let mut outcome = Outcome { name, alone, beside, memory_mb, counts, faults };
        for (what, spread) in [("started", outcome.started()), ("ended", outcome.ended())] {
            if spread.median > bound.median || spread.max > bound.max {
                outcome.faults.push(format!(
                    "attempts of the attacker that {what} between a 202 and the arrival: median {}, maximum {}; at most {} and {}",
                    spread.median, spread.max, bound.median, bound.max
                ));
            }
        }
        if memory_mb > max_memory_mb {
            outcome.faults.push(format!("memory: {memory_mb} MB, at most {max_memory_mb}"));
        }
        Ok(outcome)
    }

    /// Adds another run of the same attack.
    pub fn add(&mut self, other: Outcome) {
        self.alone.extend(other.alone);
        self.beside.extend(other.beside);
        self.memory_mb = self.memory_mb.max(other.memory_mb);
        self.counts.extend(other.counts);
        self.faults.extend(other.faults);
    }

    /// The victim's latency without the attacker.
    #[must_use]
    pub fn alone(&self) -> Spread<Duration> {
        Spread::of(self.alone.iter().map(|sample| sample.latency))
    }

    /// The victim's latency beside the attacker.
    #[must_use]
    pub fn beside(&self) -> Spread<Duration> {
        Spread::of(self.beside.iter().map(|sample| sample.latency))
    }

    /// How many of the attacker's attempts started between a 202 and the arrival of the victim.
    #[must_use]
    pub fn started(&self) -> Spread<u64> {
        Spread::of(self.beside.iter().map(|sample| sample.attacker.started))
    }

    /// How many of them ended.
    #[must_use]
    pub fn ended(&self) -> Spread<u64> {
        Spread::of(self.beside.iter().map(|sample| sample.attacker.ended))
    }

    /// A line of the table that begins with [`Outcome::HEADING`].
    #[must_use]
    pub fn row(&self) -> String {
        let (alone, beside, started, ended) = (self.alone(), self.beside(), self.started(), self.ended());
        format!(
            "{:<17} {:>6} {:>6} {:>17} {:>17} {:>9} {:>9} {:>7}  {}",
            self.name,
            ratio(alone.median, beside.median),
            ratio(alone.p99, beside.p99),
            pair(alone.median, beside.median),
            pair(alone.p99, beside.p99),
            format!("{}/{}", started.median, started.max),
            format!("{}/{}", ended.median, ended.max),
            self.memory_mb,
            self.counts.join("; ")
        )
    }

    pub const HEADING: &'static str = "attack            p50 ×  p99 ×   p50 ms w/o→with   p99 ms w/o→with    starts      ends      MB  \
        counts (starts, ends: the attacker's, between a 202 and the arrival, median/max)";
}

fn ratio(alone: Duration, beside: Duration) -> String {
    format!("{:.1}", beside.as_secs_f64() / alone.as_secs_f64().max(1e-6))
}

fn pair(alone: Duration, beside: Duration) -> String {
    format!("{:.1}→{:.1}", alone.as_secs_f64() * 1e3, beside.as_secs_f64() * 1e3)
}
