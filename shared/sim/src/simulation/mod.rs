//! Whole worlds in virtual time: producers, people, receivers, functions with clocks of their own, and faults everywhere, all from one
//! seed. The use-cases are the real ones. `shared/sim/README.md` says how to run, read and extend it.

mod checks;
mod counts;
mod dice;
mod executor;
mod faults;
mod faulty_queue;
mod faulty_store;
mod hosts;
mod people;
mod plan;
mod receivers;
mod report;
mod story;
mod time;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use holdfast_core::engine::{NewEvent, Settings};
use holdfast_core::ids::{Tenant, UrlId};
use holdfast_core::ports::{Clock, Expect, Inbox, QueueName, Store, Write};
use holdfast_core::records::{Record, UrlRecord};
use holdfast_core::time::Timestamp;

pub use checks::Broken;
pub use counts::Counts;
pub use receivers::{Behaviour, Request};
pub use report::{BrokenSeed, FULL_RUN, Report};
pub use story::Story;

use dice::Dice;
use executor::Executor;
use faults::{Faults, Service};
use hosts::Hosts;
use plan::{CALM, Plan, Preload, TROUBLE};
use receivers::Receivers;
use time::Time;

use crate::{Memory, MemoryQueue, MemoryStore, block_on};

const FUNCTION_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a received message stays invisible.
const VISIBILITY: Duration = Duration::from_secs(180);
const BATCH: u64 = 10;
/// How many functions with the same trigger run at the same time.
const CONCURRENCY: usize = 4;
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);
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

/// Runs the world of this seed.
#[must_use]
pub fn run(seed: u64, story: Story) -> Outcome {
    Simulation::new(seed, story).run()
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
}

const QUEUES: [QueueName; 2] = [QueueName::First, QueueName::Retry];

impl Simulation {
    fn new(seed: u64, story: Story) -> Simulation {
        let dice = Arc::new(Dice::new(seed));
        let plan = Plan::new(Memory::START, &dice);
        let time = Arc::new(Time::new(Memory::START));
        let counts = Arc::new(Counts::default());
        let faults =
            Arc::new(Faults::new(Arc::clone(&time), Arc::clone(&dice), Arc::clone(&counts), plan.rates));
        let store = Arc::new(MemoryStore::new());
        let queue = Arc::new(MemoryQueue::new(Arc::clone(&time) as _, VISIBILITY));
        let settings =
            Settings { function_timeout: FUNCTION_TIMEOUT, http_allowed: true, ..Settings::default() };
        let story = Arc::new(story);
        let receivers = Arc::new(Receivers {
            store: Arc::clone(&store),
            faults: Arc::clone(&faults),
            story: Arc::clone(&story),
            http_timeout: settings.http_timeout,
            behaviours: plan.behaviours.clone(),
            requests: Mutex::default(),
        });
        let hosts = Hosts {
            settings,
            store,
            queue,
            receivers,
            faults,
            story,
            last_writes: Arc::default(),
            warm: Mutex::default(),
        };
        let world = World { hosts, accepted: Mutex::default(), calm_since: Memory::START + TROUBLE };
        let running = (0..QUEUES.len()).map(|queue| (queue as u8, Arc::new(()))).collect();
        Simulation {
            seed,
            plan,
            world: Arc::new(world),
            executor: Executor::default(),
            time,
            dice,
            counts,
            running,
        }
    }

