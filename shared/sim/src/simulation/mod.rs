//! Whole worlds in virtual time: producers, people, receivers, functions with clocks of their own, and faults everywhere, all from one
//! seed. The use-cases are the real ones. `shared/sim/README.md` says how to run, read and extend it.

mod backend;
mod checks;
mod claims;
mod counts;
mod dice;
mod drain;
mod executor;
mod faults;
mod faulty_queue;
mod faulty_store;
mod hosts;
mod observer;
mod people;
mod plan;
mod receivers;
mod reference_health;
mod report;
mod story;
mod tasks;
mod time;
mod versions;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use holdfast_core::engine::Settings;
use holdfast_core::ids::{Tenant, UrlId};
use holdfast_core::ports::{Clock, Expect, QueueName, Write};
use holdfast_core::records::{DeliveryRecord, Record, UrlRecord};
use holdfast_core::rules::delivery::DeliveryState;
use holdfast_core::time::Timestamp;

pub use backend::{Backend, VISIBILITY};
pub use checks::Broken;
pub use counts::Counts;
pub use drain::drain;
pub use receivers::{Behaviour, Request};
pub use report::{BrokenSeed, FULL_RUN, Report, find_broken};
pub use story::Story;

use backend::InMemory;
use dice::Dice;
use executor::Executor;
use faults::Faults;
use hosts::Hosts;
use observer::Observer;
use plan::{CALM, Plan, Preload, TROUBLE};
use receivers::Receivers;
use time::{MachineClock, Time};

use crate::{Memory, block_on};

const FUNCTION_TIMEOUT: Duration = Duration::from_secs(30);
const BATCH: u64 = 10;
/// How many functions with the same trigger run at the same time.
const CONCURRENCY: usize = 4;
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);
/// Of worlds that last for weeks: as short as it may be.
const SHORT_KEEP: Duration = Duration::from_secs(7 * 86_400);
const DAY: Duration = Duration::from_secs(86_400);
const TWO_DAYS: Duration = Duration::from_secs(48 * 3_600);
const PURGE_INTERVAL: Duration = Duration::from_secs(6 * 3_600);
const CHECK_INTERVAL: Duration = Duration::from_secs(1_800);
/// A world that has not ended by then has work without end.
const MAX_POLLS: u64 = 20_000_000;

/// What became of one seed.
#[derive(Debug)]
pub struct Outcome {
    pub seed: u64,
    /// The first promise that was broken.
    pub broken: Option<Broken>,
    pub counts: BTreeMap<&'static str, u64>,
    /// Empty unless the story was asked for.
    pub story: Vec<String>,
    pub polls: u64,
}

struct World {
    hosts: Hosts,
    /// Deliveries of accepted events, by tenant and event id.
    accepted: Mutex<BTreeMap<(Tenant, String), u64>>,
    /// Events that were accepted for a healthy receiver while nothing went wrong, and when.
    fresh: Mutex<BTreeMap<(Tenant, String), Timestamp>>,
    /// True time and the hosts' clock at the last check.
    last_clocks: Mutex<Option<(Timestamp, Timestamp)>>,
    calm_since: Timestamp,
}

impl World {
    fn tell(&self, what: impl FnOnce() -> String) {
        self.hosts.story.tell(self.hosts.now(), what);
    }

    fn accepted(&self, tenant: &Tenant, id: String, deliveries: u64) {
        let mut accepted = self.accepted.lock().unwrap_or_else(PoisonError::into_inner);
        accepted.insert((tenant.clone(), id), deliveries);
    }
}

/// Runs the world of this seed in memory.
#[must_use]
pub fn run(seed: u64, story: Story) -> Outcome {
    run_on(seed, story, |clock| Arc::new(InMemory::new(clock)))
}

/// Runs the world of this seed on another store and other queues, which get the world's clock.
#[must_use]
pub fn run_on(seed: u64, story: Story, backend: impl FnOnce(Arc<dyn Clock>) -> Arc<dyn Backend>) -> Outcome {
    let plan = Plan::new(Memory::START, &Dice::new(seed));
    Simulation::with_plan(seed, plan, story, backend, |_| {}).live()
}

