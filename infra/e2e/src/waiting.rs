//! The only way to wait: for a condition, with a deadline.

use std::time::Duration;

use anyhow::{Result, bail};
use tokio::time::Instant;

/// Long enough for anything that should happen immediately, on a busy machine.
pub const SOON: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(15);
const MAX_POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Polls until `look` returns a value. Fails on its first error, and when the deadline has passed.
pub async fn until<T>(
    what: &str,
    within: Duration,
    mut look: impl AsyncFnMut() -> Result<Option<T>>,
) -> Result<T> {
    let started = Instant::now();
    let mut ticks = tokio::time::interval(POLL_INTERVAL);
    loop {
        ticks.tick().await;
        let looked = Instant::now();
        if let Some(found) = look().await? {
            return Ok(found);
        }
        if started.elapsed() > within {
            bail!("timed out after {within:?}: {what}");
        }
        // A host that answers slowly is busy, so it is polled less often.
        ticks.reset_after(looked.elapsed().clamp(POLL_INTERVAL, MAX_POLL_INTERVAL));
    }
}
