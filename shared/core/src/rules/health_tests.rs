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
        may_attempt: then.may_attempt.map(|_| health.may_attempt(now)),
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
            Step::Outcome { outcome, count, gap_ms, then } => {
                for _ in 0..*count {
                    now = now + Duration::from_millis(*gap_ms);
                    let success = outcome == "success";
                    let generation = health.generation;
                    health.count(&Outcome { success, started_at: now, ended_at: now, generation });
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
    Outcome { success, started_at: at, ended_at: at, generation: health.generation }
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
    Steer(OperatorAction),
    Probe,
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        4 => (any::<bool>(), 0_u64..3, prop_oneof![Just(1_u32), Just(120), Just(2_100)])
            .prop_map(|(success, generations_ago, repeat)| Happening::Outcome { success, generations_ago, repeat }),
        1 => prop_oneof![Just(OperatorAction::Enable), Just(OperatorAction::Freeze), Just(OperatorAction::Disable)].prop_map(Happening::Steer),
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
                    health.count(&Outcome { success, started_at: now, ended_at: now, generation });
                },
                Happening::Steer(action) => { let _ = health.apply_action(action, now, "hand"); }
                Happening::Probe => { health.lease_probe(now, Duration::from_secs(30)); }
            }
            let by_hand = matches!(what, Happening::Steer(OperatorAction::Enable));
            if before.state == UrlState::Frozen && !by_hand {
                prop_assert_eq!(health.state, UrlState::Frozen);
            }
            prop_assert_eq!(health.next_probe_at.is_some(), health.state == UrlState::Disabled);
            prop_assert!(health.window_failures <= health.window_attempts);
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
            let change = health.count(&Outcome { success, started_at: now, ended_at: now, generation: old });
            prop_assert_eq!(change, None);
        }
        let last_success_at = health.last_success_at;
        prop_assert_eq!(health, Health { last_success_at, ..before });
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