    fn run(mut self) -> Outcome {
        let broken = self.live().err();
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

    fn live(&mut self) -> Result<(), Broken> {
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
        self.world.count_what_happened();
        self.world.check_all()
    }

    /// Everything that the plan has in store.
    fn begin(&mut self) {
        let world = || Arc::clone(&self.world);
        let tenant = |number: usize| Tenant(self.plan.tenants[number].clone());
        let mut tasks: Vec<std::pin::Pin<Box<dyn Future<Output = ()>>>> = Vec::new();
        for (number, url, event_type) in &self.plan.subscriptions {
            tasks.push(Box::pin(world().subscribe(tenant(*number), url.clone(), event_type)));
        }
        for (n, (at, number, event_type, events)) in self.plan.posts.iter().enumerate() {
            let (world, time, tenant) = (world(), Arc::clone(&self.time), tenant(*number));
            let new = |i| NewEvent { id: Some(format!("event-{n}-{i}")), ..NewEvent::new(event_type, "1") };
            let events: Vec<NewEvent> = (0..*events).map(new).collect();
            // A moment later, so that most subscriptions are there.
            let wait = at.since(Memory::START) + Duration::from_secs(60);
            tasks.push(Box::pin(async move {
                time.sleep(wait).await;
                world.post(tenant, events).await;
            }));
        }
        for at in &self.plan.actions {
            let (world, time, wait) = (world(), Arc::clone(&self.time), at.since(Memory::START));
            tasks.push(Box::pin(async move {
                time.sleep(wait).await;
                world.act().await;
            }));
        }
        for (at, is_store, lasts) in &self.plan.outages {
            let (world, time, wait) = (world(), Arc::clone(&self.time), at.since(Memory::START));
            let service = if *is_store { Service::Store } else { Service::Queue };
            let lasts = *lasts;
            tasks.push(Box::pin(async move {
                time.sleep(wait).await;
                world.tell(|| format!("{service:?} is down for {lasts:?}"));
                world.hosts.faults.take_down(service, lasts);
            }));
        }
        for (number, url, preload) in &self.plan.preloaded {
            let (world, time, tenant) = (world(), Arc::clone(&self.time), tenant(*number));
            let (url, preload) = (url.clone(), *preload);
            tasks.push(Box::pin(async move {
                time.sleep(Duration::from_secs(45)).await;
                world.preload(&tenant, &url, preload);
            }));
        }
        for task in tasks {
            self.executor.spawn(task);
        }
    }

    /// Lets everything happen that happens until then.
    fn run_until(&mut self, end: Timestamp) -> Result<(), Broken> {
        let mut next_sweep = self.next_tick(self.time.now());
        let mut next_purge = self.time.now() + PURGE_INTERVAL;
        loop {
            while self.executor.step(&self.dice) {
                if self.executor.polls > MAX_POLLS {
                    return Err(Broken::new("work ends", format!("{MAX_POLLS} polls, and no end")));
                }
            }
            let now = self.time.now();
            if now >= next_sweep {
                self.sweep();
                next_sweep = self.next_tick(now);
                continue;
            }
            if now >= next_purge {
                self.world.hosts.store.purge(now);
                next_purge = now + PURGE_INTERVAL;
            }
            if self.dispatch() {
                continue;
            }
            let ready = QUEUES.iter().enumerate().filter(|(number, _)| self.is_free(*number));
            let ready = ready.filter_map(|(_, queue)| self.world.hosts.queue.next_ready_at(*queue)).min();
            // A sweep that finds nothing is left out.
            let sweep =
                self.world.hosts.store.next_look_at().map(|at| self.next_tick_from(at.max(now), next_sweep));
            let next = [self.time.next_timer(), ready, sweep, Some(next_purge)].into_iter().flatten().min();
            match next {
                Some(next) if next < end => {
                    next_sweep = next_sweep.max(sweep.map_or(next_sweep, |at| at.min(self.next_tick(next))));
                    self.time.pass_until(next);
                }
                _ => {
                    self.time.pass_until(end);
                    return Ok(());
                }
            }
        }
    }

    /// The sweeps are at whole minutes.
    fn next_tick(&self, after: Timestamp) -> Timestamp {
        let interval = SWEEP_INTERVAL.as_millis() as i64;
        Timestamp::from_millis((after.as_millis() / interval + 1) * interval)
    }

    fn next_tick_from(&self, at: Timestamp, next_sweep: Timestamp) -> Timestamp {
        self.next_tick(at).max(next_sweep)
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
        self.running.get(&(queue as u8)).is_some_and(|running| Arc::strong_count(running) <= CONCURRENCY)
    }

    /// Gives messages that are ready to functions. `false`: there are none, or all functions are busy.
    fn dispatch(&mut self) -> bool {
        let mut any = false;
        for (number, queue) in QUEUES.into_iter().enumerate() {
            if !self.is_free(number) {
                continue;
            }
            let max = self.dice.between(1, BATCH) as usize;
            let Ok(batch) = block_on(self.world.hosts.queue.receive(queue, max)) else { continue };
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
    /// Sets the counters of a URL near a threshold, as years of traffic might.
    fn preload(&self, tenant: &Tenant, url: &str, preload: Preload) {
        let key = UrlRecord::key(tenant, &UrlId::of(url));
        let found =
            block_on(self.hosts.store.get(&[key])).ok().and_then(|found| found.into_iter().next().flatten());
        let Some(Record::Url(mut record)) = found.map(|found| found.record) else { return };
        let ago = |hours: u64| Some(self.hosts.now() - Duration::from_secs(hours * 3_600));
        let health = &mut record.health;
        (health.window_attempts, health.window_failures, health.streak, health.last_success_at) =
            match preload {
                Preload::Disabled => (100, 80, 5, ago(1)),
                Preload::DisabledByStreak => (9_000, 5_000, 1_999, ago(24)),
                Preload::Frozen => (9_000, 5_000, 2_000, ago(73)),
            };
        self.tell(|| format!("{tenant}'s {url} is nearly {preload:?}"));
        let _ = block_on(self.hosts.store.write(vec![Write::put(record, Expect::Any)]));
    }
}
