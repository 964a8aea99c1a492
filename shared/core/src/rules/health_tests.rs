use proptest::prelude::*;
use serde::Deserialize;

use super::*;
use crate::rules::test_vectors;

#[derive(Deserialize)]
struct Trace {
    name: String,
    created_at: i64,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Step {
    Wait { wait_ms: u64 },
    OperatorAction { manual: String, then: Expected },
    Outcome { outcome: String, count: u32, gap_ms: u64, then: Expected },
}

#[derive(Debug, PartialEq, Deserialize)]
struct Expected {
    state: UrlState,
    streak: u64,
    window_attempts: u64,
    window_failures: u64,
    last_success_at: i64,
    next_probe_at: Option<i64>,
    now: Option<i64>,
    may_attempt: Option<bool>,
}

/// What is seen now, of all that the vector speaks about.
fn seen(health: &Health, now: Timestamp, then: &Expected) -> Expected {
    Expected {
        state: health.state,
        streak: health.streak,
        window_attempts: health.window_attempts,
        window_failures: health.window_failures,
        last_success_at: health.last_success_at.map_or(0, Timestamp::as_millis),
        next_probe_at: health.next_probe_at.map(Timestamp::as_millis),
        now: then.now.map(|_| now.as_millis()),
        may_attempt: then.may_attempt.map(|_| health.state == UrlState::Enabled || health.probe_due(now)),
    }
}

fn run(trace: &Trace) {
    let mut now = Timestamp::from_millis(trace.created_at);
    let mut health = Health { last_success_at: Some(now), ..Health::new(now) };
    for (i, step) in trace.steps.iter().enumerate() {
        let then = match step {
            Step::Wait { wait_ms } => {
                now = now + Duration::from_millis(*wait_ms);
                continue;
            }
            Step::OperatorAction { manual, then } => {
                let action = if manual == "enable" { OperatorAction::Enable } else { OperatorAction::Freeze };
                health.apply_action(action, now, "by hand").expect("enable and freeze are always allowed");
                then
            }
            Step::Outcome { outcome: word, count, gap_ms, then } => {
                for _ in 0..*count {
                    now = now + Duration::from_millis(*gap_ms);
                    let success = word == "success";
                    health.count(&outcome(&health, success, now));
                }
                then
            }
        };
        assert_eq!(&seen(&health, now, then), then, "trace {}, step {i}", trace.name);
    }
}

#[test]
fn health_follows_the_vectors() {
    let traces: Vec<Trace> = test_vectors::read("health.json");
    assert!(!traces.is_empty());
    traces.iter().for_each(run);
}

fn outcome(health: &Health, success: bool, at: Timestamp) -> Outcome {
    Outcome {
        success,
        error: (!success).then(|| AttemptError::of_status(500)),
        is_first: true,
        retry: 0,
        is_own_event: false,
        started_at: at,
        ended_at: at,
        generation: health.generation,
        recent_ms: 0,
    }
}

#[test]
fn a_frozen_url_cannot_be_disabled() {
    let mut health = Health::new(Timestamp::ZERO);
    health.apply_action(OperatorAction::Freeze, Timestamp::ZERO, "maintenance").unwrap();
    assert_eq!(health.apply_action(OperatorAction::Disable, Timestamp::ZERO, "no"), Err(CannotDisableFrozen));
    assert_eq!(health.apply_action(OperatorAction::Freeze, Timestamp::ZERO, "again"), Ok(None));
    assert_eq!(health.reason, "maintenance");
}

#[test]
fn an_enable_by_hand_is_a_new_generation_even_when_enabled() {
    let mut health = Health::new(Timestamp::ZERO);
    let before = outcome(&health, false, Timestamp::ZERO);
    health.apply_action(OperatorAction::Enable, Timestamp::ZERO, "clean").unwrap();
    health.count(&before);
    assert_eq!((health.streak, health.window_attempts), (0, 0));
}

/// Whatever happens to a URL, in any order.
#[derive(Clone, Debug)]
enum Happening {
    Outcome { success: bool, generations_ago: u64, repeat: u32 },
    Act(OperatorAction),
    Probe,
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        4 => (any::<bool>(), 0_u64..3, prop_oneof![Just(1_u32), Just(120), Just(2_100)])
            .prop_map(|(success, generations_ago, repeat)| Happening::Outcome { success, generations_ago, repeat }),
        1 => prop_oneof![Just(OperatorAction::Enable), Just(OperatorAction::Freeze), Just(OperatorAction::Disable)].prop_map(Happening::Act),
        2 => Just(Happening::Probe),
    ]
}

