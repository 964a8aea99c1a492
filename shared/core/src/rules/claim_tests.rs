use proptest::prelude::*;

use super::*;
use crate::rules::delivery::{Lease, Reason};
use crate::rules::schedule::Schedule;
use crate::time::Timestamp;

const KEEP: Duration = Duration::from_secs(14 * 86_400);
const TIMEOUT: Duration = Duration::from_secs(30);
const START: Timestamp = Timestamp::from_millis(1_700_000_000_000);

const FIRST: AttemptNumber = AttemptNumber { epoch: 0, n: 0 };

fn record() -> Progress {
    Progress::new(START, &Schedule::default())
}

fn at(time: Timestamp) -> Now {
    Now { schedule: time, real: time }
}

fn ask(record: &Progress, now: Timestamp) -> OnTicket {
    on_ticket(record, record.number(), false, at(now))
}

#[test]
fn a_live_lease_is_waited_for_and_a_lapsed_one_taken_twice() {
    let mut record = record();
    assert_eq!(ask(&record, START), OnTicket::Claim);
    record.claim(at(START), TIMEOUT);
    assert_eq!(
        ask(&record, START + Duration::from_secs(10)),
        OnTicket::WaitForLease(Duration::from_secs(20))
    );
    let lapsed = START + TIMEOUT;
    assert_eq!(ask(&record, lapsed), OnTicket::Claim);
    record.claim(at(lapsed), TIMEOUT);
    assert_eq!(ask(&record, lapsed + TIMEOUT), OnTicket::CountAsInterrupted);
}

#[test]
fn parking_does_not_forget_how_often_an_attempt_was_taken() {
    let mut record = record();
    record.claim(at(START), TIMEOUT);
    record.claim(at(START + TIMEOUT), TIMEOUT);
    record.park();
    record.unpark(START);
    assert_eq!(ask(&record, START), OnTicket::CountAsInterrupted);
}

#[test]
fn a_ticket_behind_the_record_ends_unless_it_was_redelivered() {
    let mut record = record();
    record.fail(&Schedule::default(), START, None, START, KEEP);
    assert_eq!(on_ticket(&record, FIRST, false, at(START)), OnTicket::End);
    assert_eq!(on_ticket(&record, FIRST, true, at(START)), OnTicket::ResendCurrent);
}

#[test]
fn a_replay_starts_afresh_and_has_no_removal_time() {
    let schedule = Schedule::default();
    let mut record = record();
    record.die(Reason::Exhausted, START, KEEP);
    assert!(record.remove_at.is_some());
    let later = START + Duration::from_secs(86_400 * 5);
    record.replay(&schedule, later);
    assert_eq!((record.epoch, record.next_attempt, record.remove_at), (1, 0, None));
    assert_eq!(record.expires_at, later + schedule.lifetime);
    assert_eq!(ask(&record, later), OnTicket::Claim);
}

#[test]
fn an_untouched_delivery_is_shown_as_expired() {
    let record = record();
    assert_eq!(record.state_at(record.expires_at), (DeliveryState::Waiting, None));
    let after = record.expires_at + Duration::from_millis(1);
    assert_eq!(record.state_at(after), (DeliveryState::Dead, Some(Reason::Expired)));
    assert_eq!(ask(&record, after), OnTicket::Expire);
}

#[test]
fn an_attempt_that_is_under_way_is_not_expired() {
    let mut record = record();
    let end = record.expires_at;
    record.claim(at(end), TIMEOUT);
    assert_eq!(ask(&record, end + Duration::from_secs(1)), OnTicket::WaitForLease(Duration::from_secs(29)));
    assert_eq!(ask(&record, end + TIMEOUT), OnTicket::Expire);
}

#[test]
fn a_lease_that_is_given_back_was_never_taken() {
    let mut record = record();
    record.claim(at(START), TIMEOUT);
    record.give_back_claim();
    assert_eq!(record.lease, None);
    record.claim(at(START), TIMEOUT);
    record.claim(at(START + TIMEOUT), TIMEOUT);
    record.give_back_claim();
    assert_eq!(ask(&record, START), OnTicket::Claim);
}

proptest! {
    /// Tickets come at any time, duplicated; functions die at any time: never early, at most 12 counted attempts.
    #[test]
    fn never_early_and_at_most_twelve_counted_attempts(
        steps in prop::collection::vec((0_u64..40_000_000, any::<bool>(), any::<bool>()), 1..120)
    ) {
        let schedule = Schedule::default();
        let mut record = record();
        let mut now = START;
        let mut counted = 0;
        for (wait_ms, dies, park) in steps {
            now = now + Duration::from_millis(wait_ms);
            match ask(&record, now) {
                OnTicket::Claim => {
                    prop_assert!(now >= record.due_at && now <= record.expires_at);
                    if park { record.park(); continue; }
                    record.claim(at(now), TIMEOUT);
                    if !dies {
                        record.fail(&schedule, now, None, now, KEEP);
                        counted += 1;
                        prop_assert!(!record.state.is_live() || record.due_at > now);
                    }
                }
                OnTicket::CountAsInterrupted => {
                    record.fail(&schedule, now, None, now, KEEP);
                    counted += 1;
                }
                OnTicket::RecheckUrl => record.unpark(now),
                OnTicket::Expire => record.die(Reason::Expired, now, KEEP),
                OnTicket::WaitUntilDue => prop_assert!(now < record.due_at),
                OnTicket::End | OnTicket::ResendCurrent | OnTicket::WaitForLease(_) => {}
            }
            prop_assert_eq!(record.state.is_live(), record.look_at.is_some(), "whatever is alive is looked at");
            prop_assert_eq!(record.state.is_live(), record.remove_at.is_none(), "only what is over is removed");
        }
        prop_assert!(counted <= 12);
    }
}

