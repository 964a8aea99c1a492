//! Slow start: parked deliveries are let go in steps of 1, 2, 4, … so that a URL that just came back is not buried.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::records::Now;
use crate::time::Timestamp;

pub const STEP_INTERVAL: Duration = Duration::from_secs(5);
const LARGEST_STEP: u32 = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Release {
    /// Counts steps. A ticket names the step that it stands for, so that a duplicate does not double the pace.
    pub step: u64,
    /// How many deliveries the next step lets go.
    pub size: u32,
    /// Never before this.
    pub next_step_at: Timestamp,
    /// The URL's failures when the last step was made: more of them now means that the step failed.
    pub failures_before: u64,
    /// When the URL became enabled: functions that read it as disabled may park for some time after that.
    pub enabled_at_real: Timestamp,
}

impl Release {
    #[must_use]
    pub fn begin(step: u64, now: Now, failures: u64) -> Release {
        Release {
            step,
            size: 1,
            next_step_at: now.schedule,
            failures_before: failures,
            enabled_at_real: now.real,
        }
    }

    /// Makes a step: answers its size and prepares the next.
    pub fn claim_step(&mut self, now: Timestamp, failures: u64) -> u32 {
        if failures > self.failures_before {
            self.size = 1;
        }
        let size = self.size;
        self.step += 1;
        self.size = (size * 2).min(LARGEST_STEP);
        self.failures_before = failures;
        self.next_step_at = now + STEP_INTERVAL;
        size
    }

    /// Whether finding nothing parked now really means that nothing will be: nobody still acts on the old health.
    #[must_use]
    pub fn may_end(&self, now_real: Timestamp, function_timeout: Duration) -> bool {
        now_real >= self.enabled_at_real + function_timeout * 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin() -> Release {
        let t = Timestamp::from_millis(1_000_000);
        Release::begin(0, Now { schedule: t, real: t }, 0)
    }

    #[test]
    fn steps_double_up_to_256() {
        let mut release = begin();
        let sizes: Vec<u32> = (0..11).map(|_| release.claim_step(Timestamp::ZERO, 0)).collect();
        assert_eq!(sizes, [1, 2, 4, 8, 16, 32, 64, 128, 256, 256, 256]);
    }

    #[test]
    fn a_step_with_a_failure_goes_back_to_one() {
        let mut release = begin();
        for _ in 0..5 {
            release.claim_step(Timestamp::ZERO, 0);
        }
        assert_eq!(release.claim_step(Timestamp::ZERO, 3), 1);
        assert_eq!(release.claim_step(Timestamp::ZERO, 3), 2);
    }

    #[test]
    fn ends_only_when_nobody_acts_on_old_health() {
        let release = begin();
        let timeout = Duration::from_secs(30);
        assert!(!release.may_end(release.enabled_at_real + Duration::from_millis(59_999), timeout));
        assert!(release.may_end(release.enabled_at_real + Duration::from_secs(60), timeout));
    }

    #[test]
    fn a_release_begins_at_once_with_one() {
        let now = Now { schedule: Timestamp::from_millis(5_000), real: Timestamp::from_millis(7_000) };
        let expected = Release {
            step: 3,
            size: 1,
            next_step_at: now.schedule,
            failures_before: 9,
            enabled_at_real: now.real,
        };
        assert_eq!(Release::begin(3, now, 9), expected);
    }

    #[test]
    fn a_claimed_step_has_the_next_number_and_the_next_time() {
        let mut release = begin();
        let before = release;
        let now = Timestamp::from_millis(2_000_000);
        assert_eq!(release.claim_step(now, 7), 1);
        let expected = Release {
            step: before.step + 1,
            size: 2,
            next_step_at: now + Duration::from_secs(5),
            failures_before: 7,
            enabled_at_real: before.enabled_at_real,
        };
        assert_eq!(release, expected);
    }

    #[test]
    fn failures_that_were_there_before_the_step_do_not_slow_it() {
        let mut release = begin();
        let sizes = [3, 3, 3, 4, 4, 3].map(|failures| release.claim_step(Timestamp::ZERO, failures));
        // The first 3 came after the release began; the window may be halved, which is no failure.
        assert_eq!(sizes, [1, 2, 4, 1, 2, 4]);
    }
}
