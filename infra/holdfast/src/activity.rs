//! Writes down what happened, every second.

use std::sync::Arc;
use std::time::Duration;

use holdfast_core::engine::Engine;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

const FLUSH_EVERY: Duration = Duration::from_secs(1);

/// Until told to stop. Whoever stops it writes the rest, once nothing happens any more.
pub(crate) async fn flush(engine: Arc<Engine>, mut stop: watch::Receiver<bool>) {
    let mut ticks = tokio::time::interval(FLUSH_EVERY);
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