struct Simulation {
    seed: u64,
    plan: Plan,
    world: Arc<World>,
    executor: Executor,
    time: Arc<Time>,
    dice: Arc<Dice>,
    counts: Arc<Counts>,
    running: BTreeMap<u8, Arc<()>>,
    /// How many functions with the same trigger run at the same time.
    concurrency: usize,
    max_polls: u64,
    last_sweep: Timestamp,
    next_purge: Timestamp,
}

/// The last one is not on every backend.
const QUEUES: [QueueName; 3] = [QueueName::First, QueueName::Retry, QueueName::Slow];

impl Simulation {
    fn with_plan(
        seed: u64,
        plan: Plan,
        story: Story,
        backend: impl FnOnce(Arc<dyn Clock>) -> Arc<dyn Backend>,
        change: impl FnOnce(&mut Settings),
    ) -> Simulation {
        let dice = Arc::new(Dice::new(!seed));
        let time = Arc::new(Time::new(Memory::START));
        let counts = Arc::new(Counts::default());
        let backend = backend(Arc::clone(&time) as _);
        let world = World::new(&plan, story, backend, (&time, &dice, &counts), change);
        let queues = if world.hosts.backend.has_slow_queue() { QUEUES.len() } else { QUEUES.len() - 1 };
        let running = (0..queues).map(|queue| (queue as u8, Arc::new(()))).collect();
        Simulation {
            seed,
            plan,
            world: Arc::new(world),
            executor: Executor::default(),
            time,
            dice,
            counts,
            running,
            concurrency: CONCURRENCY,
            max_polls: MAX_POLLS,
            last_sweep: Memory::START,
            next_purge: Memory::START + PURGE_INTERVAL,
        }
    }

    fn live(mut self) -> Outcome {
        let broken = self.live_through().err();
        let world = &self.world;
        if let Some(broken) = &broken {
            world.tell(|| format!("BROKEN {}: {}", broken.promise, broken.what));
        }
        Outcome {
            seed: self.seed,
            broken,
            counts: self.counts.all(),
            story: world.hosts.story.lines(),
            polls: self.executor.polls,
        }
    }

    fn live_through(&mut self) -> Result<(), Broken> {
        self.begin();
        self.run_until(self.world.calm_since)?;
        self.world.tell(|| "from now on nothing goes wrong".to_owned());
        self.world.hosts.faults.end();
        let mut next_check = self.world.calm_since + checks::GRACE;
        let end = self.world.calm_since + CALM;
        while next_check < end {
            self.run_until(next_check)?;
            self.world.check_punctual()?;
            next_check = next_check + CHECK_INTERVAL;
        }
        self.run_until(end)?;
        self.world.check_all()?;
        if self.plan.is_long { self.live_on(end) } else { Ok(()) }
    }

    /// Everything is delivered or dead, and is removed in the end. What is not removed yet can be replayed, also for a second time, when its
    /// body has only been kept because of the first.
    fn live_on(&mut self, end: Timestamp) -> Result<(), Broken> {
        for after in [DAY * 3, DAY * 9] {
            self.run_until(end + after)?;
            self.executor.spawn(Arc::clone(&self.world).replay_all_kept());
        }
        self.run_until(end + DAY * 10)?;
        self.world.check_punctual()
    }

