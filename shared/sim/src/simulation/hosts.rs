//! The functions: each invocation runs in a process with its own caches and its own clock, and may be killed at any await.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::{Either, select};
use holdfast_core::engine::{Engine, Ports, Settings};
use holdfast_core::ports::{Clock, NotCounted, QueueName, Receipt, Received, Settlement};
use holdfast_core::records::{DeliveryRecord, Message, Record};
use holdfast_core::rules::claim::{OnTicket, on_ticket};
use holdfast_core::time::{Now, Timestamp};

use super::backend::Backend;
use super::claims::{Claims, ProcessSender};
use super::executor::Mortal;
use super::faults::Faults;
use super::faulty_queue::FaultyQueue;
use super::faulty_store::{FaultyStore, LastWrites};
use super::observer::Observer;
use super::receivers::Receivers;
use super::story::Story;
use super::time::{HostClock, MachineClock};
use super::versions::{Deploy, Release, Versions};
use crate::block_on;

/// How far the clock of a host may be from true time.
pub(super) const MAX_SKEW: Duration = Duration::from_secs(1);
/// A process is used again so often, in 10,000 times.
const WARM: u64 = 8_000;
/// Longer than anything takes.
const ENDLESS: Duration = Duration::from_secs(3_600);
/// Reserved for settling a batch.
const TO_SETTLE: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Function {
    Ingest,
    Admin,
    DeliverFirst,
    DeliverSlow,
    DeliverRetry,
    Sweep,
}

pub(super) struct Process {
    pub(super) engine: Engine,
    pub(super) clock: Arc<dyn Clock>,
    release: Release,
    claims: Arc<Claims>,
}

pub(super) struct Hosts {
    pub(super) settings: Settings,
    pub(super) backend: Arc<dyn Backend>,
    pub(super) receivers: Arc<Receivers>,
    pub(super) faults: Arc<Faults>,
    pub(super) observer: Arc<Observer>,
    pub(super) story: Arc<Story>,
    pub(super) last_writes: Arc<LastWrites>,
    pub(super) versions: Arc<Versions>,
    pub(super) deploy: Option<Deploy>,
    /// All processes run on one machine and have its clock.
    pub(super) machine: Option<Arc<MachineClock>>,
    pub(super) warm: Mutex<BTreeMap<Function, Vec<Process>>>,
}

impl Hosts {
    fn start(&self, function: Function) -> Process {
        let release = self.release();
        let clock = self.clock();
        let claims = Arc::new(Claims::default());
        let (backend, faults) = (|| Arc::clone(&self.backend), || Arc::clone(&self.faults));
        let (observer, versions) = (|| Arc::clone(&self.observer), || Arc::clone(&self.versions));
        let store = FaultyStore {
            backend: backend(),
            faults: faults(),
            last_writes: Arc::clone(&self.last_writes),
            observer: observer(),
            versions: versions(),
            release,
            claims: Arc::clone(&claims),
            clock: Arc::clone(&clock),
        };
        let queue = FaultyQueue {
            backend: backend(),
            faults: faults(),
            observer: observer(),
            versions: versions(),
            release,
        };
        let receivers = Arc::clone(&self.receivers);
        let ports = Ports {
            store: Arc::new(store),
            queue: Arc::new(queue),
            backlog: Arc::new(NotCounted),
            sender: Arc::new(ProcessSender { receivers, faults: faults(), claims: Arc::clone(&claims) }),
            clock: Arc::clone(&clock),
            entropy: Arc::clone(&self.faults.dice) as _,
        };
        // The function that serves the queue for slow URLs sends nothing there.
        let slow_queue = self.settings.slow_queue && function == Function::DeliverFirst;
        let engine = Engine::new(ports, Settings { slow_queue, ..self.settings.clone() });
        Process { engine, clock, release, claims }
    }

    fn clock(&self) -> Arc<dyn Clock> {
        if let Some(machine) = &self.machine {
            return Arc::clone(machine) as _;
        }
        let max_ms = MAX_SKEW.as_millis() as u64;
        let skew_ms = self.faults.dice.between(0, 2 * max_ms) as i64 - max_ms as i64;
        Arc::new(HostClock { time: Arc::clone(&self.faults.time), skew_ms })
    }

    /// Which release a new process is of.
    fn release(&self) -> Release {
        let now = self.now();
        match self.deploy {
            Some(deploy) if now < deploy.begins => Release::Older,
            Some(deploy) if now < deploy.ends && self.faults.dice.happens(5_000) => Release::Older,
            Some(_) => Release::Newer,
            None => Release::Older,
        }
    }

    /// An older release is stopped when the deploy has ended.
    fn is_stopped(&self, process: &Process) -> bool {
        process.release == Release::Older && self.deploy.is_some_and(|deploy| deploy.ends <= self.now())
    }

    fn take(&self, function: Function) -> Process {
        let dice = &self.faults.dice;
        let mut warm = self.warm.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = warm.entry(function).or_default();
        idle.retain(|process| !self.is_stopped(process));
        if idle.is_empty() || !dice.happens(WARM) {
            drop(warm);
            return self.start(function);
        }
        let chosen = dice.below(idle.len() as u64) as usize;
        idle.swap_remove(chosen)
    }

