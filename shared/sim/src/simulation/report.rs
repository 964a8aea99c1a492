use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

use super::checks::Broken;
use super::story::Story;

/// So many seeds in which everything that can happen should happen.
pub const FULL_RUN: u64 = 1_000;

/// What a run must have seen, so that a check that finds nothing has had something to look at.
const EXPECTED: &[&str] = &[
    "a URL: disabled to enabled",
    "a URL: disabled to frozen",
    "a URL: enabled to disabled",
    "a URL: enabled to frozen",
    "a URL: frozen to enabled",
    "a delivery has expired",
    "a delivery is delivered in the end",
    "a delivery is exhausted",
    "a delivery is inactive",
    "a delivery is released",
    "a delivery is replayed after days",
    "a delivery is unsubscribed",
    "a first attempt is queued again",
    "a function's time is over",
    "a message is done",
    "a message is given back",
    "a message is sent again",
    "a person: activate",
    "a person: deactivate",
    "a person: delete",
    "a person: disable",
    "a person: enable",
    "a person: freeze",
    "a person: move",
    "a person: replay",
    "a person: replay a URL",
    "a probe",
    "a producer asks again",
    "a release becomes faster",
    "a release becomes slower",
    "a release goes back to one",
    "a success after the last attempt was given up",
    "a sweep fails",
    "a ticket: claimed",
    "a ticket: early",
    "a ticket: its attempt was taken twice",
    "a ticket: its delivery has expired",
    "a ticket: its delivery has moved on",
    "a ticket: its delivery is parked",
    "a ticket: the attempt is being made",
    "a ticket: the current one is sent again",
    "an attempt is interrupted",
    "an id is busy",
    "an outcome of an older generation",
    "fault: a batch is written in part",
    "fault: a call fails after its effect",
    "fault: a call fails before its effect",
    "fault: a call is throttled",
    "fault: a call takes minutes",
    "fault: a message is duplicated",
    "fault: a message is late",
    "fault: a process has a shortage",
    "fault: a process is killed",
    "fault: a sweep is missed",
    "fault: a ticket is lost",
    "fault: an index is stale",
    "fault: sweeps overlap",
    "fault: the queues are down for a while",
    "fault: the queues are down for hours",
    "fault: the record of a URL is lost",
    "fault: the store is down for a while",
];

/// A seed in which a promise was broken.
#[derive(Clone, Debug)]
pub struct BrokenSeed {
    pub seed: u64,
    pub broken: Broken,
}

impl fmt::Display for BrokenSeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {}: {}: {}", self.seed, self.broken.promise, self.broken.what)
    }
}

/// Runs seeds on all processors until one breaks a promise, or an assertion of the code. Returns the first of them.
#[must_use]
pub fn find_broken(seeds: Range<u64>) -> Option<BrokenSeed> {
    let (next, end) = (AtomicU64::new(seeds.start), AtomicU64::new(seeds.end));
    let found = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    // Those before the first that was found are run to their end.
                    if seed >= end.load(Ordering::Relaxed) {
                        break;
                    }
                    let outcome = std::panic::catch_unwind(|| super::run(seed, Story::default()).broken);
                    let asserted = || Some(Broken::new("an assertion of the code", String::new()));
                    if let Some(broken) = outcome.unwrap_or_else(|_| asserted()) {
                        end.fetch_min(seed, Ordering::Relaxed);
                        let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                        found.push(BrokenSeed { seed, broken });
                    }
                }
            });
        }
    });
    let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.into_iter().min_by_key(|broken| broken.seed)
}

/// What came of many seeds.
#[derive(Debug, Default)]
pub struct Report {
    pub broken: Vec<BrokenSeed>,
    /// How often everything happened in all of them.
    pub counts: BTreeMap<&'static str, u64>,
}

impl Report {
    /// Runs these seeds on all processors. `progress` is told how many are done.
    #[must_use]
    pub fn of(seeds: Range<u64>, progress: impl Fn(u64) + Sync) -> Report {
        let report = Mutex::new(Report::default());
        let (next, done) = (AtomicU64::new(seeds.start), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
                scope.spawn(|| {
                    loop {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        if seed >= seeds.end {
                            break;
                        }
                        let outcome = super::run(seed, Story::default());
                        let mut report = report.lock().unwrap_or_else(PoisonError::into_inner);
                        report.broken.extend(outcome.broken.map(|broken| BrokenSeed { seed, broken }));
                        for (what, times) in outcome.counts {
                            *report.counts.entry(what).or_default() += times;
                        }
                        drop(report);
                        progress(done.fetch_add(1, Ordering::Relaxed) + 1);
                    }
                });
            }
        });
        let mut report = report.into_inner().unwrap_or_else(PoisonError::into_inner);
        report.broken.sort_by_key(|broken| broken.seed);
        report
    }

    /// What never happened, and should have.
    #[must_use]
    pub fn missing(&self) -> Vec<&'static str> {
        EXPECTED.iter().copied().filter(|what| !self.counts.contains_key(what)).collect()
    }
}
