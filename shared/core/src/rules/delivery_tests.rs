use proptest::prelude::*;

use super::*;

const KEEP: Duration = Duration::from_secs(14 * 86_400);
const TIMEOUT: Duration = Duration::from_secs(30);
const START: Timestamp = Timestamp::from_millis(1_700_000_000_000);

fn at(time: Timestamp) -> Now {
    Now { schedule: time, real: time }
}

fn waiting() -> Progress {
    Progress::new(START, &Schedule::default())
}

fn after(change: impl FnOnce(&mut Progress)) -> Progress {
    let mut progress = waiting();
    change(&mut progress);
    progress
}

#[test]
fn a_late_attempt_counts_only_where_it_still_means_something() {
    let first = AttemptNumber { epoch: 0, n: 0 };
    let died = |reason| after(|p| p.die(reason, START, KEEP));
    let retried = after(|p| p.fail(&Schedule::default(), START, None, START, KEEP));
    let replayed = after(|p| {
        p.die(Reason::Expired, START, KEEP);
        p.replay(&Schedule::default(), START);
    });
    // (what happened while the attempt was in flight, whether its success counts, whether its failure counts)
    for (what, current, success, failure) in [
        ("nothing", waiting(), true, true),
        ("it was parked", after(Progress::park), true, true),
        ("the next attempt was scheduled", retried, true, false),
        ("it was delivered", after(|p| p.succeed(START, KEEP)), false, false),
        ("it expired", died(Reason::Expired), true, false),
        ("it was unsubscribed", died(Reason::Unsubscribed), true, false),
        ("it was deactivated", died(Reason::Inactive), true, false),
        ("it was exhausted", died(Reason::Exhausted), true, false),
        ("it was replayed", replayed, false, false),
    ] {
        assert_eq!(current.accepts_late(first, true), success, "success when {what}");
        assert_eq!(current.accepts_late(first, false), failure, "failure when {what}");
    }
}

#[test]
fn an_attempt_that_does_not_count_gives_back_its_lease_and_is_remembered() {
    let mut progress = waiting();
    for spared in 1..=2 {
        progress.claim(at(START), TIMEOUT);
        progress.spare();
        assert_eq!((progress.spared, progress.lease, progress.next_attempt), (spared, None, 0));
        let stored = serde_json::to_value(&progress).unwrap();
        assert_eq!(serde_json::from_value::<Progress>(stored).unwrap(), progress);
    }
}

#[test]
fn a_failure_schedules_the_next_attempt_and_the_expiry() {
    let schedule = Schedule::default();
    let started_at = START + Duration::from_secs(10);
    let failed = after(|p| p.fail(&schedule, started_at, None, started_at, KEEP));
    assert_eq!((failed.state, failed.next_attempt), (DeliveryState::Waiting, 1));
    assert_eq!(failed.due_at, started_at + Duration::from_millis(84_800));
    assert_eq!(failed.expires_at, started_at + schedule.lifetime);
    assert_eq!(failed.look_at, Some(failed.due_at + look_at::TICKET_GRACE));
    assert_eq!(failed.first_attempt_at, Some(started_at));
    let again = {
        let mut again = failed.clone();
        again.fail(&schedule, failed.due_at, None, failed.due_at, KEEP);
        again
    };
    assert_eq!((again.first_attempt_at, again.expires_at), (failed.first_attempt_at, failed.expires_at));
}

#[test]
fn the_last_failure_exhausts_the_delivery() {
    let progress = after(|p| {
        for _ in 0..12 {
            let due_at = p.due_at;
            p.fail(&Schedule::default(), due_at, None, due_at, KEEP);
        }
    });
    assert_eq!((progress.state, progress.reason), (DeliveryState::Dead, Some(Reason::Exhausted)));
    assert_eq!((progress.look_at, progress.lease), (None, None));
    assert!(progress.remove_at.is_some());
}

