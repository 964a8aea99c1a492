//! Runs the sweep every minute of the schedule's clock, and removes what is past its time.

use std::sync::Arc;
use std::time::Duration;

use holdfast_core::engine::Engine;
use holdfast_core::ports::Clock;
use holdfast_embedded::Embedded;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

const SWEEP_EVERY: Duration = Duration::from_secs(60);
/// However fast the schedule runs, the machine has other work too.
const MIN_PAUSE: Duration = Duration::from_millis(5);
const PURGE_EVERY: Duration = Duration::from_secs(30);
const MAX_PURGED: usize = 2_000;

pub(crate) async fn sweep(engine: Arc<Engine>, speed: u32, mut stop: watch::Receiver<bool>) {
    let mut ticks = tokio::time::interval((SWEEP_EVERY / speed).max(MIN_PAUSE));
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
            Err(error) => tracing::error!(%error, "a sweep failed; the next one goes on"),
        }
    }
}

pub(crate) async fn purge(embedded: Arc<Embedded>, clock: Arc<dyn Clock>, mut stop: watch::Receiver<bool>) {
    let mut ticks = tokio::time::interval(PURGE_EVERY);
    loop {
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => return,
            _ = ticks.tick() => {}
        }
        match embedded.purge(clock.now(), MAX_PURGED).await {
            Ok(removed) if removed >= MAX_PURGED => ticks.reset_immediately(),
            Ok(_) => {}
            Err(error) => {
                tracing::error!(%error, "old deliveries could not be removed; the next try goes on")
            }
        }
    }
}
