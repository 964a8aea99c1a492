//! Work at intervals: runs the sweep every minute of the schedule clock, removes old records, stores the
//! activity counts, and checks everything stored for damage once a day.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use holdfast_core::engine::Engine;
use holdfast_core::ports::{Clock, chain};
use holdfast_embedded::{CheckCursor, CheckStep, Embedded};
use tokio::sync::watch;
use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::status::Status;

const SWEEP_INTERVAL: Duration = Duration::from_secs(60);
/// At high speeds, the machine must have time for other work.
const MIN_SWEEP_INTERVAL: Duration = Duration::from_millis(5);
const PURGE_INTERVAL: Duration = Duration::from_secs(30);
const MAX_PURGED: usize = 2_000;
const FLUSH_INTERVAL: Duration = Duration::from_secs(1);
const COLLECT_INTERVAL: Duration = Duration::from_secs(5);
const COUNT_INTERVAL: Duration = Duration::from_secs(30);
const CHECK_INTERVAL: Duration = Duration::from_secs(86_400);
/// With steps of this size and interval, the check takes about one percent of one core, and a day is enough for 100 million rows.
const CHECK_STEP_INTERVAL: Duration = Duration::from_millis(100);
const MAX_CHECKED: usize = 128;
/// Limits what is remembered of a file that is damaged all over.
const MAX_REPORTED: usize = 10_000;

pub(crate) async fn sweep(
    engine: Arc<Engine>,
    status: Arc<Status>,
    speed: u32,
    mut stop: watch::Receiver<bool>,
) {
    let mut ticks = interval((SWEEP_INTERVAL / speed).max(MIN_SWEEP_INTERVAL));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while tick(&mut ticks, &mut stop).await {
        let swept = engine.sweep().await;
        if swept.is_ok() {
            status.swept();
        }
        match swept {
            Ok(report) if report.looked_at > 0 => {
                let oldest_overdue_ms = report.oldest_overdue.as_millis() as u64;
                tracing::debug!(looked_at = report.looked_at, oldest_overdue_ms, "sweep");
                if report.more {
                    ticks.reset_immediately();
                }
            }
            Ok(_) => {}
            Err(error) => tracing::error!(error = chain(&error), "the sweep failed; the next one continues"),
        }
    }
}

pub(crate) async fn purge(embedded: Arc<Embedded>, clock: Arc<dyn Clock>, mut stop: watch::Receiver<bool>) {
    let mut ticks = interval(PURGE_INTERVAL);
    while tick(&mut ticks, &mut stop).await {
        match embedded.purge(clock.now(), MAX_PURGED).await {
            Ok(removed) if removed >= MAX_PURGED => ticks.reset_immediately(),
            Ok(_) => {}
            Err(error) => tracing::error!(error = chain(&error), "old records could not be removed"),
        }
    }
}

/// The host flushes the rest once all work has ended.
pub(crate) async fn flush_activity(engine: Arc<Engine>, mut stop: watch::Receiver<bool>) {
    let mut ticks = interval(FLUSH_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while tick(&mut ticks, &mut stop).await {
        engine.flush_activity(false).await;
    }
}

/// Often enough for "in the last minute". The counters start again from zero, so only this host takes them.
pub(crate) async fn collect_counters(status: Arc<Status>, mut stop: watch::Receiver<bool>) {
    let mut ticks = interval(COLLECT_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while tick(&mut ticks, &mut stop).await {
        status.collect();
    }
}

/// For the metrics, which must not read the store themselves: the call is public.
pub(crate) async fn count_states(status: Arc<Status>, mut stop: watch::Receiver<bool>) {
    let mut ticks = interval(COUNT_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while tick(&mut ticks, &mut stop).await {
        status.count_states().await;
    }
}

/// Reads everything at the start and then once a day, and logs each damaged row once.
pub(crate) async fn check(embedded: Arc<Embedded>, mut stop: watch::Receiver<bool>) {
    let mut reported = HashSet::new();
    let mut passes = interval(CHECK_INTERVAL);
    passes.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while tick(&mut passes, &mut stop).await {
        let mut steps = interval(CHECK_STEP_INTERVAL);
        steps.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut cursor = Some(CheckCursor::START);
        while let Some(after) = cursor
            && tick(&mut steps, &mut stop).await
        {
            cursor = match embedded.check_step(after, MAX_CHECKED).await {
                Ok(CheckStep { damaged, next, .. }) => {
                    report(&mut reported, damaged);
                    next
                }
                Err(error) => {
                    tracing::error!(
                        error = chain(&error),
                        "the check for damage failed; the next one is in a day"
                    );
                    None
                }
            };
        }
    }
}

fn report(reported: &mut HashSet<String>, damaged: Vec<String>) {
    for row in damaged {
        if reported.len() < MAX_REPORTED && !reported.contains(&row) {
            tracing::error!(row, "stored data is damaged");
            reported.insert(row);
        }
    }
}

/// Waits for the next tick. Returns `false` once the host stops.
async fn tick(ticks: &mut Interval, stop: &mut watch::Receiver<bool>) -> bool {
    tokio::select! {
        biased;
        _ = stop.wait_for(|stop| *stop) => false,
        _ = ticks.tick() => true,
    }
}
