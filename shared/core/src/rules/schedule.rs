//! When a failed delivery is tried again, and when it is given up.

use std::time::Duration;

use super::delivery::Reason;
use crate::time::Timestamp;

/// The fixed retry schedule: retry n is due `2^(n-1) * step` after the start of the attempt before, which is `((2^n) - 1) * step` after the
/// first attempt if every attempt starts when it is due.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    /// The gap before retry 1; each further gap is twice the one before.
    pub step: Duration,
    /// How many retries follow the first attempt.
    pub retries: u32,
    /// Nothing is attempted later than this after the first attempt of its epoch.
    pub lifetime: Duration,
}

impl Default for Schedule {
    fn default() -> Self {
        Schedule {
            step: Duration::from_millis(84_800),
            retries: 11,
            lifetime: Duration::from_secs(52 * 3600),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    RetryAt(Timestamp),
    GiveUp(Reason),
}

impl Schedule {
    /// How long after the attempt before it retry `n` (1 is the first retry) is due; `None` past the last one.
    #[must_use]
    pub fn gap_before_retry(&self, n: u32) -> Option<Duration> {
        (1..=self.retries).contains(&n).then(|| self.step * 2_u32.pow(n - 1))
    }

    /// What follows the failure of attempt number `attempt` (0 is the first), which started at `started`. `asked` is how
    /// long after the start the receiver asked to be left alone.
    #[must_use]
    pub fn after_failure(&self, attempt: u32, started: Timestamp, asked: Option<Duration>) -> Next {
        let Some(gap) = self.gap_before_retry(attempt + 1) else {
            return Next::GiveUp(Reason::Exhausted);
        };
        // A receiver may ask for more time, but a hostile `retry-after` must not hold a delivery for a year. Before the
        // last retry there is no later one to bound it by, so it is ignored there.
        let max_wait = gap + self.gap_before_retry(attempt + 2).unwrap_or(Duration::ZERO);
        Next::RetryAt(started + asked.unwrap_or(gap).clamp(gap, max_wait))
    }

    /// The moment after which nothing of this epoch is attempted any more.
    #[must_use]
    pub fn expires_at(&self, epoch_began: Timestamp, first_attempt_at: Option<Timestamp>) -> Timestamp {
        first_attempt_at.unwrap_or(epoch_began) + self.lifetime
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde::Deserialize;

    use super::*;
    use crate::rules::test_vectors;

    #[derive(Deserialize)]
    struct Vectors {
        step_ms: u64,
        retries: Vec<Retry>,
    }

    #[derive(Deserialize)]
    struct Retry {
        retry: u32,
        offset_ms: i64,
        gap_ms: u64,
    }

    #[test]
    fn schedule_follows_the_vectors() {
        let vectors: Vectors = test_vectors::read("schedule.json");
        let schedule = Schedule::default();
        assert_eq!(schedule.step, Duration::from_millis(vectors.step_ms));
        assert_eq!(
            vectors.retries.len(),
            schedule.retries as usize,
            "every retry of the schedule has a vector"
        );
        let first = Timestamp::from_millis(1_700_000_000_000);
        let mut started = first;
        for v in vectors.retries {
            assert_eq!(schedule.gap_before_retry(v.retry), Some(Duration::from_millis(v.gap_ms)));
            let Next::RetryAt(due) = schedule.after_failure(v.retry - 1, started, None) else {
                panic!("retry {} is on the schedule", v.retry)
            };
            assert_eq!(due.as_millis() - first.as_millis(), v.offset_ms);
            started = due;
        }
        assert_eq!(schedule.after_failure(11, started, None), Next::GiveUp(Reason::Exhausted));
    }

    proptest! {
        #[test]
        fn never_early_and_offsets_equal_the_formula(start in 0_i64..4_000_000_000_000, n in 1_u32..=11) {
            let schedule = Schedule::default();
            let first = Timestamp::from_millis(start);
            let mut at = first;
            for attempt in 0..n {
                let Next::RetryAt(due) = schedule.after_failure(attempt, at, None) else { panic!() };
                prop_assert!(due > at);
                at = due;
            }
            prop_assert_eq!(at.as_millis() - start, ((1_i64 << n) - 1) * 84_800);
        }

        #[test]
        fn retry_after_only_postpones_and_is_bounded(attempt in 0_u32..11, asked_ms in 0_u64..u64::MAX / 2) {
            let schedule = Schedule::default();
            let at = Timestamp::from_millis(1_000);
            let Next::RetryAt(plain) = schedule.after_failure(attempt, at, None) else { panic!() };
            let Next::RetryAt(asked) = schedule.after_failure(attempt, at, Some(Duration::from_millis(asked_ms))) else { panic!() };
            prop_assert!(asked >= plain);
            match schedule.gap_before_retry(attempt + 2) {
                Some(gap) => prop_assert!(asked <= plain + gap),
                None => prop_assert_eq!(asked, plain),
            }
        }
    }

    #[test]
    fn the_default_schedule_is_that_of_the_spec() {
        let Schedule { step, retries, lifetime } = Schedule::default();
        assert_eq!((step.as_millis(), retries, lifetime.as_secs()), (84_800, 11, 187_200));
    }

    #[test]
    fn there_is_a_gap_before_each_retry_and_no_other() {
        let schedule = Schedule::default();
        let gaps: Vec<_> = (0..=13).map(|n| schedule.gap_before_retry(n)).collect();
        let of = |steps: u32| Some(Duration::from_millis(84_800) * steps);
        let expected = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024].map(of);
        assert_eq!(gaps[0], None);
        assert_eq!(gaps[1..=11], expected);
        assert_eq!(gaps[12..], [None, None]);
    }

    #[test]
    fn a_receiver_may_postpone_a_retry_up_to_the_one_after_it() {
        let started = Timestamp::from_millis(1_700_000_000_000);
        let ms = Duration::from_millis;
        // The attempt that failed, what the receiver asked for, how long after the start the next one is.
        let cases = [
            (0, None, Some(84_800)),
            (0, Some(ms(0)), Some(84_800)),
            (0, Some(ms(84_799)), Some(84_800)),
            (0, Some(ms(84_801)), Some(84_801)),
            (0, Some(ms(254_399)), Some(254_399)),
            (0, Some(ms(254_401)), Some(254_400)),
            (9, Some(Duration::MAX), Some(84_800 * (512 + 1_024))),
            // Before retry 11 it is ignored.
            (10, Some(Duration::MAX), Some(84_800 * 1_024)),
            (11, Some(ms(1)), None),
            (12, None, None),
        ];
        for (attempt, asked, wait_ms) in cases {
            let expected =
                wait_ms.map_or(Next::GiveUp(Reason::Exhausted), |wait| Next::RetryAt(started + ms(wait)));
            assert_eq!(schedule_after(attempt, started, asked), expected, "{attempt} {asked:?}");
        }
    }

    fn schedule_after(attempt: u32, started: Timestamp, asked: Option<Duration>) -> Next {
        Schedule::default().after_failure(attempt, started, asked)
    }

    #[test]
    fn the_lifetime_begins_with_the_first_attempt_or_with_the_epoch() {
        let schedule = Schedule::default();
        let began = Timestamp::from_millis(1_700_000_000_000);
        let attempted = began + Duration::from_secs(3_600);
        assert_eq!(schedule.expires_at(began, None).since(began), schedule.lifetime);
        assert_eq!(schedule.expires_at(began, Some(attempted)).since(attempted), schedule.lifetime);
    }
}