const MILLISECOND: Duration = Duration::from_millis(1);

fn waiting() -> Progress {
    let mut record = record();
    record.fail(&Schedule::default(), START, None, START, KEEP);
    record
}

fn parked() -> Progress {
    let mut record = waiting();
    record.park();
    record
}

/// Claimed `times` times; the last lease began when the delivery was due.
fn claimed(times: u32) -> Progress {
    let mut record = waiting();
    for _ in 1..times {
        record.claim(at(record.due_at), TIMEOUT);
        // Lapsed.
        record.lease = record.lease.map(|lease| Lease { until_real: Timestamp::ZERO, ..lease });
    }
    record.claim(at(record.due_at), TIMEOUT);
    record
}

fn replayed() -> Progress {
    let mut record = waiting();
    record.die(Reason::Exhausted, START, KEEP);
    record.replay(&Schedule::default(), START);
    record
}

fn over(delivered: bool) -> Progress {
    let mut record = waiting();
    if delivered {
        record.succeed(START, KEEP);
    } else {
        record.die(Reason::Exhausted, START, KEEP);
    }
    record
}

#[test]
fn a_ticket_means_what_its_record_says() {
    let due_at = waiting().due_at;
    let (expires_at, lapses_at) = (waiting().expires_at, due_at + TIMEOUT);
    // The record, the ticket, whether it was redelivered, when; what it means.
    let cases = [
        (waiting(), (0, 1), false, due_at, OnTicket::Claim),
        (waiting(), (0, 1), true, due_at, OnTicket::Claim),
        (waiting(), (0, 1), false, due_at - MILLISECOND, OnTicket::WaitUntilDue),
        (waiting(), (0, 1), false, expires_at, OnTicket::Claim),
        (waiting(), (0, 1), false, expires_at + MILLISECOND, OnTicket::Expire),
        // Behind the record, or ahead of it.
        (waiting(), (0, 0), false, due_at, OnTicket::End),
        (waiting(), (0, 0), true, due_at, OnTicket::ResendCurrent),
        (waiting(), (0, 2), true, due_at, OnTicket::ResendCurrent),
        (waiting(), (1, 1), false, due_at, OnTicket::End),
        (replayed(), (0, 0), false, due_at, OnTicket::End),
        (replayed(), (0, 0), true, due_at, OnTicket::ResendCurrent),
        (replayed(), (1, 0), false, START, OnTicket::Claim),
        // Parked.
        (parked(), (0, 1), false, due_at, OnTicket::RecheckUrl),
        (parked(), (0, 1), false, expires_at + MILLISECOND, OnTicket::Expire),
        (parked(), (0, 0), false, due_at, OnTicket::End),
        (parked(), (0, 0), true, due_at, OnTicket::RecheckUrl),
        // Claimed.
        (claimed(1), (0, 1), false, due_at, OnTicket::WaitForLease(TIMEOUT)),
        (claimed(1), (0, 1), false, lapses_at - MILLISECOND, OnTicket::WaitForLease(MILLISECOND)),
        (claimed(1), (0, 1), false, lapses_at, OnTicket::Claim),
        (claimed(2), (0, 1), false, lapses_at - MILLISECOND, OnTicket::WaitForLease(MILLISECOND)),
        (claimed(2), (0, 1), false, lapses_at, OnTicket::CountAsInterrupted),
        (claimed(2), (0, 1), false, expires_at + MILLISECOND, OnTicket::Expire),
        // Over.
        (over(true), (0, 1), true, due_at, OnTicket::End),
        (over(false), (0, 2), true, due_at, OnTicket::End),
        (over(false), (0, 1), false, expires_at + MILLISECOND, OnTicket::End),
    ];
    for (number, (record, ticket, redelivered, now, meaning)) in cases.into_iter().enumerate() {
        let number_of_ticket = AttemptNumber { epoch: ticket.0, n: ticket.1 };
        let found = on_ticket(&record, number_of_ticket, redelivered, at(now));
        assert_eq!(found, meaning, "case {number}: {record:?}");
    }
}

#[test]
fn a_lease_runs_in_real_time_and_everything_else_on_the_schedule() {
    let record = claimed(1);
    let lease_ends = record.due_at + TIMEOUT;
    let much_later = record.due_at + Duration::from_secs(3_600);
    let asked = |schedule, real| on_ticket(&record, record.number(), false, Now { schedule, real });
    assert_eq!(asked(much_later, lease_ends - MILLISECOND), OnTicket::WaitForLease(MILLISECOND));
    assert_eq!(asked(record.due_at, lease_ends), OnTicket::Claim);
    assert_eq!(asked(record.due_at - MILLISECOND, lease_ends), OnTicket::WaitUntilDue);
}