    /// Runs something in a process of this function. `None`: the process was killed, or its time was over.
    pub(super) async fn run<T>(
        &self,
        function: Function,
        work: impl AsyncFnOnce(&Process) -> T,
    ) -> Option<T> {
        let process = self.take(function);
        let killed = self.faults.happens(self.faults.rates().killed, "fault: a process is killed");
        let polls_left = killed.then(|| self.faults.dice.between(1, 60) as u32);
        // On one machine no function's time is over.
        let time = if self.machine.is_some() { ENDLESS } else { self.settings.function_timeout };
        let time_is_over = self.faults.time.sleep(time);
        let ended = {
            let future = pin!(work(&process));
            match select(Mortal { future, polls_left }, time_is_over).await {
                Either::Left((ended, _)) => ended,
                Either::Right(_) => {
                    self.faults.counts.add("a function's time is over");
                    None
                }
            }
        };
        let unused = process.claims.take();
        if ended.is_some() {
            if !unused.is_empty() {
                let what = format!("{function:?} has claimed {unused:?} and left them so");
                self.observer.report("a claim is used or given back", what);
            }
            let mut warm = self.warm.lock().unwrap_or_else(PoisonError::into_inner);
            warm.entry(function).or_default().push(process);
        } else {
            self.story.tell(self.faults.time.now(), || format!("✝ {function:?} dies"));
        }
        ended
    }

    /// Which branches of the rule about tickets are taken, as far as the records are now what the function finds.
    fn count_tickets(&self, batch: &[Received]) {
        let now = self.schedule_now();
        for received in batch {
            let Ok(Message::Delivery(ticket)) = &received.message else { continue };
            let found = block_on(self.backend.store().get(&[DeliveryRecord::key(&ticket.key)]));
            let found = found.ok().and_then(|found| found.into_iter().next().flatten());
            let Some(Record::Delivery(delivery)) = found.map(|found| found.record) else { continue };
            let (progress, redelivered) = (&delivery.progress, received.receive_count > 1);
            let now = Now { schedule: now, real: now };
            self.faults.counts.add(match on_ticket(progress, ticket.number(), redelivered, now) {
                OnTicket::End => "a ticket: its delivery has moved on",
                OnTicket::ResendCurrent => "a ticket: the current one is sent again",
                OnTicket::WaitUntilDue => "a ticket: early",
                OnTicket::WaitForLease(_) => "a ticket: the attempt is being made",
                OnTicket::RecheckUrl => "a ticket: its delivery is parked",
                OnTicket::Expire => "a ticket: its delivery has expired",
                OnTicket::CountAsInterrupted => "a ticket: its attempt was taken twice",
                OnTicket::Claim => "a ticket: claimed",
            });
        }
    }

    /// Handles a batch as the functions do.
    pub(super) async fn deliver(&self, queue: QueueName, batch: Vec<Received>) {
        self.count_tickets(&batch);
        let function = match queue {
            QueueName::Retry => Function::DeliverRetry,
            QueueName::First => Function::DeliverFirst,
            QueueName::Slow => Function::DeliverSlow,
        };
        self.story.tell(self.faults.time.now(), || {
            let messages = batch.iter().map(|received| match &received.message {
                Ok(message) => format!("{message:?} ({})", received.receive_count),
                Err(error) => error.to_string(),
            });
            format!("⇒ {function:?}: {}", messages.collect::<Vec<_>>().join(", "))
        });
        let receipts: Vec<Receipt> = batch.iter().map(|received| received.receipt.clone()).collect();
        let timeout = self.settings.function_timeout;
        let settlements = self
            .run(function, async |process| {
                let is_alone = self.machine.is_some();
                let until =
                    if is_alone { Timestamp::MAX } else { process.clock.now_real() + timeout - TO_SETTLE };
                let batch = batch.into_iter().map(|one| self.versions.receive(process.release, one));
                process.engine.handle(batch.collect(), until).await
            })
            .await;
        // What is not settled becomes visible again.
        let Some(settlements) = settlements else { return };
        self.count(&settlements);
        self.faults.pass().await;
        let settlements = receipts.into_iter().zip(settlements).collect();
        let settled = block_on(self.backend.inbox().settle(queue, settlements));
        debug_assert!(settled.iter().all(Result::is_ok), "the queue answers");
    }

    fn count(&self, settlements: &[Settlement]) {
        for settlement in settlements {
            self.faults.counts.add(match settlement {
                Settlement::Delete => "a message is done",
                Settlement::RetryAfter(_) => "a message is given back",
                Settlement::Resend { .. } => "a message is sent again",
                Settlement::DeadLetter(_) => "a message becomes a dead letter",
            });
        }
    }

    pub(super) async fn sweep(&self) {
        let swept = self.run(Function::Sweep, async |process| process.engine.sweep().await).await;
        self.story.tell(self.faults.time.now(), || format!("a sweep: {swept:?}"));
        match swept {
            Some(Ok(_)) => self.faults.counts.add("a sweep"),
            Some(Err(_)) => self.faults.counts.add("a sweep fails"),
            None => {}
        }
    }

    /// True time.
    pub(super) fn now(&self) -> Timestamp {
        self.faults.time.now()
    }

    /// As the hosts have it, give or take the differences of their clocks.
    pub(super) fn schedule_now(&self) -> Timestamp {
        self.machine.as_ref().map_or_else(|| self.now(), |machine| machine.now())
    }
}
