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
    pub alone: Spread<Duration>,
    pub beside: Spread<Duration>,
    /// The attacker's attempts that started between a 202 and the arrival of the victim.
    pub started: Spread<u64>,
    /// Those that ended.
    pub ended: Spread<u64>,
    pub memory_mb: u64,
    pub counts: Vec<String>,
    /// Empty if the victim did not notice the attacker.
    pub faults: Vec<String>,
}

impl Outcome {
    pub(super) fn of(name: &'static str, arena: Arena, bound: Bound, max_memory_mb: u64) -> Result<Outcome> {
        let latencies = |samples: &[Sample]| Spread::of(samples.iter().map(|sample| sample.latency));
        let mut outcome = Outcome {
            name,
            alone: latencies(&arena.alone),
            beside: latencies(&arena.beside),
            started: Spread::of(arena.beside.iter().map(|sample| sample.attacker.started)),
            ended: Spread::of(arena.beside.iter().map(|sample| sample.attacker.ended)),
            memory_mb: arena.peak_memory_mb()?,
            counts: arena.counts,
            faults: arena.faults,
        };
        for (what, spread) in [("started", outcome.started), ("ended", outcome.ended)] {
            if spread.median > bound.median || spread.max > bound.max {
                outcome.faults.push(format!(
                    "attempts of the attacker that {what} between a 202 and the arrival: median {}, maximum {}; at most {} and {}",
                    spread.median, spread.max, bound.median, bound.max
                ));
            }
        }
        if outcome.memory_mb > max_memory_mb {
            outcome.faults.push(format!("memory: {} MB, at most {max_memory_mb}", outcome.memory_mb));
        }
        Ok(outcome)
    }

    /// One line of text, without the faults.
    #[must_use]
    pub fn summary(&self) -> String {
        let Outcome { name, alone, beside, started, ended, memory_mb, counts, .. } = self;
        format!(
            "{name}: p50 {} → {}, p99 {} → {}; attacker's starts {}/{}, ends {}/{} (median/max); {memory_mb} MB; {}",
            ms(alone.median),
            ms(beside.median),
            ms(alone.p99),
            ms(beside.p99),
            started.median,
            started.max,
            ended.median,
            ended.max,
            counts.join("; ")
        )
    }
}

fn ms(duration: Duration) -> String {
    format!("{:.1} ms", duration.as_secs_f64() * 1e3)
}
