use proptest::prelude::*;

use super::*;

fn at(ms: i64) -> Timestamp {
    Timestamp::from_millis(1_767_225_600_000 + ms)
}

fn latency_of(times: &[u64]) -> Latency {
    let mut latency = Latency::default();
    times.iter().for_each(|ms| latency.count(*ms));
    latency
}

#[test]
fn outcomes_are_counted_apart_and_an_interrupted_one_took_no_time() {
    let mut counts = Counts::default();
    counts.count_attempt(AttemptOutcome::Success, 10);
    counts.count_attempt(AttemptOutcome::Failure, 30);
    counts.count_attempt(AttemptOutcome::Failure, 5_000);
    counts.count_attempt(AttemptOutcome::Interrupted, 0);
    assert_eq!((counts.success, counts.failure, counts.interrupted), (1, 2, 1));
    assert_eq!((counts.latency.count, counts.latency.total_ms, counts.latency.max_ms), (3, 5_040, 5_000));
}

#[test]
fn counts_of_several_engines_add_up() {
    let counts = |events, success, failure, interrupted, times: &[u64]| Counts {
        events,
        success,
        failure,
        interrupted,
        latency: latency_of(times),
    };
    let mut sum = counts(1, 20, 300, 4_000, &[5]);
    sum.add(&counts(2, 30, 400, 5_000, &[7]));
    assert_eq!(sum, counts(3, 50, 700, 9_000, &[5, 7]));
}

#[test]
fn the_last_bin_reaches_to_the_longest_time() {
    assert_eq!(latency_of(&[20_000, 100_000]).percentile(100), 100_000);
}

#[test]
fn bins_double() {
    let edges = [(0, 0), (1, 1), (2, 2), (3, 2), (4, 3), (16_383, 14), (16_384, 15), (u64::MAX, 15)];
    for (ms, bin) in edges {
        assert_eq!(bin_of(ms), bin, "{ms}");
        assert!(lower_of(bin) <= ms);
    }
}

#[test]
fn nothing_has_no_latency() {
    assert_eq!(Latency::default().summary(), None);
    let one = latency_of(&[7]).summary().unwrap();
    assert_eq!(one, LatencySummary { average: 7, p50: 7, p95: 7, max: 7 });
    let equal = latency_of(&[40; 1_000]).summary().unwrap();
    assert_eq!((equal.average, equal.p95, equal.max), (40, 39, 40), "estimated inside of 32 to 40 ms");
}

#[test]
fn minutes_come_in_order_and_none_is_missing() {
    let events = |events| Counts { events, ..Counts::default() };
    let (a, b, c, old, future) = (events(1), events(2), events(4), events(100), events(100));
    let minute = |n: i64| at(n * 60_000);
    // Two engines counted in the same minute; one minute is too old, and one is ahead by a clock that is wrong.
    let counted =
        [(minute(5), &a), (minute(3), &b), (minute(5), &c), (minute(2), &old), (minute(6), &future)];
    let shown = by_minute(at(5 * 60_000 + 59_999), 3, counted.into_iter());
    let expected = [(minute(3), events(2)), (minute(4), events(0)), (minute(5), events(5))];
    assert_eq!(shown, expected);
    assert_eq!(minute_of(at(59_999)), at(0));
    assert_eq!(minute_of(at(60_000)), at(60_000));
}

#[test]
fn a_few_writes_may_come_at_once_and_then_one_a_second() {
    let mut pace = Pace::default();
    let written = (0..20).filter(|_| pace.take(at(0))).count();
    assert_eq!(written, 5);
    assert!(!pace.take(at(999)));
    let written = (0..1_000).filter(|n| pace.take(at(1_000 + n * 10))).count();
    assert_eq!(written, 10, "in ten seconds");
    assert!(pace.take(at(-3_600_000)), "a clock that was set back must not end it");
}

proptest! {
    #[test]
    fn a_percentile_is_exact_to_its_bin(
        times in prop::collection::vec(prop_oneof![0_u64..50, 0_u64..6_000, 15_000_u64..40_000], 1..200),
        percent in 1_u64..=100,
    ) {
        let latency = latency_of(&times);
        let mut sorted = times.clone();
        sorted.sort_unstable();
        let exact = sorted[(sorted.len() * percent as usize).div_ceil(100) - 1];
        let estimate = latency.percentile(percent);
        prop_assert_eq!(bin_of(estimate), bin_of(exact), "{} for {}", estimate, exact);
        prop_assert!(estimate <= latency.max_ms);
    }

    #[test]
    fn adding_up_is_counting_together(
        a in prop::collection::vec(0_u64..20_000, 0..50),
        b in prop::collection::vec(0_u64..20_000, 0..50),
    ) {
        let mut sum = latency_of(&a);
        sum.add(&latency_of(&b));
        prop_assert_eq!(sum, latency_of(&[a, b].concat()));
    }
}
