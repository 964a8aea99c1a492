//! How many events a tenant may post: a bucket that holds one second's worth and fills at the rate of the quota. Changes of subscriptions have one
//! that holds more.
//!
//! A post that is larger than the bucket is admitted when the bucket is full and leaves it in debt, so that every post passes some
//! time, and the average holds.

use std::time::Duration;

use crate::time::Timestamp;

/// What is left is counted in thousandths of an event: a millisecond then adds exactly the rate.
const PER_EVENT: i128 = 1_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    per_second: u64,
    /// Of how many seconds it holds the events.
    seconds: u32,
    /// In thousandths of an event; less than zero is debt.
    left: i128,
    /// When `left` was right.
    at: Timestamp,
}

impl Bucket {
    #[must_use]
    pub fn full(per_second: u64, now: Timestamp) -> Bucket {
        Bucket::full_of_seconds(1, per_second, now)
    }

    /// For what comes rarely, and then often at a time.
    #[must_use]
    pub fn full_of_seconds(seconds: u32, per_second: u64, now: Timestamp) -> Bucket {
        debug_assert!(per_second > 0, "a quota of zero would admit nothing");
        let mut bucket = Bucket { per_second, seconds, left: 0, at: now };
        bucket.left = bucket.capacity();
        bucket
    }

    /// Admits a post of so many events, or says how long to wait.
    pub fn take(&mut self, events: u64, now: Timestamp) -> Result<(), Duration> {
        self.take_down_to(0, events, now)
    }

    /// The same for events that come before posts: they may leave one second's worth of debt, so that posts which empty the bucket all the
    /// time do not keep them waiting.
    pub fn take_ahead(&mut self, events: u64, now: Timestamp) -> Result<(), Duration> {
        self.take_down_to(-self.capacity(), events, now)
    }

    /// Takes as many of these events as there are, and one at least as [`Bucket::take_ahead`] does, so that what goes on in steps comes to
    /// its end. Returns how many, or how long to wait.
    pub fn take_some(&mut self, events: u64, now: Timestamp) -> Result<u64, Duration> {
        self.refill(now);
        let available = u64::try_from(self.left / PER_EVENT).unwrap_or(0).min(events);
        if available == 0 {
            return self.take_ahead(1, now).map(|()| 1);
        }
        self.left -= i128::from(available) * PER_EVENT;
        Ok(available)
    }

    fn take_down_to(&mut self, floor: i128, events: u64, now: Timestamp) -> Result<(), Duration> {
        self.refill(now);
        let wanted = i128::from(events) * PER_EVENT;
        let missing = wanted.min(self.capacity()) + floor - self.left;
        if missing > 0 {
            let wait_ms = (missing - 1) / i128::from(self.per_second) + 1;
            return Err(Duration::from_millis(u64::try_from(wait_ms).unwrap_or(u64::MAX)));
        }
        self.left -= wanted;
        Ok(())
    }

    /// For a post that was admitted and then failed.
    pub fn give_back(&mut self, events: u64) {
        self.left = (self.left + i128::from(events) * PER_EVENT).min(self.capacity());
    }

    /// The quota was changed: a higher one adds its difference at once, and a lower one makes no debt.
    pub fn set_rate(&mut self, per_second: u64, now: Timestamp) {
        self.refill(now);
        let before = self.capacity();
        self.per_second = per_second;
        let added = (self.capacity() - before).max(0);
        self.left = (self.left + added).min(self.capacity());
    }

    /// How many events of what it holds are used, debt included; rounded up.
    #[must_use]
    pub fn used(&self, now: Timestamp) -> u64 {
        let mut current = *self;
        current.refill(now);
        let used = current.capacity() - current.left;
        u64::try_from((used + PER_EVENT - 1) / PER_EVENT).unwrap_or(u64::MAX)
    }

    /// A full bucket is as good as a new one, and need not be kept.
    #[must_use]
    pub fn is_full(&self, now: Timestamp) -> bool {
        self.used(now) == 0
    }

    fn capacity(&self) -> i128 {
        i128::from(self.per_second) * i128::from(self.seconds) * PER_EVENT
    }

    /// A clock that was set back adds nothing, and the bucket fills from the new time on: it must not wait for the old one.
    fn refill(&mut self, now: Timestamp) {
        let passed_ms = i128::try_from(now.since(self.at).as_millis()).unwrap_or(i128::MAX);
        let added = passed_ms.saturating_mul(i128::from(self.per_second));
        self.left = self.left.saturating_add(added).min(self.capacity());
        self.at = now;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const START_MS: i64 = 1_700_000_000_000;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millis(START_MS + ms)
    }

    /// Each step: when, how many events, and the wait in milliseconds if they are refused.
    #[track_caller]
    fn check(per_second: u64, steps: &[(i64, u64, Option<u64>)]) {
        let mut bucket = Bucket::full(per_second, at(0));
        for (ms, events, wait_ms) in steps {
            let wait = bucket.take(*events, at(*ms)).err().map(|wait| wait.as_millis() as u64);
            assert_eq!(wait, *wait_ms, "{events} events after {ms} ms at {per_second} per second");
        }
    }

    #[test]
    fn a_burst_is_one_second_worth() {
        check(10, &[(0, 10, None), (0, 1, Some(100)), (99, 1, Some(1)), (100, 1, None), (100, 1, Some(100))]);
        check(10, &[(0, 4, None), (0, 6, None), (0, 1, Some(100))]);
    }