proptest! {
    #[test]
    fn no_way_out_of_frozen_but_by_hand(happenings in prop::collection::vec((happening(), 0_u64..90_000_000), 1..40)) {
        let mut now = Timestamp::from_millis(1_700_000_000_000);
        let mut health = Health::new(now);
        for (what, wait_ms) in happenings {
            now = now + Duration::from_millis(wait_ms);
            let before = health.clone();
            match what {
                Happening::Outcome { success, generations_ago, repeat } => for _ in 0..repeat {
                    let generation = before.generation.saturating_sub(generations_ago);
                    health.count(&Outcome { generation, ..outcome(&before, success, now) });
                },
                Happening::Act(action) => { let _ = health.apply_action(action, now, "hand"); }
                Happening::Probe => { health.lease_probe(now, Duration::from_secs(30)); }
            }
            let by_hand = matches!(what, Happening::Act(OperatorAction::Enable));
            if before.state == UrlState::Frozen && !by_hand {
                prop_assert_eq!(health.state, UrlState::Frozen);
            }
            prop_assert_eq!(health.next_probe_at.is_some(), health.state == UrlState::Disabled);
            prop_assert!(health.window_failures <= health.window_attempts);
            prop_assert!(health.window_first_failures <= health.window_first_attempts);
            prop_assert!(health.window_first_attempts <= health.window_attempts);
        }
    }

    #[test]
    fn an_older_generation_never_changes_state(successes in prop::collection::vec(any::<bool>(), 1..300), frozen: bool) {
        let now = Timestamp::from_millis(1_700_000_000_000);
        let mut health = Health::new(now);
        let old = health.generation;
        health.apply_action(if frozen { OperatorAction::Freeze } else { OperatorAction::Disable }, now, "hand").unwrap();
        let before = health.clone();
        for success in successes {
            let change = health.count(&Outcome { generation: old, ..outcome(&before, success, now) });
            prop_assert_eq!(change, None);
        }
        let Health { last_success_at, first_attempt_at, .. } = health;
        prop_assert_eq!(health, Health { last_success_at, first_attempt_at, ..before });
    }

    #[test]
    fn one_probe_per_ten_minutes(steps in prop::collection::vec((0_u64..400_000, any::<bool>()), 1..200)) {
        let mut now = Timestamp::from_millis(1_700_000_000_000);
        let mut health = Health::new(now);
        health.apply_action(OperatorAction::Disable, now, "hand").unwrap();
        let mut last_probe: Option<Timestamp> = None;
        for (wait_ms, answered) in steps {
            now = now + Duration::from_millis(wait_ms);
            if health.lease_probe(now, Duration::from_secs(30)) {
                if let Some(last) = last_probe {
                    prop_assert!(now.since(last) >= PROBE_INTERVAL);
                }
                last_probe = Some(now);
                if answered {
                    let failure = outcome(&health, false, now);
                    health.count(&failure);
                }
            }
        }
    }
}

const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);
const FUNCTION_TIMEOUT: Duration = Duration::from_secs(30);

fn enabled() -> Health {
    Health::new(NOW)
}

fn disabled() -> Health {
    let mut health = enabled();
    health.apply_action(OperatorAction::Disable, NOW, "test").unwrap();
    health
}

fn frozen() -> Health {
    let mut health = enabled();
    health.apply_action(OperatorAction::Freeze, NOW, "test").unwrap();
    health
}

