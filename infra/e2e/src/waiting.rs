//! The one way to wait.

use std::time::Duration;

use anyhow::{Result, bail};
use tokio::time::Instant;

/// Long enough for anything that should happen at once, on a machine that is busy with other things.
pub const SOON: Duration = Duration::from_secs(30);
const BETWEEN_LOOKS: Duration = Duration::from_millis(15);
const MAX_PAUSE: Duration = Duration::from_millis(500);

/// Looks again and again until there is an answer. An error ends the wait; so does the deadline, saying what was awaited.
pub async fn until<T>(
    what: &str,
    within: Duration,
    mut look: impl AsyncFnMut() -> Result<Option<T>>,
) -> Result<T> {
    let began = Instant::now();
    let mut ticks = tokio::time::interval(BETWEEN_LOOKS);
    loop {
        ticks.tick().await;
        let looked = Instant::now();
        if let Some(found) = look().await? {
            return Ok(found);
        }
        if began.elapsed() > within {
            bail!("{what}: not so within {within:?}");
        }
        // A host that answers slowly is busy: looking again at once would keep it so.
        ticks.reset_after(looked.elapsed().clamp(BETWEEN_LOOKS, MAX_PAUSE));
    }
}