    /// Lets everything happen that happens until then.
    fn run_until(&mut self, end: Timestamp) -> Result<(), Broken> {
        loop {
            while self.executor.step(&self.dice) {
                if self.executor.polls > self.max_polls {
                    return Err(Broken::new("work ends", format!("{} polls, and no end", self.max_polls)));
                }
            }
            self.world.hosts.observer.broken()?;
            let now = self.time.now();
            if now >= self.next_purge {
                self.world.hosts.backend.purge(now);
                self.next_purge = now + PURGE_INTERVAL;
            }
            let next_sweep = self.next_sweep(now);
            if next_sweep.is_some_and(|at| at <= now) {
                self.last_sweep = now;
                self.sweep();
                continue;
            }
            if self.dispatch() {
                continue;
            }
            let ready = QUEUES.iter().enumerate().filter(|(number, _)| self.is_free(*number));
            let ready = ready.filter_map(|(_, queue)| self.world.hosts.backend.next_ready_at(*queue)).min();
            let events = [self.time.next_timer(), ready, next_sweep, Some(self.next_purge)];
            let next = events.into_iter().flatten().min().filter(|next| *next < end);
            self.time.pass_until(next.unwrap_or(end));
            if next.is_none() {
                return Ok(());
            }
        }
    }

    /// At a whole minute. A sweep that would find nothing is left out.
    fn next_sweep(&self, now: Timestamp) -> Option<Timestamp> {
        let hosts = &self.world.hosts;
        let wait = hosts.backend.next_look_at()?.since(hosts.schedule_now() + hosts::MAX_SKEW);
        let earliest = (now + wait).max(self.last_sweep + Duration::from_millis(1));
        let interval = SWEEP_INTERVAL.as_millis() as i64;
        Some(Timestamp::from_millis((earliest.as_millis() + interval - 1) / interval * interval))
    }

    fn sweep(&mut self) {
        let rates = self.world.hosts.faults.rates();
        if self.world.hosts.faults.happens(rates.missed_sweep, "fault: a sweep is missed") {
            return;
        }
        let overlapping = rates.overlapping_sweep;
        let times = 1 + usize::from(self.world.hosts.faults.happens(overlapping, "fault: sweeps overlap"));
        for _ in 0..times {
            let world = Arc::clone(&self.world);
            self.executor.spawn(async move { world.hosts.sweep().await });
        }
    }

    fn is_free(&self, queue: usize) -> bool {
        // One that is not there is never free.
        self.running.get(&(queue as u8)).is_some_and(|running| Arc::strong_count(running) <= self.concurrency)
    }

    /// Gives messages that are ready to functions. `false`: there are none, or all functions are busy.
    fn dispatch(&mut self) -> bool {
        let mut any = false;
        for (number, queue) in QUEUES.into_iter().enumerate() {
            if !self.is_free(number) {
                continue;
            }
            let max = self.dice.between(1, BATCH) as usize;
            let Ok(batch) = block_on(self.world.hosts.backend.inbox().receive(queue, max)) else { continue };
            if batch.is_empty() {
                continue;
            }
            any = true;
            let (world, running) = (Arc::clone(&self.world), Arc::clone(&self.running[&(number as u8)]));
            self.executor.spawn(async move {
                world.hosts.deliver(queue, batch).await;
                drop(running);
            });
        }
        any
    }
}

impl World {
    fn new(
        plan: &Plan,
        story: Story,
        backend: Arc<dyn Backend>,
        (time, dice, counts): (&Arc<Time>, &Arc<Dice>, &Arc<Counts>),
        change: impl FnOnce(&mut Settings),
    ) -> World {
        let faults =
            Arc::new(Faults::new(Arc::clone(time), Arc::clone(dice), Arc::clone(counts), plan.rates));
        let keep = if plan.is_long { SHORT_KEEP } else { Settings::default().keep };
        let mut settings = Settings {
            function_timeout: FUNCTION_TIMEOUT,
            http_allowed: true,
            slow_queue: plan.slow_queue && backend.has_slow_queue(),
            keep,
            ..Settings::default()
        };
        change(&mut settings);
        let story = Arc::new(story);
        let machine =
            plan.clock_settings.clone().map(|set| Arc::new(MachineClock::new(Arc::clone(time), set)));
        let observer = Arc::new(Observer::new(Arc::clone(counts)));
        let receivers = Arc::new(Receivers {
            backend: Arc::clone(&backend),
            observer: Arc::clone(&observer),
            faults: Arc::clone(&faults),
            story: Arc::clone(&story),
            machine: machine.clone(),
            http_timeout: settings.http_timeout,
            behaviours: plan.behaviours.clone(),
            requests: Mutex::default(),
        });
        let hosts = Hosts {
            settings,
            backend,
            receivers,
            faults,
            observer,
            story,
            last_writes: Arc::default(),
            versions: Arc::default(),
            deploy: plan.deploy,
            machine,
            warm: Mutex::default(),
        };
        World {
            hosts,
            accepted: Mutex::default(),
            fresh: Mutex::default(),
            last_clocks: Mutex::default(),
            calm_since: Memory::START + TROUBLE,
        }
    }

