use holdfast_core::records::UrlRecord;
use holdfast_core::rules::last_failure::AttemptError;
use holdfast_core::time::Now;
use proptest::prelude::*;

use super::*;

fn timestamps() -> impl Strategy<Value = Timestamp> {
    (0_i64..2_000).prop_map(Timestamp::from_millis)
}

fn near(thresholds: Vec<u64>) -> impl Strategy<Value = u64> {
    (prop::sample::select(thresholds), 0_u64..25).prop_map(|(near, off)| near.saturating_sub(12) + off)
}

fn healths() -> impl Strategy<Value = Health> {
    let state = prop_oneof![
        6 => Just(UrlState::Enabled),
        1 => Just(UrlState::Disabled),
        1 => Just(UrlState::Frozen),
    ];
    let attempts = near(vec![0, 50, 100, 150, 1_000, 9_990]).prop_map(|n| n.min(9_999));
    let streak = near(vec![0, 0, 10, 2_000]);
    let times = || prop::option::of(timestamps());
    let failing = (any::<bool>(), times(), times());
    (state, attempts, 0_u64..=100, streak, times(), 0_u64..2, failing).prop_map(
        |(state, attempts, percent, streak, last_success_at, generation, (failing, since, recovered_at))| {
            let mut health = Health::new(Timestamp::ZERO);
            health.state = state;
            health.window_attempts = attempts;
            health.window_failures = attempts * percent / 100;
            health.streak = streak;
            health.last_success_at = last_success_at;
            health.generation = generation;
            (health.failing, health.failing_since, health.recovered_at) = (failing, since, recovered_at);
            health
        },
    )
}

/// The same URL a little later: mostly a little more was counted.
fn later(known: Health) -> impl Strategy<Value = Health> {
    let grown = (0_u64..60, 0_u64..60, 0_u64..30, prop::option::of(timestamps())).prop_map(
        move |(successes, failures, streak, last_success_at)| {
            let mut health = known.clone();
            health.window_attempts += successes + failures;
            health.window_failures += failures;
            health.streak = streak;
            health.last_success_at = last_success_at.max(health.last_success_at);
            health
        },
    );
    prop_oneof![3 => grown, 1 => healths()]
}

fn batches() -> impl Strategy<Value = Vec<Outcome>> {
    let outcome = |failing: u32| {
        let generation = prop_oneof![5 => Just(0_u64), 1 => Just(1_u64)];
        (0_u32..100, any::<bool>(), timestamps(), timestamps(), generation).prop_map(
            move |(chance, is_first, started_at, ended_at, generation)| Outcome {
                success: chance >= failing,
                error: (chance < failing).then(|| AttemptError::of_status(500 + chance as u16)),
                is_first,
                retry: if chance % 5 == 0 { FAILING_RETRY } else { chance % 3 },
                is_own_event: false,
                started_at,
                ended_at,
                generation,
                recent_ms: 0,
            },
        )
    };
    let size = prop_oneof![8 => 1_usize..15, 1 => 90_usize..130];
    (prop::sample::select(vec![0, 50, 70, 95, 100]), size)
        .prop_flat_map(move |(failing, size)| prop::collection::vec(outcome(failing), size))
}

/// What the update does to the counters.
fn update(plan: &FastCount, health: &mut Health) {
    match plan.last_success {
        LastSuccess::Becomes(at) => health.last_success_at = Some(at),
        LastSuccess::Stays | LastSuccess::StaysBehind(_) => {}
    }
    health.first_attempt_at.get_or_insert(plan.first_attempt_at);
    if let Some(counts) = &plan.counts {
        health.window_attempts += counts.attempts;
        health.window_failures += counts.failures;
        health.window_first_attempts += counts.first_attempts;
        health.window_first_failures += counts.first_failures;
        health.streak = counts.trailing_failures.unwrap_or(health.streak + counts.failures);
        health.last_failure = counts.last_failure.clone().or(health.last_failure.take());
        let before = health.failing_since.filter(|_| counts.trailing_failures.is_none());
        health.failing_since = before.or(counts.failing_since);
    }
}

const NOW: Now = Now { schedule: Timestamp::ZERO, real: Timestamp::ZERO };

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn where_the_condition_holds_the_rule_only_counts(
        (known, stored) in prop::option::of(healths()).prop_flat_map(|known| {
            let stored = later(known.clone().unwrap_or_else(|| Health::new(Timestamp::ZERO)));
            (Just(known), stored)
        }),
        outcomes in batches(),
    ) {
        if let Some(plan) = FastCount::plan(&outcomes, known.as_ref()) {
            compare(&plan, stored, &outcomes)?;
        }
    }

    #[test]
    fn at_the_edge_of_the_condition_too(
        known in prop::option::of(healths()),
        outcomes in batches(),
        all_failed in any::<bool>(),
        long_streak in any::<bool>(),
    ) {
        let Some(plan) = FastCount::plan(&outcomes, known.as_ref()) else { return Ok(()) };
        let Some(counts) = plan.counts.clone() else { return Ok(()) };
        let known_attempts = counts.harmless.map(|(attempts, _)| attempts);
        let edges = [counts.few_attempts, known_attempts, Some(WINDOW_HALVED_AT - counts.attempts - 1)];
        for attempts in edges.into_iter().flatten() {
            let mut stored = known.clone().unwrap_or_else(|| Health::new(Timestamp::ZERO));
            let max_failures = counts.harmless.map_or(attempts, |(_, failures)| failures.min(attempts));
            stored.window_attempts = attempts;
            stored.window_failures = if all_failed { attempts } else { max_failures };
            stored.streak = if long_streak { DISABLE_STREAK - counts.failures - 1 } else { 0 };
            compare(&plan, stored, &outcomes)?;
        }
    }
}

