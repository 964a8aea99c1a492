//! Real time that does not jump when the machine's clock is set.

use std::time::Duration;

use crate::time::Timestamp;

/// How much faster or slower than time itself it runs until it agrees with the machine's clock again: a minute takes 3 hours and 20 minutes.
const SLOWNESS: i64 = 200;
/// A smaller difference between two readings is no jump.
const JUMP_MICROS: i64 = 1_000_000;

/// How far the machine's clock was set since the last reading, in milliseconds; negative if it was set back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jump {
    pub by_ms: i64,
}

/// Advances with the time since the machine was started, and only slowly towards what the machine's clock shows.
#[derive(Clone, Copy, Debug)]
pub struct SteadyTime {
    micros: i64,
    /// At the last reading.
    since_boot: Duration,
    wall: Timestamp,
}

impl SteadyTime {
    /// `since_boot` counts the time that the machine was asleep.
    #[must_use]
    pub fn new(wall: Timestamp, since_boot: Duration) -> SteadyTime {
        SteadyTime { micros: micros(wall), since_boot, wall }
    }

    /// `wall` is what the machine's clock shows.
    pub fn read(&mut self, wall: Timestamp, since_boot: Duration) -> (Timestamp, Option<Jump>) {
        let passed = since_boot.saturating_sub(self.since_boot);
        let passed = i64::try_from(passed.as_micros()).unwrap_or(i64::MAX);
        let jump = micros(wall).saturating_sub(micros(self.wall)).saturating_sub(passed);
        let steady = self.micros.saturating_add(passed);
        let most = passed / SLOWNESS;
        let behind = micros(wall).saturating_sub(steady);
        *self = SteadyTime { micros: steady.saturating_add(behind.clamp(-most, most)), since_boot, wall };
        let jump = (jump.abs() >= JUMP_MICROS).then_some(Jump { by_ms: jump / 1_000 });
        (Timestamp::from_millis(self.micros / 1_000), jump)
    }
}

fn micros(time: Timestamp) -> i64 {
    time.as_millis().saturating_mul(1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Timestamp = Timestamp::from_millis(1_767_225_600_000);
    const HOUR: Duration = Duration::from_secs(3_600);

    fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    #[test]
    fn it_is_the_machines_clock_while_nobody_sets_that() {
        let mut time = SteadyTime::new(START, HOUR);
        // The machine was asleep for most of it.
        for passed in [Duration::ZERO, secs(1), secs(60), HOUR * 30] {
            assert_eq!(time.read(START + passed, HOUR + passed), (START + passed, None));
        }
    }

    #[test]
    fn a_clock_that_is_set_back_does_not_stop_it() {
        let mut time = SteadyTime::new(START, HOUR);
        let back = START - secs(60);
        let (now, jump) = time.read(back + secs(10), HOUR + secs(10));
        assert_eq!((now, jump), (START + Duration::from_millis(9_950), Some(Jump { by_ms: -60_000 })));
        let (later, jump) = time.read(back + secs(20), HOUR + secs(20));
        assert_eq!((later, jump), (START + Duration::from_millis(19_900), None), "a jump is noticed once");
        let passed = secs(60 * 200 + 100);
        assert_eq!(time.read(back + passed, HOUR + passed).0, back + passed, "they agree again");
    }

    #[test]
    fn a_clock_that_is_set_forward_makes_nothing_due() {
        let mut time = SteadyTime::new(START, HOUR);
        let forward = HOUR * 53;
        let (now, jump) = time.read(START + forward + secs(100), HOUR + secs(100));
        assert_eq!(now, START + Duration::from_millis(100_500));
        assert_eq!(jump, Some(Jump { by_ms: 53 * 3_600_000 }));
    }

    #[test]
    fn it_never_goes_back_however_often_it_is_read() {
        let mut time = SteadyTime::new(START, HOUR);
        let mut last = START;
        for step in 0..10_000_u64 {
            let passed = Duration::from_micros(step * 37);
            let (now, _) = time.read(START - secs(5) + passed, HOUR + passed);
            assert!(now >= last);
            last = now;
        }
        assert!(last > START + Duration::from_millis(360));
    }
}
