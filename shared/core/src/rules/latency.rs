//! How long a URL's recent answers took, and whether that is slow. Answers that are slow but successful never disable a URL, and must not keep
//! the deliveries of other URLs waiting either.

use std::time::Duration;

/// On average. Above it, first attempts have a queue of their own where a host has one.
const SLOW: Duration = Duration::from_secs(1);
/// Each answer counts one part in so many.
const WEIGHT: u64 = 8;

/// The moving average after one more answer, or failure, that took so long.
#[must_use]
pub fn smooth(recent_ms: u32, took: Duration) -> u32 {
    let took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX).min(u64::from(u32::MAX));
    let sum = u64::from(recent_ms) * (WEIGHT - 1) + took_ms;
    u32::try_from(sum / WEIGHT).unwrap_or(u32::MAX)
}

/// Over a second, or over half of the timeout if that is less: with a short timeout no answer takes a second.
#[must_use]
pub fn is_slow(recent_ms: u32, http_timeout: Duration) -> bool {
    Duration::from_millis(recent_ms.into()) > SLOW.min(http_timeout / 2)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(5);

    #[test]
    fn slow_is_over_a_second_or_half_of_a_short_timeout() {
        for (http_timeout_ms, slow_ms) in [(20_000, 1_001), (5_000, 1_001), (2_000, 1_001), (1_000, 501)] {
            let http_timeout = Duration::from_millis(http_timeout_ms);
            assert!(is_slow(slow_ms, http_timeout) && !is_slow(slow_ms - 1, http_timeout));
        }
    }

    /// How many answers of `took_ms` in a row make a URL slow, or no longer slow.
    fn answers_until(slow: bool, mut recent_ms: u32, took_ms: u64) -> usize {
        let mut answers = 0;
        while is_slow(recent_ms, TIMEOUT) != slow {
            recent_ms = smooth(recent_ms, Duration::from_millis(took_ms));
            answers += 1;
            assert!(answers < 1_000);
        }
        answers
    }

    #[test]
    fn a_few_slow_answers_make_a_url_slow_and_a_few_fast_ones_end_it() {
        assert_eq!(answers_until(true, 0, 5_000), 2, "timeouts, from the start");
        assert_eq!(answers_until(true, 50, 5_000), 2);
        assert_eq!(answers_until(true, 50, 1_200), 14);
        assert_eq!(answers_until(false, 5_000, 50), 13);
        assert_eq!(answers_until(false, 1_100, 50), 1);
    }

    #[test]
    fn one_slow_answer_in_a_hundred_is_not_slow() {
        let mut recent_ms = 100;
        for answer in 0..1_000 {
            let took_ms = if answer % 100 == 0 { 5_000 } else { 100 };
            recent_ms = smooth(recent_ms, Duration::from_millis(took_ms));
            assert!(!is_slow(recent_ms, TIMEOUT), "after {answer} answers: {recent_ms} ms");
        }
    }

    proptest! {
        #[test]
        fn the_average_stays_between_what_it_was_and_the_answer(recent_ms: u32, took_ms: u64) {
            let after = u64::from(smooth(recent_ms, Duration::from_millis(took_ms)));
            let recent_ms = u64::from(recent_ms);
            prop_assert!(after >= recent_ms.min(took_ms).saturating_sub(1));
            prop_assert!(after <= recent_ms.max(took_ms));
        }
    }
}
