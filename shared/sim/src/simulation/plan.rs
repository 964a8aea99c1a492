//! What a seed makes of the world: who is there, what they do, and what goes wrong.

use std::collections::BTreeMap;
use std::time::Duration;

use holdfast_core::time::Timestamp;

use super::dice::Dice;
use super::faults::Rates;
use super::receivers::Behaviour;
use super::versions::Deploy;

pub(super) const HOUR: Duration = Duration::from_secs(3_600);

/// For how long things go wrong.
pub(super) const TROUBLE: Duration = Duration::from_secs(50 * 3_600);
/// After that, long enough for everything to be delivered or dead.
pub(super) const CALM: Duration = Duration::from_secs(60 * 3_600);

/// So long that whatever becomes rarer with each failure is rare in the end.
const WITHOUT_QUEUES: Duration = Duration::from_secs(160 * 60);

#[derive(Default)]
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
    /// When the record of a URL is lost: (tenant, URL).
    pub(super) lost_record: Option<(Timestamp, usize, String)>,
    pub(super) rates: Rates,
    /// First attempts for slow URLs have a queue of their own.
    pub(super) slow_queue: bool,
    pub(super) deploy: Option<Deploy>,
    /// All processes run on one machine, whose clock is set to so many milliseconds from true time.
    pub(super) clock_settings: Option<Vec<(Timestamp, i64)>>,
    pub(super) wide: Option<Wide>,
    pub(super) flood: Option<Flood>,
    /// Events for a tenant whose receiver always succeeds, posted when nothing goes wrong.
    pub(super) fresh: Vec<Timestamp>,
    /// So many events for a receiver that hangs are posted a moment before each of these.
    pub(super) noise: usize,
    /// When the deliveries that wait become as old as before their last attempt.
    pub(super) ages_at: Vec<Timestamp>,
    /// The world goes on for weeks, until what it has stored is removed.
    pub(super) is_long: bool,
}

/// An event type with more subscriptions than one step of a fan-out has.
pub(super) struct Wide {
    pub(super) subscriptions: usize,
    pub(super) posts: Vec<Timestamp>,
}

/// Many events for one URL, which is disabled by counting and recovers when nothing else goes wrong.
pub(super) struct Flood {
    pub(super) from: Timestamp,
    pub(super) posts: usize,
    pub(super) events_in_post: usize,
    /// When a person freezes the URL, to enable it a moment later.
    pub(super) freezes: Vec<Timestamp>,
}

pub(super) const FLOODED: &str = "http://flooded.test/";
pub(super) const HEALTHY: &str = "http://healthy.test/";
pub(super) const HANGING: &str = "http://hanging.test/";
/// The tenants of these receivers.
pub(super) const QUIET_TENANT: &str = "quiet";
pub(super) const NOISY_TENANT: &str = "noisy";
pub(super) const FRESH: &str = "fresh.event";
pub(super) const NOISE: &str = "noise.event";
pub(super) const FLOOD: &str = "flood.event";
pub(super) const WIDE: &str = "wide.event";

/// Which threshold is near.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Preload {
    /// 100 attempts, 80 of which failed.
    Disabled,
    /// 1,999 failures in a row, the last success a day ago.
    DisabledByStreak,
    /// 2,000 failures in a row, the last success more than three days ago.
    Frozen,
    /// 49,999 failures in a row.
    FrozenByStreak,
    /// 9,999 attempts, of which 69 % failed.
    Halved,
    /// 109 attempts, so that with one more failure exactly 70 % failed.
    AtSeventy,
}

const TYPES: [&str; 3] = ["order.created", "order.paid", "user.deleted"];

impl Plan {
    /// Nothing happens by itself, and nothing goes wrong.
    pub(super) fn quiet(behaviours: BTreeMap<String, Vec<(Timestamp, Behaviour)>>) -> Plan {
        Plan { behaviours, tenants: vec!["tenant-0".to_owned()], ..Plan::default() }
    }

    pub(super) fn new(start: Timestamp, dice: &Dice) -> Plan {
        let tenants: Vec<String> = (0..dice.between(1, 3)).map(|n| format!("tenant-{n}")).collect();
        let urls: Vec<String> =
            (0..dice.between(3, 6)).map(|n| format!("http://receiver-{n}.test/")).collect();
        let mut behaviours: BTreeMap<_, _> =
            urls.iter().map(|url| (url.clone(), phases(start, dice))).collect();
        behaviours.insert(HANGING.to_owned(), vec![(start, Behaviour::Hangs)]);
        let tenant = || dice.below(tenants.len() as u64) as usize;
        let mut subscriptions = Vec::new();
        for url in &urls {
            for event_type in TYPES.iter().take(dice.between(1, 2) as usize) {
                subscriptions.push((tenant(), url.clone(), *event_type));
            }
        }
        let preloads = [
            Preload::Disabled,
            Preload::DisabledByStreak,
            Preload::Frozen,
            Preload::FrozenByStreak,
            Preload::Halved,
            Preload::AtSeventy,
        ];
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
        let usual = Plan {
            behaviours,
            subscriptions,
            preloaded,
            posts,
            actions,
            outages,
            tenants,
            ..Plan::default()
        };
        let plan = usual.with_rarities(start, dice);
        // Last, because it replaces some of the others.
        if dice.happens(300) { plan.into_race(start, dice) } else { plan }
    }

