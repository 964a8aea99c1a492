use proptest::prelude::*;

use super::*;

const HTTP_TIMEOUT: Duration = Duration::from_secs(5);
const CEILING: u32 = 256;
const START: Timestamp = Timestamp::from_millis(1_000_000);

fn at(secs: u64) -> Now {
    let now = START + Duration::from_secs(secs);
    Now { schedule: now, real: now }
}

fn begin() -> Release {
    Release::begin(0, at(0))
}

/// The outcomes of attempts of which all took as long.
fn outcomes(count: u32, failures: u32, overloads: u32, took_ms: u64) -> StepOutcomes {
    let mut outcomes = StepOutcomes::default();
    for n in 0..count {
        let took = Duration::from_millis(took_ms);
        outcomes.add_attempt(AttemptEnded { success: n >= failures, is_overload: n < overloads, took });
    }
    outcomes
}

/// Makes a step every 5 s. `of` gives the outcomes that a step of this size has by the next one. Returns the sizes.
fn sizes(steps: u64, ceiling: u32, of: impl Fn(u64, u32) -> StepOutcomes) -> Vec<u32> {
    let mut release = begin();
    let mut sizes = Vec::new();
    for step in 0..steps {
        let now = at(step * 5);
        let judged = |step: u64| Some(of(step, sizes[step as usize]));
        release.judge_steps(judged, now.real, ceiling);
        assert!(!release.is_behind());
        sizes.push(release.claim_step(now, HTTP_TIMEOUT).1);
    }
    sizes
}

#[test]
fn steps_double_up_to_the_ceiling() {
    assert_eq!(
        sizes(11, CEILING, |_, size| outcomes(size, 0, 0, 50)),
        [1, 2, 4, 8, 16, 32, 64, 128, 256, 256, 256]
    );
    assert_eq!(sizes(5, 5, |_, size| outcomes(size, 0, 0, 50)), [1, 2, 4, 5, 5]);
}

#[test]
fn outcomes_of_several_batches_are_added_up() {
    let mut sum = outcomes(3, 2, 1, 50);
    sum.add_not_attempted();
    sum.add(&outcomes(5, 1, 1, 400));
    let mut latencies = Latencies::default();
    for ms in [50, 50, 50, 400, 400, 400, 400, 400] {
        latencies.count(Duration::from_millis(ms));
    }
    assert_eq!(sum, StepOutcomes { count: 9, failures: 3, overloads: 2, latencies });
}

#[test]
fn a_step_is_judged_by_its_failures_its_overloads_and_its_latency() {
    let mut first_steps = FirstSteps { count: FIRST_STEPS, latencies: Latencies::default() };
    first_steps.latencies.count(Duration::from_millis(50));
    for (what, released, outcomes, verdict) in [
        ("all well", 20, outcomes(20, 0, 0, 50), Verdict::Double),
        ("half refused", 20, outcomes(20, 10, 0, 50), Verdict::Double),
        ("over half refused", 20, outcomes(20, 11, 0, 50), Verdict::BackToOne),
        ("half missing", 20, outcomes(10, 0, 0, 50), Verdict::Double),
        ("over half missing", 20, outcomes(9, 0, 0, 50), Verdict::BackToOne),
        ("over half refused or missing", 20, outcomes(15, 6, 0, 50), Verdict::BackToOne),
        ("all missing", 20, outcomes(0, 0, 0, 50), Verdict::BackToOne),
        ("below a tenth are overloads", 20, outcomes(20, 1, 1, 50), Verdict::Double),
        ("a tenth are overloads", 20, outcomes(20, 2, 2, 50), Verdict::Half),
        ("over half are overloads", 20, outcomes(20, 11, 11, 50), Verdict::BackToOne),
        ("twice as slow", 20, outcomes(20, 0, 0, 100), Verdict::Double),
        ("slower", 20, outcomes(20, 0, 0, 130), Verdict::Half),
        ("one that is refused", 1, outcomes(1, 1, 0, 50), Verdict::BackToOne),
        ("one of two is refused", 2, outcomes(2, 1, 0, 50), Verdict::Double),
        ("counted twice", 2, outcomes(4, 2, 0, 50), Verdict::Double),
    ] {
        assert_eq!(judge(released, &outcomes, &first_steps), verdict, "{what}");
    }
    let too_few = FirstSteps { count: FIRST_STEPS - 1, ..first_steps };
    assert_eq!(judge(20, &outcomes(20, 0, 0, 4_000), &too_few), Verdict::Double, "nothing to compare with");
}

#[test]
fn the_latency_of_the_first_five_steps_is_what_later_ones_are_compared_with() {
    let mut release = begin();
    let took_ms = |step: u64| if step < 5 { 50 } else { 90 };
    for step in 0..8 {
        release.judge_steps(|step| Some(outcomes(1, 0, 0, took_ms(step))), at(step * 5).real, 1);
        release.claim_step(at(step * 5), HTTP_TIMEOUT);
    }
    let latencies = outcomes(5, 0, 0, 50).latencies;
    assert_eq!(release.first_steps, FirstSteps { count: 5, latencies });
}

