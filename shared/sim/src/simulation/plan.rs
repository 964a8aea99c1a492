//! What a seed makes of the world: who is there, what they do, and what goes wrong.

use std::collections::BTreeMap;
use std::time::Duration;

use holdfast_core::time::Timestamp;

use super::dice::Dice;
use super::faults::Rates;
use super::receivers::Behaviour;

pub(super) const HOUR: Duration = Duration::from_secs(3_600);

/// For how long things go wrong.
pub(super) const TROUBLE: Duration = Duration::from_secs(50 * 3_600);
/// After that, long enough for everything to be delivered or dead.
pub(super) const CALM: Duration = Duration::from_secs(60 * 3_600);

pub(super) struct Plan {
    pub(super) tenants: Vec<String>,
    /// How each receiver behaves, from when on.
    pub(super) behaviours: BTreeMap<String, Vec<(Timestamp, Behaviour)>>,
    /// (tenant, URL, event type)
    pub(super) subscriptions: Vec<(usize, String, &'static str)>,
    /// URLs whose counters start near a threshold, so that the product's own thresholds are reached.
    pub(super) preloaded: Vec<(usize, String, Preload)>,
    /// (when, tenant, event type, how many in one post)
    pub(super) posts: Vec<(Timestamp, usize, &'static str, usize)>,
    /// When a person does something.
    pub(super) actions: Vec<Timestamp>,
    /// (when, whether it is the store)
    pub(super) outages: Vec<(Timestamp, bool, Duration)>,
    pub(super) rates: Rates,
}

/// Which threshold is near.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Preload {
    /// 100 attempts, 80 of which failed.
    Disabled,
    /// 1,999 failures in a row, the last success a day ago.
    DisabledByStreak,
    /// 2,000 failures in a row, the last success more than three days ago.
    Frozen,
}

const TYPES: [&str; 3] = ["order.created", "order.paid", "user.deleted"];

impl Plan {
    pub(super) fn new(start: Timestamp, dice: &Dice) -> Plan {
        let tenants: Vec<String> = (0..dice.between(1, 3)).map(|n| format!("tenant-{n}")).collect();
        let urls: Vec<String> =
            (0..dice.between(3, 6)).map(|n| format!("http://receiver-{n}.test/")).collect();
        let behaviours = urls.iter().map(|url| (url.clone(), phases(start, dice))).collect();
        let tenant = || dice.below(tenants.len() as u64) as usize;
        let mut subscriptions = Vec::new();
        for url in &urls {
            for event_type in TYPES.iter().take(dice.between(1, 2) as usize) {
                subscriptions.push((tenant(), url.clone(), *event_type));
            }
        }
        let preloads = [Preload::Disabled, Preload::DisabledByStreak, Preload::Frozen];
        let mut preloaded = Vec::new();
        for (tenant, url, _) in &subscriptions {
            if dice.happens(3_000)
                && let Some(preload) = dice.pick(&preloads)
            {
                preloaded.push((*tenant, url.clone(), *preload));
            }
        }
        let at = || start + dice.time(Duration::ZERO, TROUBLE - HOUR);
        let mut posts = Vec::new();
        // Some worlds are busy.
        let busy = dice.happens(500);
        for _ in 0..if busy { dice.between(40, 120) } else { dice.between(4, 12) } {
            let events = if dice.happens(1_000) { dice.between(2, 5) } else { 1 };
            if let Some(event_type) = dice.pick(&TYPES) {
                // Most of them early, so that their whole schedule is in trouble.
                let at = if dice.happens(7_000) { start + dice.time(Duration::ZERO, HOUR) } else { at() };
                posts.push((at, tenant(), *event_type, events as usize));
            }
        }
        let actions = (0..dice.below(8)).map(|_| at()).collect();
        let outage = |store| (at(), store, dice.time(Duration::from_secs(60), HOUR));
        let outages = [true, false].into_iter().filter(|_| dice.happens(1_500)).map(outage).collect();
        Plan { behaviours, subscriptions, preloaded, posts, actions, outages, rates: rates(dice), tenants }
    }
}

/// Some worlds have no faults at all, some many of one kind, most a few of all.
fn rates(dice: &Dice) -> Rates {
    let rate = |usual: u64| match dice.below(6) {
        0 | 1 => 0,
        2 => usual * 4,
        _ => usual,
    };
    if dice.happens(500) {
        return Rates::default();
    }
    Rates {
        fails_before: rate(100),
        fails_after: rate(60),
        throttled: rate(60),
        partial: rate(300),
        slow: rate(60),
        stuck: rate(8),
        stale: rate(300),
        lost: rate(200),
        duplicated: rate(300),
        late: rate(200),
        killed: rate(300),
        missed_sweep: rate(500),
        overlapping_sweep: rate(500),
    }
}

fn phases(start: Timestamp, dice: &Dice) -> Vec<(Timestamp, Behaviour)> {
    let mut phases = Vec::new();
    let mut at = start;
    for _ in 0..dice.between(1, 3) {
        phases.push((at, behaviour(dice)));
        // Minutes, hours or days.
        let longest = [HOUR / 4, HOUR * 8, HOUR * 60][dice.below(3) as usize];
        at = at + dice.time(Duration::from_secs(60), longest);
    }
    // Most recover in the end.
    if dice.happens(7_000) {
        phases.push((at, Behaviour::Succeeds));
    }
    phases
}

fn behaviour(dice: &Dice) -> Behaviour {
    match dice.below(10) {
        0 | 1 => Behaviour::Succeeds,
        2 => Behaviour::Fails(410),
        3 => Behaviour::Fails(500),
        4 => Behaviour::Hangs,
        5 => Behaviour::IsGone,
        6 => Behaviour::Flaps { percent: dice.between(10, 90) },
        7 => Behaviour::Refuses { percent: dice.between(5, 40) },
        8 => {
            let status = if dice.happens(5_000) { 429 } else { 503 };
            Behaviour::IsBusy { status, retry_after: dice.time(Duration::from_secs(1), HOUR * 2) }
        }
        _ => Behaviour::IsSlow,
    }
}