    #[test]
    fn it_fills_at_the_rate_and_no_further() {
        check(10, &[(0, 10, None), (500, 5, None), (500, 1, Some(100))]);
        check(10, &[(0, 10, None), (3_600_000, 10, None), (3_600_000, 1, Some(100))]);
        check(3, &[(0, 3, None), (0, 1, Some(334)), (333, 1, Some(1)), (334, 1, None)]);
        check(1_000_000, &[(0, 1_000_000, None), (1, 1_000, None), (1, 1, Some(1))]);
    }

    #[test]
    fn a_post_larger_than_the_bucket_passes_when_it_is_full_and_leaves_debt() {
        check(10, &[(0, 100, None), (0, 1, Some(9_100)), (9_099, 1, Some(1)), (9_100, 1, None)]);
        check(10, &[(0, 1, None), (0, 100, Some(100)), (100, 100, None), (100, 100, Some(10_000))]);
        check(1, &[(0, 100, None), (99_999, 1, Some(1)), (100_000, 100, None)]);
    }

    #[test]
    fn a_clock_that_is_set_back_neither_adds_nor_blocks() {
        check(10, &[(0, 10, None), (-3_600_000, 1, Some(100)), (-3_599_900, 1, None)]);
    }

    #[test]
    fn a_post_that_failed_gives_back_what_it_took_and_no_more() {
        let mut bucket = Bucket::full(10, at(0));
        bucket.take(10, at(0)).unwrap();
        bucket.give_back(10);
        bucket.give_back(10);
        assert!(bucket.is_full(at(0)));
        bucket.take(10, at(0)).unwrap();
        assert!(bucket.take(1, at(0)).is_err());
    }

    #[test]
    fn events_that_come_before_posts_leave_one_second_of_debt() {
        let mut bucket = Bucket::full(10, at(0));
        bucket.take(10, at(0)).unwrap();
        bucket.take_ahead(4, at(0)).unwrap();
        bucket.take_ahead(6, at(0)).unwrap();
        assert_eq!(bucket.take_ahead(1, at(0)), Err(Duration::from_millis(100)));
        assert_eq!(bucket.take(1, at(0)), Err(Duration::from_millis(1_100)), "posts pay for them");
        bucket.take_ahead(1, at(100)).unwrap();
        assert_eq!(bucket.take_ahead(100, at(100)), Err(Duration::from_secs(1)));
        bucket.take_ahead(100, at(1_100)).unwrap();
        assert_eq!(bucket.used(at(1_100)), 110);
    }

    #[test]
    fn what_goes_on_in_steps_takes_what_there_is_and_one_at_least() {
        let mut bucket = Bucket::full(3, at(0));
        assert_eq!(bucket.take_some(2, at(0)), Ok(2));
        assert_eq!(bucket.take_some(100, at(0)), Ok(1));
        for _ in 0..3 {
            assert_eq!(bucket.take_some(100, at(0)), Ok(1), "in debt, ahead of posts");
        }
        assert_eq!(bucket.take_some(100, at(0)), Err(Duration::from_millis(334)));
        assert_eq!(bucket.take_some(100, at(10_000)), Ok(3));
    }

    #[test]
    fn a_higher_rate_adds_its_difference_and_a_lower_one_makes_no_debt() {
        let mut bucket = Bucket::full(10, at(0));
        bucket.take(10, at(0)).unwrap();
        bucket.set_rate(100, at(0));
        assert_eq!(bucket.used(at(0)), 10);
        bucket.take(90, at(0)).unwrap();
        assert!(bucket.take(1, at(0)).is_err());
        bucket.set_rate(1, at(0));
        assert_eq!(bucket.take(1, at(0)), Err(Duration::from_secs(1)));
        bucket.set_rate(5, at(60_000));
        bucket.set_rate(2, at(60_000));
        assert_eq!(bucket.used(at(60_000)), 0);
    }

    #[test]
    fn what_is_used_is_shown_until_it_is_filled_again() {
        let mut bucket = Bucket::full(10, at(0));
        assert!(bucket.is_full(at(0)));
        bucket.take(8, at(0)).unwrap();
        for (ms, used) in [(0, 8), (50, 8), (100, 7), (799, 1), (800, 0), (10_000, 0)] {
            assert_eq!(bucket.used(at(ms)), used, "after {ms} ms");
            assert_eq!(bucket.is_full(at(ms)), used == 0, "after {ms} ms");
        }
    }

    proptest! {
        /// However posts come, no more than the rate and one post beyond the bucket pass.
        #[test]
        fn the_average_holds(
            per_second in 1_u64..50,
            posts in prop::collection::vec((0_i64..2_000, 1_u64..=100), 1..200),
        ) {
            let mut bucket = Bucket::full(per_second, at(0));
            let (mut now_ms, mut admitted, mut largest) = (0, 0, 0);
            for (gap_ms, events) in posts {
                now_ms += gap_ms;
                match bucket.take(events, at(now_ms)) {
                    Ok(()) => {
                        admitted += events;
                        largest = largest.max(events);
                    }
                    Err(wait) => {
                        let after = at(now_ms) + wait;
                        prop_assert!(bucket.clone().take(events, after).is_ok(), "it passes after the wait");
                        let before = after - Duration::from_millis(1);
                        prop_assert!(bucket.clone().take(events, before).is_err(), "and not before");
                    }
                }
                let most = per_second as i64 * now_ms / 1_000 + per_second.max(largest) as i64;
                prop_assert!(admitted as i64 <= most, "{admitted} in {now_ms} ms");
            }
        }
    }
}
