use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use holdfast_core::ports::Clock;
use holdfast_core::rules::steady_time::SteadyTime;
use holdfast_core::time::{Now, Timestamp};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// The schedule clock of hosts that share no state agrees with the real clock here: 2026-01-01T00:00:00Z.
const SHARED_START: Timestamp = Timestamp::from_millis(1_767_225_600_000);

/// Returns the real time. Everything else takes time from a [`Clock`].
#[must_use]
pub fn machine_time() -> Timestamp {
    #[expect(clippy::disallowed_methods, reason = "the one place where the machine's clock is read")]
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::ZERO + since_epoch
}

/// How long the machine has been on, with the time that it was asleep.
fn since_boot() -> Duration {
    #[cfg(target_os = "linux")]
    let clock = ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    let clock = ClockId::Monotonic;
    Duration::try_from(clock_gettime(clock)).unwrap_or_default()
}

/// The schedule clock at one moment of the real clock, and how fast it runs from there. A host that may change the speed stores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Anchor {
    pub schedule: Timestamp,
    pub real: Timestamp,
    pub speed: u32,
}

impl Anchor {
    #[must_use]
    pub fn schedule_at(&self, real: Timestamp) -> Timestamp {
        self.schedule + real.since(self.real) * self.speed
    }

    /// Changes the speed at `real`, from the schedule time reached by then.
    #[must_use]
    pub fn with_speed(&self, speed: u32, real: Timestamp) -> Anchor {
        Anchor { schedule: self.schedule_at(real), real, speed }
    }

    /// Whether schedule time is real time.
    #[must_use]
    pub fn is_real(&self) -> bool {
        self.schedule == self.real && self.speed == 1
    }
}

/// The machine's clock, and a schedule clock derived from it, which may run faster.
pub struct MachineClock {
    anchor: Anchor,
    /// For a host that is alone: a machine's clock that is set must not stop it or make everything due. Hosts that share state have only
    /// their machines' clocks in common.
    steady: Option<Mutex<SteadyTime>>,
    /// The schedule clock never goes back, even when the machine's clock is set back.
    latest_ms: AtomicI64,
}

impl MachineClock {
    /// Every clock of the same speed shows the same schedule time, on every machine.
    #[must_use]
    pub fn new(speed: u32) -> MachineClock {
        let start = if speed == 1 { Timestamp::ZERO } else { SHARED_START };
        MachineClock::anchored(Anchor { schedule: start, real: start, speed })
    }

    #[must_use]
    pub fn anchored(anchor: Anchor) -> MachineClock {
        MachineClock { anchor, steady: None, latest_ms: AtomicI64::new(0) }
    }

    /// From now on it does not jump, and follows the machine's clock slowly when that is set.
    #[must_use]
    pub fn steadily(self) -> MachineClock {
        let steady = SteadyTime::new(machine_time(), since_boot());
        MachineClock { steady: Some(Mutex::new(steady)), ..self }
    }

    fn real(&self) -> Timestamp {
        let Some(steady) = &self.steady else { return machine_time() };
        // No change can panic halfway, so the data behind a poisoned lock is consistent.
        let mut steady = steady.lock().unwrap_or_else(PoisonError::into_inner);
        let (now, jump) = steady.read(machine_time(), since_boot());
        drop(steady);
        if let Some(jump) = jump {
            tracing::warn!(by_ms = jump.by_ms, "the machine's clock was set; the schedule follows it slowly");
        }
        now
    }

    #[must_use]
    pub fn anchor(&self) -> Anchor {
        self.anchor
    }

    fn schedule_at(&self, real: Timestamp) -> Timestamp {
        let schedule = self.anchor.schedule_at(real);
        let latest = self.latest_ms.fetch_max(schedule.as_millis(), Ordering::Relaxed);
        schedule.max(Timestamp::from_millis(latest))
    }
}

impl Clock for MachineClock {
    fn now(&self) -> Timestamp {
        self.schedule_at(self.real())
    }

    fn now_real(&self) -> Timestamp {
        self.real()
    }

    fn wall(&self) -> Timestamp {
        machine_time()
    }

    fn to_schedule(&self, real: Duration) -> Duration {
        real * self.anchor.speed
    }

    fn both(&self) -> Now {
        let real = self.real();
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
    fn scaled_clocks_start_at_the_same_time() {
        for _ in 0..2 {
            let clock = MachineClock::new(3_600);
            assert_eq!(clock.schedule_at(at("2026-01-01T00:00:00Z")), at("2026-01-01T00:00:00Z"));
            assert_eq!(clock.schedule_at(at("2026-01-01T00:00:24Z")), at("2026-01-02T00:00:00Z"));
            assert_eq!(clock.to_schedule(Duration::from_secs(2)), Duration::from_secs(7_200));
        }
    }

    #[test]
    fn an_unscaled_clock_is_the_real_one_also_before_the_shared_start() {
        let clock = MachineClock::new(1);
        for time in ["2025-06-01T12:00:00Z", "2026-11-16T06:00:00.123Z"] {
            assert_eq!(clock.schedule_at(at(time)), at(time));
        }
        let now = clock.both();
        assert_eq!(now.schedule, now.real);
        assert!(now.real > SHARED_START, "the machine's clock is read");
    }

    #[test]
    fn the_schedule_clock_never_goes_back() {
        let clock = MachineClock::new(1);
        let later = at("2026-05-05T05:05:05Z");
        assert_eq!(clock.schedule_at(later), later);
        assert_eq!(clock.schedule_at(later - Duration::from_secs(3_600)), later);
        assert_eq!(clock.schedule_at(later + Duration::from_millis(1)), later + Duration::from_millis(1));
    }

    #[test]
    fn a_steady_clock_agrees_with_the_machines_clock_at_first() {
        let clock = MachineClock::new(1).steadily();
        let (before, now, after) = (machine_time(), clock.now_real(), machine_time());
        let moment = Duration::from_millis(1);
        assert!(before <= now + moment && now <= after + moment, "{before} {now} {after}");
        assert_eq!(clock.wall().as_secs(), machine_time().as_secs());
    }

    #[test]
    fn a_change_of_speed_continues_from_the_time_reached() {
        let start = at("2026-05-05T00:00:00Z");
        let fast = Anchor { schedule: start, real: start, speed: 3_600 };
        let slow = fast.with_speed(1, start + Duration::from_secs(24));
        assert_eq!(slow.schedule, at("2026-05-06T00:00:00Z"));
        assert!(!slow.is_real(), "it is ahead by a day");
        let clock = MachineClock::anchored(slow);
        assert_eq!(clock.schedule_at(start + Duration::from_secs(25)), at("2026-05-06T00:00:01Z"));
    }

    #[test]
    fn a_stored_anchor_is_read_back() {
        let anchor = MachineClock::new(60).anchor();
        let stored = serde_json::to_string(&anchor).unwrap();
        assert_eq!(serde_json::from_str::<Anchor>(&stored).unwrap(), anchor);
    }
}