#[test]
fn states_have_the_names_of_the_spec() {
    let names = [UrlState::Enabled, UrlState::Disabled, UrlState::Frozen].map(UrlState::as_str);
    assert_eq!(names, ["enabled", "disabled", "frozen"]);
}

#[test]
fn an_action_by_hand_leads_from_any_state_to_its_own() {
    let later = NOW + Duration::from_secs(1);
    // From, action, to, and how many generations on.
    let cases = [
        (enabled(), OperatorAction::Enable, Some(UrlState::Enabled), 1),
        (enabled(), OperatorAction::Disable, Some(UrlState::Disabled), 1),
        (enabled(), OperatorAction::Freeze, Some(UrlState::Frozen), 1),
        (disabled(), OperatorAction::Enable, Some(UrlState::Enabled), 1),
        (disabled(), OperatorAction::Disable, Some(UrlState::Disabled), 0),
        (disabled(), OperatorAction::Freeze, Some(UrlState::Frozen), 1),
        (frozen(), OperatorAction::Enable, Some(UrlState::Enabled), 1),
        (frozen(), OperatorAction::Disable, None, 0),
        (frozen(), OperatorAction::Freeze, Some(UrlState::Frozen), 0),
    ];
    for (mut health, action, to, generations) in cases {
        (health.streak, health.window_attempts, health.window_failures) = (3, 5, 4);
        let before = health.clone();
        let applied = health.apply_action(action, later, "because");
        let Some(to) = to else {
            assert_eq!((applied, health), (Err(CannotDisableFrozen), before));
            continue;
        };
        let changed = before.state != to;
        let change = changed.then(|| Change { from: before.state, to, why: "because".to_owned() });
        assert_eq!(applied, Ok(change));
        let counters = (health.streak, health.window_attempts, health.window_failures);
        assert_eq!(counters, if action == OperatorAction::Enable { (0, 0, 0) } else { (3, 5, 4) });
        let expected = Health {
            state: to,
            since: if changed { later } else { before.since },
            reason: if changed { "because".to_owned() } else { before.reason.clone() },
            generation: before.generation + generations,
            next_probe_at: match (changed, to) {
                (true, UrlState::Disabled) => Some(later + PROBE_INTERVAL),
                (true, _) => None,
                (false, _) => before.next_probe_at,
            },
            ..health.clone()
        };
        assert_eq!(health, expected, "{action:?} from {:?}", before.state);
    }
}

#[test]
fn only_a_disabled_url_is_probed_and_only_when_it_is_time() {
    let due_at = NOW + PROBE_INTERVAL;
    let just_before = due_at - Duration::from_millis(1);
    let cases = [
        (enabled(), due_at, false),
        (disabled(), just_before, false),
        (disabled(), due_at, true),
        (frozen(), due_at, false),
    ];
    for (mut health, now, probe_due) in cases {
        assert_eq!(health.probe_due(now), probe_due, "{health:?}");
        let before = health.clone();
        assert_eq!(health.lease_probe(now, FUNCTION_TIMEOUT), probe_due);
        let leased_until = now + PROBE_INTERVAL + FUNCTION_TIMEOUT;
        let next_probe_at = if probe_due { Some(leased_until) } else { before.next_probe_at };
        assert_eq!(health, Health { next_probe_at, ..before });
    }
}

#[test]
fn a_probe_that_was_not_made_is_due_at_once_and_only_at_a_disabled_url() {
    let now = NOW + PROBE_INTERVAL;
    for (mut health, is_due) in [(enabled(), false), (disabled(), true), (frozen(), false)] {
        let before = health.clone();
        health.lease_probe(now, FUNCTION_TIMEOUT);
        health.give_back_probe(now);
        let next_probe_at = before.next_probe_at.map(|_| now);
        assert_eq!(health.probe_due(now), is_due, "{health:?}");
        assert_eq!(health, Health { next_probe_at, ..before });
    }
}

