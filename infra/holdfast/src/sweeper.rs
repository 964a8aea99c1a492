//! Runs the sweep every minute of the schedule clock, and removes old records.

use std::sync::Arc;
use std::time::Duration;

use holdfast_core::engine::Engine;
use holdfast_core::ports::Clock;
use holdfast_core::ports::chain;
use holdfast_embedded::Embedded;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

const SWEEP_INTERVAL: Duration = Duration::from_secs(60);
/// At high speeds, the machine must have time for other work.
const MIN_SWEEP_INTERVAL: Duration = Duration::from_millis(5);
const PURGE_INTERVAL: Duration = Duration::from_secs(30);
const MAX_PURGED: usize = 2_000;

pub(crate) async fn sweep(engine: Arc<Engine>, speed: u32, mut stop: watch::Receiver<bool>) {
    let mut ticks = tokio::time::interval((SWEEP_INTERVAL / speed).max(MIN_SWEEP_INTERVAL));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => return,
            _ = ticks.tick() => {}
        }
        match engine.sweep().await {
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
    let mut ticks = tokio::time::interval(PURGE_INTERVAL);
    loop {
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => return,
            _ = ticks.tick() => {}
        }
        match embedded.purge(clock.now(), MAX_PURGED).await {
            Ok(removed) if removed >= MAX_PURGED => ticks.reset_immediately(),
            Ok(_) => {}
            Err(error) => tracing::error!(error = chain(&error), "old records could not be removed"),
        }
    }
}
