//! One Holdfast in memory, run by a host that can die at any await.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use holdfast_core::engine::{
    AcceptError, Engine, NewEvent, NewSubscription, Ports, Settings, SubscriptionPatch,
};
use holdfast_core::ids::{DeliveryKey, EventKey, SubscriptionId, Tenant};
use holdfast_core::ports::{Clock, Delay, Inbox, Outgoing, Queue, QueueName, Receipt, Received, Settlement};
use holdfast_core::records::Message;
use holdfast_core::records::{EventRecord, Record, Subscription};
use holdfast_core::rules::health::OperatorAction;
use holdfast_core::time::Timestamp;

use super::in_flight::{InFlight, settle};
use super::interrupt::{Interruptible, drive};
use super::receiver::Receiver;
use crate::me;
use crate::{Memory, MemoryQueue, MemoryStore, ScriptedStore, SeededEntropy, VirtualClock, block_on};

const FUNCTION_TIMEOUT: Duration = Duration::from_secs(30);
const BATCH: usize = 10;
/// How many batches may be taken at one moment of the clock.
const MAX_BATCHES: usize = 5_000;
/// Tickets are duplicated only while fewer wait than this.
const MAX_DUPLICATED: usize = 200;
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);
/// A world that is not quiet by then never will be.
const MAX_STEPS: usize = 20_000;

/// When the host dies: after so many polls, counted over everything that it does.
#[derive(Clone, Copy, Debug)]
pub struct Crash {
    pub after_polls: usize,
}

pub struct World {
    pub clock: Arc<VirtualClock>,
    pub store: Arc<MemoryStore>,
    /// What the engines see of the store: its calls can be made to fail or to stand still.
    pub scripted: Arc<ScriptedStore>,
    pub queue: Arc<MemoryQueue>,
    pub receiver: Arc<Receiver>,
    pub tenant: Tenant,
    /// Interruptible: what the host runs.
    hosted: Engine,
    /// Not interruptible: what a person does.
    pub engine: Arc<Engine>,
    polls_left: usize,
    /// A moment, and how many batches were taken at it.
    busy_since: (Timestamp, usize),
    crashed: bool,
    deaths: bool,
    side_by_side: bool,
    random: SeededEntropy,
    /// What was answered with 202: event id and how many deliveries.
    accepted: BTreeMap<String, u64>,
}

fn settings() -> Settings {
    Settings { function_timeout: FUNCTION_TIMEOUT, http_allowed: true, ..Settings::default() }
}

impl World {
    #[must_use]
    pub fn new(seed: u64, crash: Option<Crash>) -> World {
        let mut world = World::with(seed, settings(), 1);
        world.polls_left = crash.map_or(usize::MAX, |crash| crash.after_polls);
        world
    }

    /// A world whose schedule runs `speed` times as fast as real time.
    #[must_use]
    pub fn with_speed(seed: u64, speed: u32) -> World {
        World::with(seed, settings(), speed)
    }

    /// `change` is made to the settings that every other world has.
    #[must_use]
    pub fn with_settings(seed: u64, change: impl FnOnce(&mut Settings)) -> World {
        let mut settings = settings();
        change(&mut settings);
        World::with(seed, settings, 1)
    }

    fn with(seed: u64, settings: Settings, speed: u32) -> World {
        let memory = Memory::with(seed, speed);
        let scripted = Arc::new(ScriptedStore::new(Arc::clone(&memory.store) as _));
        let plain = Ports { store: Arc::clone(&scripted) as _, ..memory.ports() };
        let interruptible = Ports {
            store: Arc::new(Interruptible(Arc::clone(&plain.store))),
            queue: Arc::new(Interruptible(Arc::clone(&plain.queue))),
            backlog: Arc::clone(&plain.backlog),
            sender: Arc::new(Interruptible(Arc::clone(&plain.sender))),
            clock: Arc::clone(&plain.clock),
            entropy: Arc::new(SeededEntropy::new(seed.wrapping_add(1))),
        };
        let Memory { clock, store, queue, receiver, tenant, .. } = memory;
        World {
            clock,
            store,
            scripted,
            queue,
            receiver,
            tenant,
            hosted: Engine::new(interruptible, settings.clone()),
            engine: Arc::new(Engine::new(plain, settings)),
            polls_left: usize::MAX,
            busy_since: (Memory::START, 0),
            crashed: false,
            deaths: false,
            side_by_side: false,
            random: SeededEntropy::new(seed.wrapping_add(2)),
            accepted: BTreeMap::new(),
        }
    }

