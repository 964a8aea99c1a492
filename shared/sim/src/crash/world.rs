//! One Holdfast in memory, run by a host that can die at any await.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use holdfast_core::engine::{
    AcceptError, Engine, NewEvent, NewSubscription, Ports, Settings, SubscriptionPatch, Verdict,
};
use holdfast_core::ids::{DeliveryKey, EventKey, SubscriptionId, Tenant};
use holdfast_core::ports::{Clock, Inbox, Queue, QueueName, Sender, Store};
use holdfast_core::records::{EventRecord, Record, Subscription};
use holdfast_core::rules::filter::Connector;
use holdfast_core::time::Timestamp;
use serde_json::value::RawValue;

use super::interrupt::{Interruptible, drive};
use super::receiver::Receiver;
use crate::{MemoryQueue, MemoryStore, SeededEntropy, VirtualClock, block_on};

const START: Timestamp = Timestamp::from_millis(1_700_000_000_000);
const FUNCTION_TIMEOUT: Duration = Duration::from_secs(30);
const VISIBILITY: Duration = Duration::from_secs(180);
const BATCH: usize = 10;
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
    pub queue: Arc<MemoryQueue>,
    pub receiver: Arc<Receiver>,
    pub tenant: Tenant,
    /// Interruptible: what the host runs.
    hosted: Engine,
    /// Not interruptible: what a person does.
    pub engine: Engine,
    polls_left: usize,
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
        let clock = Arc::new(VirtualClock::new(START));
        let store = Arc::new(MemoryStore::new());
        let queue = Arc::new(MemoryQueue::new(Arc::clone(&clock) as _, VISIBILITY));
        let tenant = Tenant::from("default");
        let receiver = Arc::new(Receiver::new(Arc::clone(&clock), Arc::clone(&store), tenant.clone()));
        let (as_store, as_queue) =
            (Arc::clone(&store) as Arc<dyn Store>, Arc::clone(&queue) as Arc<dyn Queue>);
        let as_sender = Arc::clone(&receiver) as Arc<dyn Sender>;
        let plain = Ports {
            store: Arc::clone(&as_store),
            queue: Arc::clone(&as_queue),
            sender: Arc::clone(&as_sender),
            clock: Arc::clone(&clock) as _,
            entropy: Arc::new(SeededEntropy::new(seed)),
        };
        let paused = Ports {
            store: Arc::new(Interruptible(as_store)),
            queue: Arc::new(Interruptible(as_queue)),
            sender: Arc::new(Interruptible(as_sender)),
            clock: Arc::clone(&clock) as _,
            entropy: Arc::new(SeededEntropy::new(seed.wrapping_add(1))),
        };
        World {
            clock,
            store,
            queue,
            receiver,
            tenant,
            hosted: Engine::new(paused, settings()),
            engine: Engine::new(plain, settings()),
            polls_left: crash.map_or(usize::MAX, |crash| crash.after_polls),
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
        let new = NewSubscription {
            url: url.to_owned(),
            event_types: vec![event_type.to_owned()],
            filters: Vec::new(),
            filter_connector: Connector::And,
            auth_token: None,
            description: None,
            active: true,
        };
        block_on(self.engine.subscribe(&self.tenant, new)).expect("a subscription")
    }

    /// A person changes a subscription, and does so again when there is no answer: asking twice for the same is asking once.
    ///
    /// # Panics
    /// If the change is refused, which no scenario means.
    pub fn change(&mut self, id: &SubscriptionId, patch: &SubscriptionPatch) {
        loop {
            let change = self.hosted.update_subscription(&self.tenant, id, patch.clone());
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
        let event = NewEvent {
            id: Some(id.to_owned()),
            event_type: "order.created".to_owned(),
            subject: None,
            data: RawValue::from_string("{\"n\": 1}".to_owned()).expect("JSON"),
        };
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

    /// Takes one batch from each queue. Answers whether there was any.
    pub fn work(&mut self) -> bool {
        let mut any = false;
        for name in [QueueName::First, QueueName::Retry] {
            let batch = block_on(self.queue.receive(name, BATCH)).expect("the memory queue answers");
            if batch.is_empty() {
                continue;
            }
            any = true;
            let receipts: Vec<_> = batch.iter().map(|m| m.receipt.clone()).collect();
            let handled = self.hosted.handle(batch, Timestamp::MAX);
            let Some(verdicts) = Self::hosted(handled, &mut self.polls_left, &mut self.crashed) else {
                continue;
            };
            let done =
                receipts.into_iter().zip(verdicts).filter(|(_, v)| *v == Verdict::Done).map(|(r, _)| r);
            block_on(self.queue.delete(name, done.collect())).expect("the memory queue answers");
        }
        any
    }

    /// Several hosts at once, each with a batch of its own, in any order of their awaits; now and then one of them dies. What
    /// `meanwhile` does happens somewhere in between. Answers whether there was any work.
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
            if let Some(verdicts) = drive(running[index].2.as_mut(), &mut one_poll) {
                let (name, receipts, _) = running.swap_remove(index);
                let done =
                    receipts.into_iter().zip(verdicts).filter(|(_, v)| *v == Verdict::Done).map(|(r, _)| r);
                block_on(self.queue.delete(name, done.collect())).expect("the memory queue answers");
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
        let verdicts = block_on(self.engine.handle(batch, Timestamp::MAX));
        let done = receipts.into_iter().zip(verdicts).filter(|(_, v)| *v == Verdict::Done).map(|(r, _)| r);
        block_on(self.queue.delete(QueueName::Retry, done.collect())).expect("the memory queue answers");
    }

    /// Like `run_until`, with several hosts side by side. `person` may do something at every step.
    ///
    /// # Panics
    /// If there is no end to it.
    pub fn run_side_by_side(&mut self, until: Timestamp, person: impl Fn(&World, u64)) {
        for _ in 0..MAX_STEPS {
            let dice = self.random.next_u64();
            // Once per moment: a person who acts on every batch would make work for ever.
            self.work_side_by_side(|world| person(world, dice));
            while self.work_side_by_side(|_| {}) {}
            self.sweep();
            self.duplicate_now_and_then();
            match self.next_happening() {
                Some(next) if next <= until => {
                    self.clock.advance(next.since(self.clock.now()).max(Duration::from_millis(1)));
                }
                _ => return,
            }
        }
        panic!("the world is not quiet after {MAX_STEPS} steps");
    }

    /// Whether hosts that run side by side die now and then.
    pub fn let_hosts_die(&mut self, deaths: bool) {
        self.deaths = deaths;
    }

    pub fn sweep(&mut self) {
        let swept = self.hosted.sweep();
        if let Some(Err(error)) = Self::hosted(swept, &mut self.polls_left, &mut self.crashed) {
            panic!("a sweep failed: {error}");
        }
    }

    /// Sometimes every waiting ticket comes twice.
    fn duplicate_now_and_then(&self) {
        if self.random.next_u64().is_multiple_of(8) {
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
                Some(next) if next <= until => {
                    let wait = next.since(self.clock.now());
                    self.clock.advance(wait.max(Duration::from_millis(1)));
                }
                _ => {
                    self.clock.advance(until.since(self.clock.now()));
                    return;
                }
            }
        }
        panic!("the world is not quiet after {MAX_STEPS} steps");
    }

    pub fn run_for(&mut self, time: Duration) {
        self.run_until(self.clock.now() + time);
    }

    fn next_happening(&self) -> Option<Timestamp> {
        let looks = self.store.all().into_iter().filter_map(|record| record.index_entries().look_at);
        let tickets = [QueueName::First, QueueName::Retry]
            .into_iter()
            .filter_map(|name| self.queue.next_ready_at(name));
        looks.chain(tickets).min()
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
