use std::time::Duration;

use holdfast_core::usecases::Engine;
use tokio::time::timeout;

/// Whoever waits for a function must not wait long for its statistics.
const LONGEST_FLUSH: Duration = Duration::from_millis(500);

/// Writes what the engine counted, at the end of an invocation: between invocations a function stands still.
pub async fn flush_activity(engine: &Engine) {
    if timeout(LONGEST_FLUSH, engine.flush_activity(false)).await.is_err() {
        tracing::warn!("activity.late");
    }
}
