//! The functions: each invocation runs in a process with its own caches and its own clock, and may be killed at any await.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::{Either, select};
use holdfast_core::engine::{Engine, Ports, Settings};
use holdfast_core::ports::{Clock, Inbox, NotCounted, QueueName, Receipt, Received, Settlement};
use holdfast_core::time::Timestamp;

use super::executor::Mortal;
use super::faults::Faults;
use super::faulty_queue::FaultyQueue;
use super::faulty_store::{FaultyStore, LastWrites};
use super::receivers::Receivers;
use super::story::Story;
use super::time::HostClock;
use crate::{MemoryQueue, MemoryStore};

/// How far the clock of a host may be from true time.
const MAX_SKEW_MS: u64 = 1_000;
/// A process is used again so often, in 10,000 times.
const WARM: u64 = 8_000;
/// Reserved for settling a batch.
const TO_SETTLE: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Function {
    Ingest,
    Admin,
    DeliverFirst,
    DeliverRetry,
    Sweep,
}

pub(super) struct Process {
    pub(super) engine: Engine,
    pub(super) clock: Arc<HostClock>,
}

pub(super) struct Hosts {
    pub(super) settings: Settings,
    pub(super) store: Arc<MemoryStore>,
    pub(super) queue: Arc<MemoryQueue>,
    pub(super) receivers: Arc<Receivers>,
    pub(super) faults: Arc<Faults>,
    pub(super) story: Arc<Story>,
    pub(super) last_writes: Arc<LastWrites>,
    pub(super) warm: Mutex<BTreeMap<Function, Vec<Process>>>,
}

impl Hosts {
    fn start(&self) -> Process {
        let dice = &self.faults.dice;
        let skew_ms = dice.between(0, 2 * MAX_SKEW_MS) as i64 - MAX_SKEW_MS as i64;
        let clock = Arc::new(HostClock { time: Arc::clone(&self.faults.time), skew_ms });
        let faults = || Arc::clone(&self.faults);
        let ports = Ports {
            store: Arc::new(FaultyStore {
                store: Arc::clone(&self.store),
                faults: faults(),
                last_writes: Arc::clone(&self.last_writes),
            }),
            queue: Arc::new(FaultyQueue { queue: Arc::clone(&self.queue), faults: faults() }),
            backlog: Arc::new(NotCounted),
            sender: Arc::clone(&self.receivers) as _,
            clock: Arc::clone(&clock) as _,
            entropy: Arc::clone(dice) as _,
        };
        Process { engine: Engine::new(ports, self.settings.clone()), clock }
    }

    fn take(&self, function: Function) -> Process {
        let dice = &self.faults.dice;
        let mut warm = self.warm.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = warm.entry(function).or_default();
        if idle.is_empty() || !dice.happens(WARM) {
            drop(warm);
            return self.start();
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
        let time_is_over = self.faults.time.sleep(self.settings.function_timeout);
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
        if ended.is_some() {
            let mut warm = self.warm.lock().unwrap_or_else(PoisonError::into_inner);
            warm.entry(function).or_default().push(process);
        } else {
            self.story.tell(self.faults.time.now(), || format!("✝ {function:?} dies"));
        }
        ended
    }

    /// Handles a batch as the functions do.
    pub(super) async fn deliver(&self, queue: QueueName, batch: Vec<Received>) {
        let function = match queue {
            QueueName::Retry => Function::DeliverRetry,
            QueueName::First | QueueName::Slow => Function::DeliverFirst,
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
                let until = process.clock.now_real() + timeout - TO_SETTLE;
                process.engine.handle(batch, until).await
            })
            .await;
        // What is not settled becomes visible again.
        let Some(settlements) = settlements else { return };
        self.count(&settlements);
        self.faults.pass().await;
        let settled = self.queue.settle(queue, receipts.into_iter().zip(settlements).collect()).await;
        debug_assert!(settled.iter().all(Result::is_ok), "the memory queue answers");
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

    pub(super) fn now(&self) -> Timestamp {
        self.faults.time.now()
    }
}
