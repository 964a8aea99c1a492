use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use holdfast_core::engine::{Engine, StateCounts};
use holdfast_core::ports::chain;
use holdfast_core::time::Timestamp;
use tokio::time::timeout;

use crate::deadline::Deadline;

/// A count takes about 110 queries for each tenant, so it is not made with every sweep.
const COUNT_INTERVAL: Duration = Duration::from_secs(5 * 60);
const MAX_TENANTS: usize = 20;
/// A sweep must not take long because of statistics.
const COUNT_TIMEOUT: Duration = Duration::from_secs(10);

/// Counts deliveries and URLs by state, once in a while.
#[derive(Default)]
pub struct StateCounter {
    last_real: Mutex<Option<Timestamp>>,
}

impl StateCounter {
    /// `None`: it is not the time, there is no time, or it failed. Nothing depends on it.
    pub async fn count(&self, engine: &Engine, deadline: Deadline) -> Option<StateCounts> {
        let left = deadline.until_work_ends(engine.clock()).min(COUNT_TIMEOUT);
        if left.is_zero() {
            return None;
        }
        let now = engine.clock().now_real();
        {
            let mut last = self.last_real.lock().unwrap_or_else(PoisonError::into_inner);
            if last.is_some_and(|last| (last..last + COUNT_INTERVAL).contains(&now)) {
                return None;
            }
            *last = Some(now);
        }
        match timeout(left, engine.count_states(&[], MAX_TENANTS)).await {
            Ok(Ok(counts)) => Some(counts),
            Ok(Err(error)) => {
                tracing::warn!(error = chain(&error), "states.not_counted");
                None
            }
            Err(_) => {
                tracing::warn!("states.count_late");
                None
            }
        }
    }
}