    /// What happens in some worlds only, and what happens when nothing goes wrong any more.
    fn with_rarities(mut self, start: Timestamp, dice: &Dice) -> Plan {
        let calm = start + TROUBLE;
        let at = || start + dice.time(Duration::ZERO, TROUBLE - HOUR);
        let deploy = dice.happens(1_000).then(|| {
            let begins = at();
            Deploy { begins, ends: begins + dice.time(Duration::from_secs(60), HOUR) }
        });
        let clock_settings = dice.happens(500).then(|| {
            let set = |_| (at(), dice.between(0, 110 * 3_600_000) as i64 - 55 * 3_600_000);
            let mut settings: Vec<_> = (0..dice.between(1, 3)).map(set).collect();
            settings.sort();
            settings
        });
        let wide = dice.happens(500).then(|| Wide {
            subscriptions: dice.between(105, 260) as usize,
            posts: (0..dice.between(2, 6))
                .map(|_| start + HOUR + dice.time(Duration::ZERO, HOUR * 8))
                .collect(),
        });
        let flood = dice.happens(400).then(|| {
            self.behaviours.insert(FLOODED.to_owned(), flooded(calm, dice));
            Flood::new(calm, dice)
        });
        // The flooded URL is disabled and has something due all the time, but no ticket for its probe arrives.
        if flood.is_some() && dice.happens(5_000) {
            self.outages.push((calm - WITHOUT_QUEUES, false, WITHOUT_QUEUES));
        }
        let lost_record = dice.pick(&self.subscriptions).filter(|_| dice.happens(300));
        let lost_record = lost_record.map(|(tenant, url, _)| (at(), *tenant, url.clone()));
        let mut fresh: Vec<Timestamp> =
            (0..3).map(|_| calm + HOUR + dice.time(Duration::ZERO, HOUR * 4)).collect();
        fresh.sort();
        let ages_at = start + HOUR + dice.time(Duration::ZERO, HOUR);
        Plan {
            rates: rates(dice, clock_settings.is_some()),
            slow_queue: dice.happens(3_000),
            deploy,
            clock_settings,
            wide,
            flood,
            lost_record,
            fresh,
            noise: if dice.happens(1_000) { dice.between(20, 60) as usize } else { 0 },
            ages_at: dice.happens(1_500).then_some(ages_at).into_iter().collect(),
            is_long: dice.happens(300),
            ..self
        }
    }

    /// Calls that outlast a lease, copies of tickets and last attempts, on one machine, where no function's time is over.
    fn into_race(mut self, start: Timestamp, dice: &Dice) -> Plan {
        for (_, phases) in self.behaviours.iter_mut().filter(|(url, _)| *url != HANGING) {
            *phases = vec![(start, Behaviour::Flaps { percent: 50 })];
        }
        let tenants = self.tenants.len() as u64;
        for _ in 0..100 {
            let at = start + dice.time(Duration::ZERO, Duration::from_secs(180));
            self.posts.push((at, dice.below(tenants) as usize, TYPES[0], 1));
        }
        // From the second retry on, when a quarter of them still waits.
        let ages_at = [9, 12, 16, 24, 40].map(|minutes| start + Duration::from_secs(minutes * 60)).to_vec();
        Plan { rates: RACE, clock_settings: Some(Vec::new()), deploy: None, flood: None, ages_at, ..self }
    }
}

impl Flood {
    fn new(calm: Timestamp, dice: &Dice) -> Flood {
        let from = calm - HOUR * dice.between(3, 8) as u32;
        let freezes = if dice.happens(5_000) { 20 } else { 0 };
        let freeze = |_| from + dice.time(Duration::from_secs(1), Duration::from_secs(180));
        let many = dice.happens(2_000);
        Flood {
            from,
            freezes: (0..freezes).map(freeze).collect(),
            posts: if many { dice.between(20, 50) } else { dice.between(5, 12) } as usize,
            events_in_post: 50,
        }
    }
}

/// Fails until the calm has begun, and then takes most of what waits.
fn flooded(calm: Timestamp, dice: &Dice) -> Vec<(Timestamp, Behaviour)> {
    let recovered = match dice.below(4) {
        0 => Behaviour::Succeeds,
        1 => Behaviour::IsSlow,
        _ => Behaviour::Refuses { percent: dice.between(10, 40) },
    };
    let recovers_at = calm + HOUR + dice.time(Duration::ZERO, HOUR * 3);
    vec![(Timestamp::ZERO, Behaviour::Fails(500)), (recovers_at, recovered)]
}

const RACE: Rates =
    Rates { stuck: 1_500, stuck_for: ON_ONE_MACHINE, duplicated: 7_000, late: 1_000, ..Rates::NONE };
/// How long a call may take, on AWS and on one machine.
const ON_AWS: Duration = Duration::from_secs(300);
const ON_ONE_MACHINE: Duration = Duration::from_secs(60);

/// Some worlds have no faults at all, some many of one kind, most a few of all.
fn rates(dice: &Dice, on_one_machine: bool) -> Rates {
    let rate = |usual: u64| match dice.below(6) {
        0 | 1 => 0,
        2 => usual * 4,
        _ => usual,
    };
    if dice.happens(500) {
        return Rates::NONE;
    }
    Rates {
        stuck_for: if on_one_machine { ON_ONE_MACHINE } else { ON_AWS },
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
        shortage: rate(100),
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