#[test]
fn a_success_of_an_older_generation_is_still_the_last_success() {
    let (started_at, ended_at) = (NOW + Duration::from_secs(1), NOW + Duration::from_secs(4));
    for mut health in [disabled(), frozen()] {
        let before = health.clone();
        let generation = before.generation - 1;
        let late = Outcome { started_at, generation, ..outcome(&before, true, ended_at) };
        assert_eq!(health.count(&late), None);
        let (last_success_at, first_attempt_at) = (Some(ended_at), Some(started_at));
        assert_eq!(health, Health { last_success_at, first_attempt_at, ..before });
    }
}

#[test]
fn the_last_success_never_goes_back() {
    let mut health = enabled();
    let at = |secs| outcome(&enabled(), true, NOW + Duration::from_secs(secs));
    health.count(&at(10));
    health.count(&at(5));
    assert_eq!(health.last_success_at, Some(NOW + Duration::from_secs(10)));
}

#[test]
fn the_silence_before_the_first_success_begins_with_the_first_attempt() {
    let mut health = enabled();
    let started_at = NOW + Duration::from_secs(1);
    let ended_at = started_at + Duration::from_secs(5);
    health.count(&Outcome { started_at, ..outcome(&health, false, ended_at) });
    health.count(&outcome(&health, false, NOW + Duration::from_secs(60)));
    assert_eq!((health.last_success_at, health.silent_since()), (None, Some(started_at)));
    health.streak = FREEZE_STREAK;
    let silence = Duration::from_secs(72 * 3600);
    let at_the_end = outcome(&health, false, started_at + silence);
    assert_ne!(health.clone().count(&at_the_end).map(|change| change.to), Some(UrlState::Frozen));
    let after_it = outcome(&health, false, started_at + silence + Duration::from_millis(1));
    assert_eq!(health.count(&after_it).map(|change| change.to), Some(UrlState::Frozen));
}

/// A URL with these counters, one outcome later.
fn after_one_more(
    (state, streak, attempts, failures): (UrlState, u64, u64, u64),
    silence: Duration,
    success: bool,
) -> Health {
    let mut health = match state {
        UrlState::Enabled => enabled(),
        UrlState::Disabled => disabled(),
        UrlState::Frozen => frozen(),
    };
    (health.streak, health.window_attempts, health.window_failures) = (streak, attempts, failures);
    health.last_success_at = Some(NOW);
    health.count(&outcome(&health, success, NOW + silence));
    health
}

#[test]
fn thresholds_hold_at_their_edges() {
    use UrlState::{Disabled, Enabled, Frozen};
    const HOUR: Duration = Duration::from_secs(3600);
    const LONG: Duration = Duration::from_millis(72 * 3_600_000 + 1);
    // State, streak, window attempts and failures; time since the last success; one more outcome; then the state.
    let cases = [
        // More than 100 attempts and more than 70 % of them failed, after a success too.
        ((Enabled, 69, 99, 99), HOUR, false, Enabled),
        ((Enabled, 70, 100, 70), HOUR, false, Disabled),
        ((Enabled, 0, 109, 76), HOUR, false, Enabled),
        ((Enabled, 0, 109, 77), HOUR, false, Disabled),
        ((Enabled, 0, 100, 70), HOUR, true, Enabled),
        ((Enabled, 0, 100, 71), HOUR, true, Disabled),
        // 2,000 consecutive failures.
        ((Enabled, 1_998, 9_000, 1_998), HOUR, false, Enabled),
        ((Enabled, 1_999, 9_000, 1_999), HOUR, false, Disabled),
        // More than 2,000 of them, and more than 72 h of silence.
        ((Disabled, 1_999, 0, 0), LONG, false, Disabled),
        ((Disabled, 2_000, 0, 0), 72 * HOUR, false, Disabled),
        ((Disabled, 2_000, 0, 0), LONG, false, Frozen),
        ((Enabled, 2_000, 9_000, 2_000), LONG, false, Frozen),
        // 50,000 of them in any time.
        ((Disabled, 49_998, 0, 0), HOUR, false, Disabled),
        ((Disabled, 49_999, 0, 0), HOUR, false, Frozen),
        // A probe that succeeds enables, whatever the counters say; a frozen URL stays frozen.
        ((Disabled, 60_000, 200, 200), LONG, true, Enabled),
        ((Frozen, 60_000, 200, 200), LONG, false, Frozen),
        ((Frozen, 60_000, 200, 200), LONG, true, Frozen),
    ];
    for (before, silence, success, state) in cases {
        let health = after_one_more(before, silence, success);
        assert_eq!(health.state, state, "{before:?}, then {success} after {silence:?}");
    }
}