    /// From now on the host has so long to live.
    pub fn let_host_die_after(&mut self, crash: Crash) {
        self.polls_left = crash.after_polls;
    }

    /// Whether the host has died yet: if not, every await of the scenario has had its turn.
    #[must_use]
    pub fn has_crashed(&self) -> bool {
        self.crashed
    }

    /// The host does something, and may die over it. After that it is a new host, which does not die again.
    fn hosted<F: Future>(future: F, polls_left: &mut usize, crashed: &mut bool) -> Option<F::Output> {
        let answer = drive(future, polls_left);
        if answer.is_none() {
            *crashed = true;
            *polls_left = usize::MAX;
        }
        answer
    }

    /// # Panics
    /// If the subscription is refused, which no scenario means.
    pub fn subscribe(&self, url: &str) -> Subscription {
        self.subscribe_to(url, "*")
    }

    /// # Panics
    /// If the subscription is refused, which no scenario means.
    pub fn subscribe_to(&self, url: &str, event_type: &str) -> Subscription {
        let new = NewSubscription::to(url, event_type);
        block_on(self.engine.subscribe(&self.tenant, new, me())).expect("a subscription")
    }

    /// A person enables, disables or freezes the subscription's URL.
    ///
    /// # Panics
    /// If that is refused, which no scenario means.
    pub fn change_url_state(&self, subscription: &Subscription, action: OperatorAction) {
        block_on(self.engine.change_url_state(&self.tenant, &subscription.url_id, action, None, false, me()))
            .expect("an action that is allowed");
    }

    /// A ticket appears in the retry queue, as one that was duplicated or sent by the sweep.
    ///
    /// # Panics
    /// If the memory queue does not answer.
    pub fn send_ticket(&self, message: Message) {
        let tickets = vec![Outgoing { message, delay: Delay::NONE }];
        block_on(self.queue.send(QueueName::Retry, tickets)).expect("the memory queue answers");
    }

    /// A person changes a subscription, and does so again when there is no answer: asking twice for the same is asking once.
    ///
    /// # Panics
    /// If the change is refused, which no scenario means.
    pub fn change(&mut self, id: &SubscriptionId, patch: &SubscriptionPatch) {
        loop {
            let change = self.hosted.update_subscription(&self.tenant, id, patch.clone(), me());
            match Self::hosted(change, &mut self.polls_left, &mut self.crashed) {
                Some(Ok(_)) => return,
                Some(Err(error)) => panic!("{id} was not changed: {error}"),
                None => {}
            }
        }
    }