/// If the condition holds for the stored record, the rule changes exactly what the update changes.
fn compare(plan: &FastCount, stored: Health, outcomes: &[Outcome]) -> Result<(), TestCaseError> {
    if !plan.holds(&stored) {
        return Ok(());
    }
    let mut by_rule = UrlRecord::new("t".into(), "u".into(), "https://example.com".into(), Timestamp::ZERO);
    by_rule.health = stored;
    let mut by_update = by_rule.clone();
    let history = by_rule.count(outcomes, NOW);
    prop_assert!(history.is_empty());
    update(plan, &mut by_update.health);
    prop_assert_eq!(by_update, by_rule);
    Ok(())
}

fn outcome(success: bool) -> Outcome {
    let at = Timestamp::from_millis(1);
    let error = (!success).then(|| AttemptError::of_status(500));
    Outcome {
        success,
        error,
        is_first: true,
        retry: 0,
        is_own_event: false,
        started_at: at,
        ended_at: at,
        generation: 0,
        recent_ms: 0,
    }
}

#[test]
fn a_healthy_url_is_counted_fast_whatever_its_age() {
    let mut health = Health::new(Timestamp::ZERO);
    let mut batches = 0;
    let mut slow = 0;
    while batches < 5_000 {
        let outcomes = vec![outcome(true), outcome(true), outcome(true), outcome(false)];
        slow += u64::from(FastCount::plan(&outcomes, Some(&health)).is_none());
        for outcome in &outcomes {
            assert_eq!(health.count(outcome), None);
        }
        batches += 1;
    }
    // Only where the window is halved.
    assert_eq!(slow, 3);
}

#[test]
fn one_known_url_serves_many_concurrent_batches() {
    let mut health = Health::new(Timestamp::ZERO);
    (health.window_attempts, health.window_failures) = (1_000, 100);
    let plan = FastCount::plan(&vec![outcome(false); 9], Some(&health)).unwrap();
    (health.window_attempts, health.window_failures) = (5_000, 691);
    assert!(plan.holds(&health));
    health.window_failures = 692;
    assert!(!plan.holds(&health));
}

#[test]
fn a_record_of_a_newer_release_is_left_alone() {
    let request = FastCount::plan(&[outcome(true)], None).unwrap().request(Key::new("p".into(), "s"), "mark");
    let condition = request.condition.unwrap();
    assert!(condition.starts_with("#record.#v <= :readable AND "), "{condition}");
    let (names, values) = request.terms.into_maps();
    let names = names.unwrap();
    assert_eq!((names["#record"].as_str(), names["#v"].as_str()), ("record", "v"));
    assert_eq!(values.unwrap()[":readable"], number(holdfast_core::records::VERSION));
}

#[test]
fn an_unknown_url_is_assumed_to_be_new() {
    let plan = FastCount::plan(&vec![outcome(false); 9], None).unwrap();
    let mut health = Health::new(Timestamp::ZERO);
    assert!(plan.holds(&health));
    health.window_attempts = 91;
    assert!(plan.holds(&health));
    health.window_attempts = 92;
    assert!(!plan.holds(&health));
    assert_eq!(FastCount::plan(&vec![outcome(false); 101], None), None);
}

#[test]
fn entering_and_leaving_trouble_is_left_to_the_rule() {
    let failures = |count| vec![outcome(false); count];
    let late = Outcome { retry: FAILING_RETRY, ..outcome(false) };
    let new = Health::new(Timestamp::ZERO);
    let at_nine = Health { streak: 9, ..new.clone() };
    let failing = Health { failing: true, streak: 12, ..new.clone() };
    let calm = Health { recovered_at: Some(Timestamp::from_millis(1)), ..new.clone() };
    let cases = [
        (&new, failures(9), true),
        (&new, failures(10), false),
        (&at_nine, failures(1), false),
        (&at_nine, vec![outcome(true), outcome(false)], true),
        (&new, vec![late.clone()], false),
        (&calm, vec![late.clone()], true),
        (&failing, failures(10), true),
        (&failing, vec![late], true),
        (&failing, vec![outcome(true)], false),
    ];
    for (health, outcomes, is_fast) in cases {
        assert_eq!(FastCount::plan(&outcomes, Some(health)).is_some(), is_fast, "{health:?}, {outcomes:?}");
    }
}