#[test]
fn reasons_name_the_numbers() {
    let reason = |before, silence| after_one_more(before, silence, false).reason;
    let (short, long) = (Duration::from_secs(1), Duration::from_secs(73 * 3600));
    assert_eq!(reason((UrlState::Enabled, 80, 100, 80), short), "81 of 101 attempts failed");
    assert_eq!(reason((UrlState::Enabled, 1_999, 2_000, 1_999), short), "2000 consecutive failures");
    assert_eq!(
        reason((UrlState::Disabled, 2_000, 0, 0), long),
        "2001 consecutive failures and no success for more than 72 hours"
    );
    assert_eq!(reason((UrlState::Disabled, 49_999, 0, 0), short), "50000 consecutive failures");
}

#[test]
fn both_window_counters_are_halved_at_10000() {
    let short = Duration::from_secs(1);
    let window = |before, success| {
        let health = after_one_more(before, short, success);
        (health.window_attempts, health.window_failures)
    };
    assert_eq!(window((UrlState::Enabled, 0, 9_998, 3_000), false), (9_999, 3_001));
    assert_eq!(window((UrlState::Enabled, 0, 9_999, 3_001), false), (5_000, 1_501));
    assert_eq!(window((UrlState::Enabled, 0, 9_999, 3_001), true), (5_000, 1_500));
}

#[test]
fn first_attempts_are_counted_halved_and_cleared_with_the_window() {
    let mut health = enabled();
    let count = |health: &mut Health, is_first, success, generation| {
        let one = Outcome { is_first, generation, ..outcome(health, success, NOW) };
        health.count(&one);
        (health.window_first_attempts, health.window_first_failures)
    };
    assert_eq!(count(&mut health, true, false, 0), (1, 1));
    assert_eq!(count(&mut health, true, true, 0), (2, 1));
    assert_eq!(count(&mut health, false, false, 0), (2, 1));
    // Of another generation.
    assert_eq!(count(&mut health, true, false, 1), (2, 1));
    health.window_attempts = WINDOW_HALVED_AT - 1;
    (health.window_first_attempts, health.window_first_failures) = (7_000, 3_001);
    assert_eq!(count(&mut health, false, true, 0), (3_500, 1_500));
    // As many failures as there are: only a window of all attempts decides.
    health.window_first_failures = 3_500;
    assert_eq!(count(&mut health, false, true, 0), (3_500, 3_500));
    assert_eq!(health.state, UrlState::Enabled);
    health.apply_action(OperatorAction::Disable, NOW, "hand").unwrap();
    // The probe that enables it belongs to the window that ends.
    assert_eq!(count(&mut health, true, true, 1), (0, 0));
    assert_eq!(health.state, UrlState::Enabled);
}

#[test]
fn a_success_clears_the_streak_and_an_enabling_one_everything() {
    let short = Duration::from_secs(1);
    let counters = |health: Health| (health.streak, health.window_attempts, health.window_failures);
    assert_eq!(counters(after_one_more((UrlState::Enabled, 5, 10, 6), short, true)), (0, 11, 6));
    assert_eq!(counters(after_one_more((UrlState::Disabled, 5, 10, 6), short, true)), (0, 0, 0));
}

#[test]
fn a_failed_probe_restarts_the_10_minutes_from_its_end() {
    let health = after_one_more((UrlState::Disabled, 5, 10, 6), Duration::from_secs(700), false);
    assert_eq!(health.next_probe_at, Some(NOW + Duration::from_secs(700) + PROBE_INTERVAL));
    assert_eq!(PROBE_INTERVAL, Duration::from_secs(600));
}

