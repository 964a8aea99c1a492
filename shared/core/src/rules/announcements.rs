//! How often changes of one URL's state are announced. Each announcement goes to every subscription that asks for it, so a URL whose state is
//! changed in a loop would otherwise write more than everything else.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// So many changes of a URL are announced at once.
pub const MAX_AT_ONCE: u32 = 10;
/// How long it takes until one more can be.
const INTERVAL: Duration = Duration::from_secs(6);

/// What a URL has used of its announcements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AnnouncementPace {
    /// When all of them can be used again. `None`: now.
    full_at: Option<Timestamp>,
}

impl AnnouncementPace {
    /// How many changes can be announced now.
    #[must_use]
    pub fn available(&self, now: Timestamp) -> u32 {
        let missing = self.time_to_full(now).as_millis().div_ceil(INTERVAL.as_millis());
        MAX_AT_ONCE - (missing as u32).min(MAX_AT_ONCE)
    }

    /// How long it takes until one more is available. Zero if one is.
    #[must_use]
    pub fn wait(&self, now: Timestamp) -> Duration {
        self.time_to_full(now).saturating_sub(INTERVAL * (MAX_AT_ONCE - 1))
    }

    /// Uses so many of those that are available.
    pub fn take(&mut self, count: u32, now: Timestamp) {
        debug_assert!(count <= self.available(now), "more than are available");
        self.full_at = Some(now + self.time_to_full(now) + INTERVAL * count);
    }

    /// A clock that was set back must not delay announcements by more than it takes to fill.
    fn time_to_full(&self, now: Timestamp) -> Duration {
        self.full_at.map_or(Duration::ZERO, |full_at| full_at.since(now)).min(INTERVAL * MAX_AT_ONCE)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millis(1_700_000_000_000 + ms)
    }

    /// Each step: when, how many are available then and how long the wait is, in milliseconds, and how many of them are used.
    #[track_caller]
    fn check(steps: &[(i64, u32, u64, u32)]) {
        let mut pace = AnnouncementPace::default();
        for (ms, available, wait_ms, used) in steps {
            assert_eq!(pace.available(at(*ms)), *available, "after {ms} ms");
            assert_eq!(pace.wait(at(*ms)), Duration::from_millis(*wait_ms), "after {ms} ms");
            pace.take(*used, at(*ms));
        }
    }

    #[test]
    fn the_first_are_available_at_once_and_then_one_every_six_seconds() {
        check(&[
            (0, 10, 0, 1),
            (0, 9, 0, 9),
            (0, 0, 6_000, 0),
            (5_999, 0, 1, 0),
            (6_000, 1, 0, 1),
            (6_000, 0, 6_000, 0),
        ]);
    }

    #[test]
    fn what_is_not_used_is_available_later_up_to_the_limit() {
        check(&[(0, 10, 0, 10), (30_000, 5, 0, 2), (59_999, 7, 0, 0), (60_000, 8, 0, 0), (72_000, 10, 0, 0)]);
        check(&[(0, 10, 0, 10), (3_600_000, 10, 0, 10), (3_600_000, 0, 6_000, 0)]);
    }

    #[test]
    fn a_clock_that_is_set_back_delays_by_a_minute_at_most() {
        check(&[(0, 10, 0, 10), (-86_400_000, 0, 6_000, 0)]);
    }

    proptest! {
        #[test]
        fn there_are_at_most_ten_a_minute_and_ten_more(
            gaps_ms in prop::collection::vec(0_i64..20_000, 1..200),
        ) {
            let (mut pace, mut now_ms, mut used) = (AnnouncementPace::default(), 0, 0);
            for gap_ms in gaps_ms {
                now_ms += gap_ms;
                let available = pace.available(at(now_ms));
                prop_assert_eq!(available == 0, !pace.wait(at(now_ms)).is_zero());
                pace.take(available, at(now_ms));
                used += i64::from(available);
                prop_assert!(used <= now_ms / 6_000 + 10, "{used} in {now_ms} ms");
            }
        }
    }
}
