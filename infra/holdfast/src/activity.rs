//! Stores the activity counts, every second.

use std::sync::Arc;
use std::time::Duration;

use holdfast_core::engine::Engine;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

const FLUSH_INTERVAL: Duration = Duration::from_secs(1);

/// Runs until it is stopped. The host flushes the rest once all work has ended.
pub(crate) async fn flush(engine: Arc<Engine>, mut stop: watch::Receiver<bool>) {
    let mut ticks = tokio::time::interval(FLUSH_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => return,
            _ = ticks.tick() => {}
        }
        engine.flush_activity(false).await;
    }
}