/// What operators see of the failures of a URL: since when, the last one, and whether it is in trouble.
fn failures(health: &Health) -> (Option<u64>, Option<u64>, bool) {
    let secs = |at: Timestamp| at.since(NOW).as_secs();
    (health.failing_since.map(secs), health.last_failure.as_ref().map(|last| secs(last.at)), health.failing)
}

#[test]
fn a_streak_has_a_beginning_and_a_success_ends_it() {
    let mut health = enabled();
    let mut count = |secs: u64, success: bool| {
        let ended_at = NOW + Duration::from_secs(secs + 1);
        let started_at = NOW + Duration::from_secs(secs);
        health.count(&Outcome { started_at, ..outcome(&health, success, ended_at) });
        failures(&health)
    };
    assert_eq!(count(1, true), (None, None, false));
    assert_eq!(count(10, false), (Some(10), Some(11), false));
    assert_eq!(count(20, false), (Some(10), Some(21), false));
    assert_eq!(count(30, true), (None, Some(21), false));
    assert_eq!(count(40, false), (Some(40), Some(41), false));
    assert_eq!(health.last_failure.unwrap().error, AttemptError::of_status(500));
}

#[test]
fn ten_failures_in_a_row_or_a_failed_third_retry_are_trouble_until_a_success() {
    for (retry, needed) in [(0, 10), (2, 10), (3, 1), (11, 1)] {
        let mut health = enabled();
        for n in 1..=12 {
            health.count(&Outcome { retry, ..outcome(&health, false, NOW) });
            assert_eq!(health.failing, n >= needed, "retry {retry}, failure {n}");
        }
        health.count(&outcome(&health, true, NOW));
        assert_eq!((health.failing, health.recovered_at), (false, Some(NOW)), "retry {retry}");
    }
}

#[test]
fn after_a_recovery_single_retries_are_no_trouble_for_ten_minutes() {
    let third_retry = |health: &mut Health, at| {
        health.count(&Outcome { retry: 3, ..outcome(health, false, at) });
        health.failing
    };
    let mut health = enabled();
    assert!(third_retry(&mut health, NOW));
    health.count(&outcome(&health, true, NOW));
    let almost = NOW + CALM_AFTER_RECOVERY - Duration::from_millis(1);
    assert!(!third_retry(&mut health, almost));
    assert!(third_retry(&mut health.clone(), NOW + CALM_AFTER_RECOVERY));
    // A streak is, whenever it comes.
    for _ in 0..9 {
        assert!(!health.failing);
        health.count(&outcome(&health, false, almost));
    }
    assert!(health.failing);
}

#[test]
fn a_url_that_holdfast_disables_is_in_trouble_and_one_that_a_person_disables_is_not() {
    let short = Duration::from_secs(1);
    assert!(after_one_more((UrlState::Enabled, 0, 100, 71), short, true).failing);
    assert!(after_one_more((UrlState::Disabled, 49_999, 0, 0), short, false).failing);
    assert!(!disabled().failing && !frozen().failing);
    let enabled_by_probe = after_one_more((UrlState::Disabled, 2_000, 200, 200), short, true);
    assert_eq!(failures(&enabled_by_probe), (None, None, false));
    let mut by_hand = after_one_more((UrlState::Enabled, 9, 20, 9), short, false);
    assert_eq!(failures(&by_hand), (Some(1), Some(1), true));
    by_hand.apply_action(OperatorAction::Freeze, NOW, "hand").unwrap();
    assert_eq!(failures(&by_hand), (Some(1), Some(1), true));
    by_hand.apply_action(OperatorAction::Enable, NOW, "hand").unwrap();
    assert_eq!(failures(&by_hand), (None, Some(1), false));
}

#[test]
fn the_failure_of_an_older_generation_is_not_shown() {
    let mut health = enabled();
    health.apply_action(OperatorAction::Enable, NOW, "hand").unwrap();
    health.count(&Outcome { generation: 0, ..outcome(&health, false, NOW) });
    assert_eq!(failures(&health), (None, None, false));
}
