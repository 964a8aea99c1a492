use std::sync::Arc;
use std::time::Duration;

use holdfast_core::ports::{Clock, chain};
use holdfast_core::time::Timestamp;
use holdfast_embedded::Embedded;
use tokio::sync::Mutex;
use tokio::time::timeout;

/// The call is public, so it must not make the disk busy.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);
/// Longer than writes wait for others under load: a slow store is no reason to take the host out of service, one that hangs is.
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);

/// Whether the store can write, by a real write at most once in a while.
pub(super) struct Writable {
    embedded: Arc<Embedded>,
    clock: Arc<dyn Clock>,
    /// When the last write ended, and whether it succeeded.
    last: Mutex<Option<(Timestamp, bool)>>,
}

impl Writable {
    pub(super) fn new(embedded: Arc<Embedded>, clock: Arc<dyn Clock>) -> Writable {
        Writable { embedded, clock, last: Mutex::default() }
    }

    pub(super) async fn check(self: &Arc<Self>) -> bool {
        let this = Arc::clone(self);
        // On its own task: a client that disconnects must not make the next one write again.
        tokio::spawn(async move { this.probe().await }).await.unwrap_or(false)
    }

    async fn probe(&self) -> bool {
        let mut last = self.last.lock().await;
        let now = self.clock.now_real();
        if let Some((at, result)) = *last
            && (at..at + PROBE_INTERVAL).contains(&now)
        {
            return result;
        }
        let result = match timeout(PROBE_TIMEOUT, self.embedded.probe_write()).await {
            Ok(Ok(())) => true,
            Ok(Err(error)) => {
                tracing::error!(error = chain(&error), "not ready: the store cannot write");
                false
            }
            Err(_) => {
                tracing::error!("not ready: the store did not write within {} s", PROBE_TIMEOUT.as_secs());
                false
            }
        };
        *last = Some((self.clock.now_real(), result));
        result
    }
}

#[cfg(test)]
mod tests {
    use holdfast_embedded::Options;
    use holdfast_host::MachineClock;

    use super::*;

    #[tokio::test]
    async fn a_store_whose_writing_thread_has_ended_is_not_writable() {
        let folder = tempfile::tempdir().unwrap();
        let clock: Arc<dyn Clock> = Arc::new(MachineClock::new(1));
        let embedded =
            Arc::new(Embedded::open(folder.path(), Arc::clone(&clock), Options::default()).unwrap());
        let check = async || {
            // A new one each time: the last answer counts for a while.
            Writable::check(&Arc::new(Writable::new(Arc::clone(&embedded), Arc::clone(&clock)))).await
        };
        assert!(check().await);
        embedded.close();
        assert!(!check().await);
    }
}