#[test]
fn a_receiver_that_refuses_some_for_good_does_not_slow_its_release_down() {
    let refuses_a_tenth = |_, size: u32| outcomes(size, size / 10, 0, 50);
    assert_eq!(sizes(9, CEILING, refuses_a_tenth), [1, 2, 4, 8, 16, 32, 64, 128, 256]);
}

#[test]
fn an_overloaded_receiver_gets_half_and_one_that_fails_gets_one() {
    let overloaded = |step, size| outcomes(size, size / 4, if step == 5 { size / 4 } else { 0 }, 50);
    assert_eq!(sizes(8, CEILING, overloaded), [1, 2, 4, 8, 16, 32, 16, 32]);
    let slow = |step, size| outcomes(size, 0, 0, if step == 6 { 200 } else { 50 });
    assert_eq!(sizes(9, CEILING, slow), [1, 2, 4, 8, 16, 32, 64, 32, 64]);
    let fails = |step, size| outcomes(size, if step == 5 { size } else { 0 }, 0, 50);
    assert_eq!(sizes(8, CEILING, fails), [1, 2, 4, 8, 16, 32, 1, 2]);
}

#[test]
fn what_is_missing_after_twice_the_timeout_has_failed() {
    let mut release = begin();
    release.claim_step(at(0), HTTP_TIMEOUT);
    let none = |_| Some(StepOutcomes::default());
    release.judge_steps(none, at(14).real, CEILING);
    assert_eq!((release.size, release.unjudged.len()), (1, 1), "not judged yet");
    release.judge_steps(none, at(15).real, CEILING);
    assert_eq!((release.size, release.unjudged.len()), (1, 0));
    assert_eq!(release.first_steps.count, 1);
}

/// Answers take longer than a step.
#[test]
fn a_step_that_is_not_judged_makes_the_next_one_no_larger() {
    let mut release = begin();
    let mut sizes = Vec::new();
    for step in 0..8_u64 {
        let judged = |made: u64| {
            let is_in = step >= made + 2;
            Some(if is_in { outcomes(sizes[made as usize], 0, 0, 50) } else { StepOutcomes::default() })
        };
        release.judge_steps(judged, at(step * 5).real, CEILING);
        sizes.push(release.claim_step(at(step * 5), HTTP_TIMEOUT).1);
    }
    assert_eq!(sizes, [1, 1, 2, 2, 4, 4, 8, 8]);
    // A step whose outcomes were not read is not judged, and none behind it.
    let size = release.size;
    release.judge_steps(|_| None, at(1_000).real, CEILING);
    assert_eq!((release.size, release.unjudged.len()), (size, 2));
}

#[test]
fn a_step_that_released_less_is_judged_by_that() {
    let mut release = Release { size: 64, ..begin() };
    release.claim_step(at(0), HTTP_TIMEOUT);
    release.end_step(0, 10);
    release.judge_steps(|_| Some(outcomes(10, 0, 0, 50)), at(5).real, CEILING);
    assert_eq!((release.size, release.unjudged.len()), (64, 0));
    release.claim_step(at(5), HTTP_TIMEOUT);
    release.end_step(1, 0);
    assert_eq!(release.unjudged, [], "nothing was released");
    release.claim_step(at(10), HTTP_TIMEOUT);
    release.end_step(2, 10);
    release.judge_steps(|_| Some(outcomes(10, 2, 2, 50)), at(15).real, CEILING);
    assert_eq!(release.size, 5);
}

#[test]
fn the_next_step_waits_when_too_many_are_not_judged() {
    let mut release = begin();
    for step in 0..16 {
        assert!(!release.is_behind(), "{step}");
        release.claim_step(at(0), HTTP_TIMEOUT);
    }
    assert!(release.is_behind());
}

#[test]
fn tickets_are_spread_over_the_step_in_whole_seconds() {
    let secs = |size: u32| -> Vec<u64> { (0..size).map(|place| spread(place, size).as_secs()).collect() };
    assert_eq!(secs(1), [0]);
    assert_eq!(secs(2), [0, 2]);
    assert_eq!(secs(4), [0, 1, 2, 3]);
    assert_eq!(secs(10), [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]);
    for second in 0..5 {
        assert_eq!(secs(12_800).iter().filter(|secs| **secs == second).count(), 2_560);
    }
    assert_eq!(spread(7, 3), spread(2, 3), "more than the step has");
    assert_eq!(spread(0, 0), Duration::ZERO);
}

#[test]
fn ends_only_when_no_function_acts_on_old_health() {
    let release = begin();
    let timeout = Duration::from_secs(30);
    assert!(!release.may_end(release.enabled_at_real + Duration::from_millis(59_999), timeout));
    assert!(release.may_end(release.enabled_at_real + Duration::from_secs(60), timeout));
}

