use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use holdfast_core::ports::Clock;
use holdfast_core::records::Now;
use holdfast_core::time::Timestamp;

/// Time that passes only when told to.
pub struct VirtualClock {
    now: Mutex<Now>,
    /// How many seconds of the schedule pass in one real second.
    speed: u32,
}

impl VirtualClock {
    #[must_use]
    pub fn new(start: Timestamp) -> VirtualClock {
        VirtualClock::with_speed(start, 1)
    }

    /// A clock whose schedule runs `speed` times as fast as real time.
    #[must_use]
    pub fn with_speed(start: Timestamp, speed: u32) -> VirtualClock {
        VirtualClock { now: Mutex::new(Now { schedule: start, real: start }), speed }
    }

    /// Lets `real` time pass.
    pub fn advance(&self, real: Duration) {
        let mut now = self.lock();
        now.real = now.real + real;
        now.schedule = now.schedule + real * self.speed;
    }

    /// Lets at least this much time of the schedule pass.
    pub fn advance_schedule(&self, schedule: Duration) {
        let nanos = schedule.as_nanos().div_ceil(u128::from(self.speed));
        // Whole milliseconds, as timestamps have them.
        self.advance(Duration::from_millis(u64::try_from(nanos.div_ceil(1_000_000)).unwrap_or(u64::MAX)));
    }

    fn lock(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        self.lock().schedule
    }

    fn now_real(&self) -> Timestamp {
        self.lock().real
    }

    fn stretch(&self, real: Duration) -> Duration {
        real * self.speed
    }

    fn both(&self) -> Now {
        *self.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schedule_may_run_faster() {
        let clock = VirtualClock::with_speed(Timestamp::ZERO, 60);
        clock.advance(Duration::from_secs(2));
        assert_eq!(clock.now_real(), Timestamp::from_millis(2_000));
        assert_eq!(clock.now(), Timestamp::from_millis(120_000));
    }
}
