use std::collections::BTreeSet;

use super::*;
use crate::ids::{EventKey, SubscriptionId};
use crate::records::NewDelivery;
use crate::rules::release::StepOutcomes;
use crate::rules::schedule::Schedule;

const KEEP: Duration = Duration::from_secs(14 * 86_400);
const HOUR: Duration = Duration::from_secs(3600);
const ACCEPTED: Timestamp = Timestamp::from_millis(1_700_000_000_000);

fn delivery() -> DeliveryRecord {
    let new = NewDelivery {
        key: DeliveryKey {
            tenant: "default".into(),
            event_key: EventKey::of("e", ACCEPTED),
            subscription_id: SubscriptionId::new([1; 16]),
        },
        event_id: "e".into(),
        event_type: "a.b".into(),
        accepted_at: ACCEPTED,
        url_id: UrlId::of("http://x/"),
        url: "http://x/".into(),
        trace: None,
    };
    DeliveryRecord::new(new, &Schedule::default())
}

fn ended(end: impl FnOnce(&mut DeliveryRecord)) -> DeliveryRecord {
    let mut delivery = delivery();
    end(&mut delivery);
    delivery
}

fn asked_for(states: &[DeliveryState], created_at: Timestamp) -> BulkReplay {
    let url_id = UrlId::of("http://x/");
    let wanted = UrlReplay { url_id, since: None, until: None, states: states.to_vec(), expired_since: None };
    let of = ReplayOf::Url(wanted.clone());
    BulkReplay {
        wanted,
        shown: ReplayRecord::new(&"default".into(), JobId::new([1; 16]), of, created_at),
        place: None,
        matched: 0,
        pace: Release::begin(0, Now { schedule: created_at, real: created_at }),
        left: 0,
        replayed_in_step: 0,
    }
}

#[test]
fn each_delivery_has_its_turn() {
    let asked_at = ACCEPTED + HOUR;
    let dead = asked_for(&[DeliveryState::Dead], asked_at);
    let both = asked_for(&[DeliveryState::Dead, DeliveryState::Delivered], asked_at);
    let (soon, late) = (asked_at + HOUR, ACCEPTED + HOUR * 53);
    let exhausted = ended(|d| d.progress.die(Reason::Exhausted, ACCEPTED, KEEP));
    let delivered = ended(|d| d.progress.succeed(ACCEPTED, KEEP));
    let parked = ended(|d| d.progress.park());
    let replayed = |at, by: Option<&BulkReplay>| {
        ended(|d| {
            d.progress.replay(&Schedule::default(), at);
            d.replayed_by = by.map(|by| by.shown.id.clone());
            d.progress.succeed(at, KEEP);
        })
    };
    let other =
        BulkReplay { shown: ReplayRecord { id: JobId::new([2; 16]), ..both.shown.clone() }, ..both.clone() };
    for (what, replay, delivery, now, turn) in [
        ("dead", &dead, &exhausted, soon, ReplayDecision::Replay),
        ("delivered", &dead, &delivered, soon, ReplayDecision::Ignore),
        ("delivered, and wanted", &both, &delivered, soon, ReplayDecision::Replay),
        ("waiting", &both, &delivery(), soon, ReplayDecision::Skip),
        ("parked", &both, &parked, soon, ReplayDecision::Skip),
        ("expired, untouched", &dead, &parked, late, ReplayDecision::Replay),
        ("replayed before", &both, &replayed(ACCEPTED, None), soon, ReplayDecision::Replay),
        ("replayed at that very moment", &both, &replayed(asked_at, None), soon, ReplayDecision::Replay),
        ("replayed since", &both, &replayed(soon, None), soon, ReplayDecision::Skip),
        ("replayed by this", &both, &replayed(soon, Some(&both)), soon, ReplayDecision::AlreadyReplayed),
        ("replayed by another since", &both, &replayed(soon, Some(&other)), soon, ReplayDecision::Skip),
    ] {
        assert_eq!(replay.decide(delivery, now, KEEP), turn, "{what}");
    }
}

#[test]
fn only_what_expired_in_the_window_is_meant() {
    let mut replay = asked_for(&[DeliveryState::Dead], ACCEPTED + HOUR * 100);
    let left_enabled_at = ACCEPTED + HOUR * 60;
    replay.wanted.expired_since = Some(left_enabled_at);
    let died = |reason, at| ended(|d| d.progress.die(reason, at, KEEP));
    let now = ACCEPTED + HOUR * 101;
    for (what, delivery, turn) in [
        ("in it", died(Reason::Expired, left_enabled_at), ReplayDecision::Replay),
        ("before", died(Reason::Expired, left_enabled_at - HOUR), ReplayDecision::Ignore),
        ("for another reason", died(Reason::Exhausted, left_enabled_at + HOUR), ReplayDecision::Ignore),
        ("untouched", ended(|d| d.progress.park()), ReplayDecision::Replay),
    ] {
        assert_eq!(replay.decide(&delivery, now, KEEP), turn, "{what}");
    }
}

#[test]
fn a_step_of_a_replay_is_judged_by_what_it_replayed() {
    let mut replay = asked_for(&[DeliveryState::Dead], ACCEPTED);
    let http_timeout = Duration::from_secs(5);
    let now = Now { schedule: ACCEPTED, real: ACCEPTED };
    let mut steps = BTreeSet::new();
    for left in [1, 2, 4] {
        replay.pace.judge_steps(
            |_| Some(StepOutcomes { count: left / 2, ..StepOutcomes::default() }),
            now.real,
            100,
        );
        replay.claim_step(now, http_timeout);
        assert_eq!(replay.left, left);
        assert!(steps.insert(replay.step_id()), "each step has a name of its own");
        let step = replay.pace.step - 1;
        assert!(replay.is_wanted(step) && replay.is_wanted(step + 1) && !replay.is_wanted(step + 2));
        (0..left).for_each(|_| replay.count_done());
        assert!(!replay.is_wanted(step), "it is over");
    }
}