#[test]
fn a_claimed_step_has_a_number_and_the_next_one_a_time() {
    let now = Now { schedule: at(100).schedule, real: at(7).real };
    let mut release = Release::begin(3, now);
    assert_eq!((release.size, release.next_step_at, release.enabled_at_real), (1, now.schedule, now.real));
    assert_eq!(release.claim_step(now, HTTP_TIMEOUT), (3, 1));
    assert_eq!((release.step, release.next_step_at), (4, at(105).schedule));
    let made = Unjudged { step: 3, released: 1, judge_at_real: at(7 + 5 + 10).real };
    assert_eq!(release.unjudged, [made]);
    let other = Release::begin(3, at(101));
    assert_ne!(release.step_id("url_1", 3), other.step_id("url_1", 3));
    assert_ne!(release.step_id("url_1", 3), release.step_id("url_1", 4));
}

#[test]
fn a_release_of_the_previous_form_goes_on() {
    let previous = r#"{"step":9,"size":128,"next_step_at":5,"failures_before":7,"enabled_at_real":3}"#;
    let mut release: Release = serde_json::from_str(previous).unwrap();
    release.judge_steps(|_| None, at(0).real, 12_800);
    assert_eq!(release.claim_step(at(0), HTTP_TIMEOUT), (9, 128));
    let stored = serde_json::to_string(&release).unwrap();
    assert_eq!(serde_json::from_str::<Release>(&stored).unwrap(), release);
}

/// How long a release takes at a receiver that answers in 50 ms, if every tenth is refused.
fn time_to_release(parked: u32, ceiling: u32) -> Duration {
    let (mut left, mut steps) = (parked, 0_u64);
    let mut release = begin();
    let mut made = Vec::new();
    while left > 0 {
        let now = at(steps * 5);
        release.judge_steps(|step| Some(outcomes_of(made[step as usize])), now.real, ceiling);
        let (step, size) = release.claim_step(now, HTTP_TIMEOUT);
        let released = size.min(left);
        release.end_step(step, released);
        left -= released;
        made.push(released);
        steps += 1;
    }
    STEP_INTERVAL * u32::try_from(steps).unwrap()
}

/// Without counting each attempt.
fn outcomes_of(released: u32) -> StepOutcomes {
    let latencies = outcomes(1, 0, 0, 50).latencies;
    StepOutcomes { count: released, failures: released / 10, overloads: 0, latencies }
}

#[test]
fn a_million_are_released_in_minutes() {
    let minutes = |count: u64| Duration::from_secs(60 * count);
    let on_one_machine = time_to_release(1_000_000, DEFAULT_CEILING);
    assert!(on_one_machine < minutes(15), "{on_one_machine:?}");
    let on_aws = time_to_release(1_000_000, 2_560);
    assert!(on_aws < minutes(60), "{on_aws:?}");
    assert!(time_to_release(1_000, 2_560) < minutes(2));
}

prop_compose! {
    fn any_outcomes()(count in 0_u32..40, failures in 0_u32..40, overloads in 0_u32..40, ms in 0_u64..10_000)
        -> StepOutcomes
    {
        let failures = failures.min(count);
        outcomes(count, failures, overloads.min(failures), ms)
    }
}

proptest! {
    #[test]
    fn a_step_is_at_most_twice_as_large_as_one_that_was_judged(
        made in prop::collection::vec((any_outcomes(), any::<bool>()), 1..40),
        ceiling in 1_u32..100,
    ) {
        let mut release = begin();
        let (mut largest_judged, mut last) = (0, 0);
        for (n, (outcomes, is_in)) in made.iter().enumerate() {
            let before = release.unjudged.clone();
            release.judge_steps(|_| is_in.then(|| outcomes.clone()), at(n as u64 * 5).real, ceiling);
            let judged = &before[..before.len() - release.unjudged.len()];
            largest_judged = judged.iter().map(|made| made.released).max().unwrap_or(0).max(largest_judged);
            let size = if release.is_behind() { break } else { release.claim_step(at(n as u64 * 5), HTTP_TIMEOUT).1 };
            prop_assert!((1..=ceiling).contains(&size));
            prop_assert!(size <= (largest_judged * 2).max(1));
            if judged.is_empty() && n > 0 {
                prop_assert!(size <= last, "{} after {}, and nothing was judged", size, last);
            }
            last = size;
        }
    }

    #[test]
    fn worse_outcomes_never_make_the_next_step_larger(released in 1_u32..40, outcomes in any_outcomes()) {
        let size_after = |outcomes: &StepOutcomes| {
            let mut release = Release { size: released, ..begin() };
            release.claim_step(at(0), HTTP_TIMEOUT);
            release.judge_steps(|_| Some(outcomes.clone()), at(100).real, CEILING);
            release.size
        };
        let more_failures = (outcomes.failures + 1).min(outcomes.count);
        let worse = StepOutcomes { failures: more_failures, ..outcomes.clone() };
        prop_assert!(size_after(&worse) <= size_after(&outcomes));
    }
}