    /// Sets the counters of a URL near a threshold, as years of traffic might.
    fn preload(&self, tenant: &Tenant, url: &str, preload: Preload) {
        let key = UrlRecord::key(tenant, &UrlId::of(url));
        let found = block_on(self.hosts.backend.store().get(&[key]))
            .ok()
            .and_then(|found| found.into_iter().next().flatten());
        let Some(Record::Url(mut record)) = found.map(|found| found.record) else { return };
        let ago = |hours: u64| Some(self.hosts.now() - Duration::from_secs(hours * 3_600));
        let health = &mut record.health;
        (health.window_attempts, health.window_failures, health.streak, health.last_success_at) =
            match preload {
                Preload::Disabled => (100, 80, 5, ago(1)),
                Preload::DisabledByStreak => (9_000, 5_000, 1_999, ago(24)),
                Preload::Frozen => (9_000, 5_000, 2_000, ago(73)),
                Preload::FrozenByStreak => (9_000, 6_000, 49_999, ago(1)),
                Preload::Halved => (9_999, 6_900, 0, ago(1)),
                Preload::AtSeventy => (109, 76, 1, ago(1)),
            };
        self.tell(|| format!("{tenant}'s {url} is nearly {preload:?}"));
        let _ = block_on(self.hosts.backend.store().write(vec![Write::put(record, Expect::Any)]));
    }

    /// Loses the record of a URL, as a table might that was restored in part. Not while something is parked there, which only the next
    /// delivery for this URL would get going again.
    fn lose_record(&self, tenant: &Tenant, url: &str) {
        let id = UrlId::of(url);
        let snapshot = self.snapshot();
        let is_parked_there = |delivery: &DeliveryRecord| {
            delivery.key.tenant == *tenant
                && delivery.url_id == id
                && delivery.progress.state == DeliveryState::Parked
        };
        if snapshot.deliveries.iter().any(is_parked_there) {
            return;
        }
        self.tell(|| format!("the record of {tenant}'s {url} is lost"));
        self.hosts.faults.counts.add("fault: the record of a URL is lost");
        let lost = Write::delete(UrlRecord::key(tenant, &id), Expect::Any);
        let _ = block_on(self.hosts.backend.store().write(vec![lost]));
    }

    /// Makes waiting deliveries as old as they are before their last attempt, as two days of failures might.
    fn age_deliveries(&self) {
        let now = self.hosts.schedule_now();
        let aged = |mut delivery: DeliveryRecord| {
            let progress = &mut delivery.progress;
            // Before retry 1 the log is read.
            if progress.state != DeliveryState::Waiting
                || progress.lease.is_some()
                || !(2..11).contains(&progress.next_attempt)
            {
                return None;
            }
            let first_attempt_at = now - TWO_DAYS;
            progress.next_attempt = 11;
            progress.first_attempt_at = Some(first_attempt_at);
            progress.expires_at =
                self.hosts.settings.schedule.expires_at(progress.epoch_began_at, Some(first_attempt_at));
            progress.due_at = now;
            progress.look_at = Some(now);
            self.hosts.observer.aged(&delivery.key.id());
            Some(Write::put(delivery, Expect::Any))
        };
        for write in self.snapshot().deliveries.into_iter().filter_map(aged) {
            self.tell(|| format!("{:?} becomes old", write.key()));
            let _ = block_on(self.hosts.backend.store().write(vec![write]));
        }
    }
}
