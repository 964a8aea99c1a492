//! The machine's clock, and the schedule's clock made from it.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use holdfast_core::ports::Clock;
use holdfast_core::time::{Now, Timestamp};

/// Where a scaled clock and the real one agree: 2026-01-01T00:00:00Z. Fixed, so that all functions agree on the schedule's time
/// without asking each other.
const ANCHOR: Timestamp = Timestamp::from_millis(1_767_225_600_000);

/// Real time, and the schedule's time, which runs `scale` times as fast. Neither goes back within a process, even when somebody
/// sets the machine's clock back.
pub struct MachineClock {
    scale: u32,
    latest_ms: AtomicI64,
}

impl MachineClock {
    #[must_use]
    pub fn new(scale: u32) -> MachineClock {
        MachineClock { scale, latest_ms: AtomicI64::new(0) }
    }

    /// The later of this reading and all readings before.
    fn not_back(&self, read: Timestamp) -> Timestamp {
        let latest = self.latest_ms.fetch_max(read.as_millis(), Ordering::Relaxed);
        read.max(Timestamp::from_millis(latest))
    }

    fn schedule_at(&self, real: Timestamp) -> Timestamp {
        if self.scale == 1 { real } else { ANCHOR + real.since(ANCHOR) * self.scale }
    }
}

fn machine_time() -> Timestamp {
    #[expect(clippy::disallowed_methods, reason = "the one place where the machine's clock is read")]
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::ZERO + since_epoch
}

impl Clock for MachineClock {
    fn now(&self) -> Timestamp {
        self.schedule_at(self.now_real())
    }

    fn now_real(&self) -> Timestamp {
        self.not_back(machine_time())
    }

    fn to_schedule(&self, real: Duration) -> Duration {
        real * self.scale
    }

    fn both(&self) -> Now {
        let real = self.now_real();
        Now { schedule: self.schedule_at(real), real }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        Timestamp::parse(text).unwrap()
    }

    #[test]
    fn a_scaled_clock_runs_from_the_fixed_anchor() {
        let clock = MachineClock::new(3_600);
        assert_eq!(clock.schedule_at(at("2026-01-01T00:00:00Z")), at("2026-01-01T00:00:00Z"));
        assert_eq!(clock.schedule_at(at("2026-01-01T00:00:24Z")), at("2026-01-02T00:00:00Z"));
        assert_eq!(clock.to_schedule(Duration::from_secs(2)), Duration::from_secs(7_200));
        assert_eq!(
            MachineClock::new(3_600).schedule_at(at("2026-01-01T00:00:24Z")),
            at("2026-01-02T00:00:00Z")
        );
    }

    #[test]
    fn an_unscaled_clock_is_the_real_one_also_before_the_anchor() {
        let clock = MachineClock::new(1);
        for time in ["2025-06-01T12:00:00Z", "2026-11-16T06:00:00.123Z"] {
            assert_eq!(clock.schedule_at(at(time)), at(time));
        }
        let now = clock.both();
        assert_eq!(now.schedule, now.real);
        assert!(now.real > at("2026-01-01T00:00:00Z"), "the machine's clock is read");
    }

    #[test]
    fn never_goes_back() {
        let clock = MachineClock::new(1);
        let later = at("2026-05-05T05:05:05Z");
        assert_eq!(clock.not_back(later), later);
        assert_eq!(clock.not_back(later - Duration::from_secs(3_600)), later);
        assert_eq!(clock.not_back(later + Duration::from_millis(1)), later + Duration::from_millis(1));
    }
}
