use std::time::Duration;

use holdfast_core::engine::Engine;
use tokio::time::timeout;

/// Statistics must not hold up the response for long.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(500);

/// Writes the engine's statistics at the end of an invocation: Lambda freezes the function in between.
pub async fn flush_activity(engine: &Engine) {
    if timeout(FLUSH_TIMEOUT, engine.flush_activity(false)).await.is_err() {
        tracing::warn!("activity.late");
    }
}
