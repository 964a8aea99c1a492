use std::time::Duration;

use holdfast_core::engine::Engine;
use tokio::time::timeout;

/// Whoever waits for a function must not wait long for its statistics.
const MAX_FLUSH: Duration = Duration::from_millis(500);

/// Writes what the engine counted, at the end of an invocation: between invocations a function stands still.
pub async fn flush_activity(engine: &Engine) {
    if timeout(MAX_FLUSH, engine.flush_activity(false)).await.is_err() {
        tracing::warn!("activity.late");
    }
}