    /// A producer posts an event, and posts it again when there is no answer. Its id makes that safe.
    ///
    /// # Panics
    /// If the event is refused.
    pub fn post(&mut self, id: &str) {
        let event = NewEvent { id: Some(id.to_owned()), ..NewEvent::new("order.created", r#"{"n": 1}"#) };
        loop {
            let accept = self.hosted.accept(&self.tenant, vec![event.clone()]);
            match Self::hosted(accept, &mut self.polls_left, &mut self.crashed) {
                Some(Ok(answer)) => {
                    self.accepted.insert(id.to_owned(), answer[0].deliveries);
                    return;
                }
                Some(Err(AcceptError::Busy { .. })) => self.clock.advance(Duration::from_secs(1)),
                Some(Err(error)) => panic!("{id} was refused: {error}"),
                None => {}
            }
        }
    }

    /// Hands one batch of this queue to the engine, which has until `until_real` for it. What is done is deleted.
    ///
    /// # Panics
    /// If the queue has nothing to be received.
    pub fn handle_until(&self, queue: QueueName, until_real: Timestamp) -> Vec<Settlement> {
        let (receipts, batch) = self.receive(queue);
        let settlements = block_on(self.engine.handle(batch, until_real));
        settle(&self.queue, queue, receipts, &settlements);
        settlements
    }

    /// Like [`Self::handle_until`], with all the time it takes.
    ///
    /// # Panics
    /// If the queue has nothing to be received.
    pub fn handle(&self, queue: QueueName) -> Vec<Settlement> {
        self.handle_until(queue, Timestamp::MAX)
    }

    /// A host takes one batch of this queue and comes to where the receiver or the store holds it.
    ///
    /// # Panics
    /// If the queue has nothing to be received, or nothing holds the host.
    pub fn begin(&self, queue: QueueName) -> InFlight {
        self.begin_until(queue, Timestamp::MAX)
    }

    /// Like [`Self::begin`]; the host's time is over at `until_real`.
    ///
    /// # Panics
    /// If the queue has nothing to be received, or nothing holds the host.
    pub fn begin_until(&self, queue: QueueName, until_real: Timestamp) -> InFlight {
        let (receipts, batch) = self.receive(queue);
        let engine = Arc::clone(&self.engine);
        let mut future = Box::pin(async move { engine.handle(batch, until_real).await });
        assert!(drive(future.as_mut(), &mut 1).is_none(), "nothing holds the host");
        InFlight { queue, receipts, inbox: Arc::clone(&self.queue), future }
    }

    fn receive(&self, queue: QueueName) -> (Vec<Receipt>, Vec<Received>) {
        let batch = block_on(self.queue.receive(queue, BATCH)).expect("the memory queue answers");
        assert!(!batch.is_empty(), "there is nothing in the queue");
        (batch.iter().map(|message| message.receipt.clone()).collect(), batch)
    }

    /// Takes one batch from each queue. Returns whether there was any.
    ///
    /// # Panics
    /// If there is no end to the work of this moment.
    pub fn work(&mut self) -> bool {
        let mut any = false;
        let now = self.clock.now();
        let batches = if self.busy_since.0 == now { self.busy_since.1 + 1 } else { 0 };
        self.busy_since = (now, batches);
        assert!(batches < MAX_BATCHES, "there is no end to the work of this moment");
        for name in [QueueName::First, QueueName::Retry] {
            let batch = block_on(self.queue.receive(name, BATCH)).expect("the memory queue answers");
            if batch.is_empty() {
                continue;
            }
            any = true;
            let receipts: Vec<_> = batch.iter().map(|m| m.receipt.clone()).collect();
            let handled = self.hosted.handle(batch, Timestamp::MAX);
            let Some(settlements) = Self::hosted(handled, &mut self.polls_left, &mut self.crashed) else {
                continue;
            };
            settle(&self.queue, name, receipts, &settlements);
        }
        any
    }

    /// Several hosts at once, each with a batch of its own, in any order of their awaits; now and then one of them dies. What
    /// `meanwhile` does happens somewhere in between. Returns whether there was any work.
    pub fn work_side_by_side(&mut self, meanwhile: impl FnOnce(&World)) -> bool {
        self.side_by_side = true;
        let mut batches = Vec::new();
        for name in [QueueName::First, QueueName::Retry].repeat(3) {
            let most = 1 + (self.random.next_u64() % 3) as usize;
            let batch = block_on(self.queue.receive(name, most)).expect("the memory queue answers");
            if !batch.is_empty() {
                batches.push((name, batch));
            }
        }
        if batches.is_empty() {
            meanwhile(self);
            return false;
        }
        let mut meanwhile = Some(meanwhile);
        let mut running: Vec<_> = batches
            .into_iter()
            .map(|(name, batch)| {
                let receipts: Vec<_> = batch.iter().map(|m| m.receipt.clone()).collect();
                (name, receipts, Box::pin(self.hosted.handle(batch, Timestamp::MAX)))
            })
            .collect();
        while !running.is_empty() {
            let dice = self.random.next_u64();
            if dice.is_multiple_of(64)
                && let Some(meanwhile) = meanwhile.take()
            {
                meanwhile(self);
            }
            let index = (dice >> 32) as usize % running.len();
            if self.deaths && (dice >> 8).is_multiple_of(200) {
                drop(running.swap_remove(index));
                continue;
            }
            let mut one_poll = 1;
            if let Some(settlements) = drive(running[index].2.as_mut(), &mut one_poll) {
                let (name, receipts, _) = running.swap_remove(index);
                settle(&self.queue, name, receipts, &settlements);
            }
        }
        if let Some(meanwhile) = meanwhile.take() {
            meanwhile(self);
        }
        true
    }

    /// One more host takes a batch of tickets and ends it, while the others stand where they are.
    ///
    /// # Panics
    /// If the memory queue does not answer.
    pub fn work_meanwhile(&self) {
        let batch = block_on(self.queue.receive(QueueName::Retry, BATCH)).expect("the memory queue answers");
        let receipts: Vec<_> = batch.iter().map(|m| m.receipt.clone()).collect();
        let settlements = block_on(self.engine.handle(batch, Timestamp::MAX));
        settle(&self.queue, QueueName::Retry, receipts, &settlements);
    }

    /// Like `run_until`, with several hosts side by side. `person` may do something at every step.
    ///
    /// # Panics
    /// If there is no end to it.
    pub fn run_side_by_side(&mut self, until: Timestamp, person: impl Fn(&World, u64)) {
        for _ in 0..MAX_STEPS {
            let dice = self.random.next_u64();
            // Once per moment: an operator who acts on every batch would make endless work.
            self.work_side_by_side(|world| person(world, dice));
            while self.work_side_by_side(|_| {}) {}
            self.sweep();
            self.duplicate_now_and_then();
            match self.next_happening() {
                Some(next) if next <= until => self.pass(next.since(self.clock.now())),
                _ => return,
            }
        }
        panic!("the simulation is not quiet after {MAX_STEPS} steps");
    }

    /// Whether hosts that run side by side die now and then.
    pub fn let_hosts_die(&mut self, deaths: bool) {
        self.deaths = deaths;
    }

    /// A sweep that would find nothing is left out: it reads every shard, and a host may die at each of them.
    pub fn sweep(&mut self) {
        if !self.store.is_overdue(self.clock.now()) {
            return;
        }
        let swept = self.hosted.sweep();
        if let Some(Err(error)) = Self::hosted(swept, &mut self.polls_left, &mut self.crashed) {
            panic!("a sweep failed: {error}");
        }
    }

    /// Sometimes every waiting ticket is duplicated. Not where many wait already: tickets that never end would double without limit.
    fn duplicate_now_and_then(&self) {
        if self.random.next_u64().is_multiple_of(8) && self.queue.len(QueueName::Retry) < MAX_DUPLICATED {
            self.queue.duplicate_all(QueueName::Retry);
        }
    }

    /// Lets time pass, from one thing that happens to the next, until `until` or until nothing is left to happen.
    ///
    /// # Panics
    /// If there is no end to it.
    pub fn run_until(&mut self, until: Timestamp) {
        for _ in 0..MAX_STEPS {
            while self.work() {}
            self.sweep();
            self.duplicate_now_and_then();
            while self.work() {}
            let next = self.next_happening();
            match next {
                Some(next) if next <= until => self.pass(next.since(self.clock.now())),
                _ => {
                    self.pass(until.since(self.clock.now()));
                    return;
                }
            }
        }
        panic!("the simulation is not quiet after {MAX_STEPS} steps");
    }

    pub fn run_for(&mut self, time: Duration) {
        self.run_until(self.clock.now() + time);
    }

    /// Like `run_for`, but sweeps only once a minute, as a host does.
    ///
    /// # Panics
    /// If there is no end to it.
    pub fn run_for_with_a_sweep_each_minute(&mut self, time: Duration) {
        let until = self.clock.now() + time;
        let mut next_sweep_at = self.clock.now();
        for _ in 0..MAX_STEPS {
            while self.work() {}
            if next_sweep_at <= self.clock.now() {
                self.sweep();
                next_sweep_at = self.clock.now() + SWEEP_INTERVAL;
                continue;
            }
            let next = self.next_ticket_at().map_or(next_sweep_at, |ticket| ticket.min(next_sweep_at));
            if next > until {
                self.pass(until.since(self.clock.now()));
                return;
            }
            self.pass(next.since(self.clock.now()));
        }
        panic!("the simulation is not quiet after {MAX_STEPS} steps");
    }

    /// Lets at least a millisecond of the schedule pass. What may be removed by then is.
    pub fn pass(&self, time: Duration) {
        self.clock.advance_schedule(time.max(Duration::from_millis(1)));
        self.store.purge(self.clock.now());
    }

    fn next_ticket_at(&self) -> Option<Timestamp> {
        let queues = [QueueName::First, QueueName::Retry].into_iter();
        queues.filter_map(|name| self.queue.next_ready_at(name)).min()
    }

    fn next_happening(&self) -> Option<Timestamp> {
        let looks = self.store.all().into_iter().filter_map(|record| record.index_entries().look_at);
        looks.chain(self.next_ticket_at()).min()
    }

    /// The delivery of an event to a subscription.
    ///
    /// # Panics
    /// If there is no such event.
    #[must_use]
    pub fn delivery(&self, event_id: &str, subscription: &Subscription) -> DeliveryKey {
        DeliveryKey {
            tenant: self.tenant.clone(),
            event_key: self.event_key(event_id).expect("an accepted event"),
            subscription_id: subscription.id.clone(),
        }
    }

    fn event_key(&self, id: &str) -> Option<EventKey> {
        let key = EventRecord::key(&self.tenant, id);
        self.store.all().into_iter().find_map(|record| match record {
            Record::Event(event) if EventRecord::key(&event.tenant, &event.id) == key => {
                Some(event.event_key)
            }
            _ => None,
        })
    }

    pub(super) fn was_side_by_side(&self) -> bool {
        self.side_by_side
    }

    pub(super) fn accepted(&self) -> &BTreeMap<String, u64> {
        &self.accepted
    }
}
