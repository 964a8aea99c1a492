use std::time::Duration;

use crate::time::{Now, Timestamp};

/// Two clocks. The schedule's clock drives due times, probes, expiry and what the API shows, and may run faster in
/// development. The real one drives leases and visibility. Neither jumps while a host that is alone runs.
pub trait Clock: Send + Sync {
    fn now(&self) -> Timestamp;

    fn now_real(&self) -> Timestamp;

    /// What the machine's clock shows, for what others compare with theirs: `webhook-timestamp`, the lives of keys and secrets, and dates in
    /// headers. It may jump.
    fn wall(&self) -> Timestamp {
        self.now_real()
    }

    /// How long a real duration is on the schedule's clock.
    fn to_schedule(&self, real: Duration) -> Duration;

    fn both(&self) -> Now {
        Now { schedule: self.now(), real: self.now_real() }
    }
}

/// Randomness for ids and secrets.
pub trait Entropy: Send + Sync {
    fn fill(&self, bytes: &mut [u8]);
}