#[test]
fn an_outcome_is_applied_as_success_or_failure() {
    let end = |success| AttemptEnd {
        success,
        started_at: START,
        ended_at: START + Duration::from_secs(2),
        retry_after: Some(Duration::from_secs(100)),
    };
    let schedule = Schedule::default();
    let succeeded = after(|p| p.apply(&end(true), &schedule, START, KEEP));
    assert_eq!(succeeded.state, DeliveryState::Delivered);
    assert_eq!(succeeded.remove_at, Some(START + Duration::from_secs(2) + KEEP));
    let failed = after(|p| p.apply(&end(false), &schedule, START, KEEP));
    assert_eq!(failed.due_at, START + Duration::from_secs(100), "the receiver asked for more time");
}

#[test]
fn parking_is_looked_at_when_it_expires_and_releasing_when_its_ticket_is_late() {
    let mut progress = after(|p| p.claim(at(START), TIMEOUT));
    progress.park();
    assert_eq!((progress.state, progress.look_at), (DeliveryState::Parked, Some(progress.expires_at)));
    assert!(!progress.is_leased(START), "a parked delivery is not being attempted");
    assert_eq!(progress.lease.map(|lease| lease.takes), Some(1));
    progress.unpark(START);
    assert_eq!(progress.look_at, Some(START + look_at::TICKET_GRACE));
}

#[test]
fn a_look_moves_on_from_the_due_time_or_the_expiry() {
    let mut progress = after(|p| p.fail(&Schedule::default(), START, None, START, KEEP));
    progress.looked_at(START);
    assert_eq!(progress.look_at, Some(progress.due_at + look_at::TICKET_GRACE));
    let late = progress.due_at + Duration::from_secs(3_600);
    progress.looked_at(late);
    assert_eq!(progress.look_at, Some(late + look_at::TICKET_GRACE));
    assert_eq!(progress.looks, 2);
    progress.park();
    assert_eq!(progress.looks, 0);
    progress.looked_at(START);
    assert_eq!(progress.look_at, Some(progress.expires_at + look_at::TICKET_GRACE));
}

proptest! {
    #[test]
    fn what_is_live_is_looked_at_and_what_is_over_is_removed(steps in prop::collection::vec(0_u8..7, 1..40)) {
        let schedule = Schedule::default();
        let mut progress = waiting();
        let mut now = START;
        for step in steps {
            now = now + Duration::from_secs(60);
            match step {
                0 if progress.state.is_live() => progress.fail(&schedule, now, None, now, KEEP),
                1 if progress.state.is_live() => progress.park(),
                2 if progress.state == DeliveryState::Parked => progress.unpark(now),
                3 if progress.state.is_live() => progress.succeed(now, KEEP),
                4 if progress.state.is_live() => progress.die(Reason::Inactive, now, KEEP),
                5 if !progress.state.is_live() => progress.replay(&schedule, now),
                6 if progress.state.is_live() => progress.looked_at(now),
                _ => {}
            }
            prop_assert_eq!(progress.state.is_live(), progress.look_at.is_some());
            prop_assert_eq!(progress.state.is_live(), progress.remove_at.is_none());
            prop_assert_eq!(progress.state == DeliveryState::Dead, progress.reason.is_some());
        }
    }
}

#[test]
fn states_are_named_as_they_are_stored() {
    use DeliveryState::{Dead, Delivered, Parked, Waiting};
    for state in [Waiting, Parked, Delivered, Dead] {
        assert_eq!(serde_json::to_value(state).unwrap(), state.as_str());
    }
    assert_eq!(
        [Waiting, Parked, Delivered, Dead].map(DeliveryState::as_str),
        ["waiting", "parked", "delivered", "dead"]
    );
}

#[test]
fn a_lease_holds_until_its_end_and_a_claim_that_is_given_back_leaves_the_takes_before_it() {
    let mut progress = after(|p| p.claim(at(START), TIMEOUT));
    let lapses_at = START + TIMEOUT;
    assert!(progress.is_leased(lapses_at - Duration::from_millis(1)) && !progress.is_leased(lapses_at));
    progress.claim(at(lapses_at), TIMEOUT);
    progress.give_back_claim();
    assert_eq!(progress.lease, Some(Lease { until_real: Timestamp::ZERO, takes: 1 }));
    progress.give_back_claim();
    assert_eq!(progress.lease, None);
}
