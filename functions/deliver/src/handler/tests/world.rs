use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use holdfast_aws::batch::{Item, Leftovers};
use holdfast_aws::config::Trigger;
use holdfast_core::engine::{Engine, NewSubscription, Ports, Settings};
use holdfast_core::ports::{
    Answer, AttemptRequest, AttemptResult, Delay, QueueError, QueueName, Receipt, Sender,
};
use holdfast_core::rules::filter::Connector;
use holdfast_core::time::Timestamp;
use holdfast_sim::{MemoryQueue, MemoryStore, SeededEntropy, VirtualClock};
use lambda_runtime::{Context, LambdaEvent};
use serde_json::Value;

use crate::handler::Handler;

pub(super) const START: Timestamp = Timestamp::from_millis(1_767_225_600_000);

/// The subscription of the sample events: the first id that is made of [`SEED`].
pub(super) const SUBSCRIPTION: &str = "sub_qs6j4mf4s75m67367jqdef2c0g";
const SEED: u64 = 7;

pub(super) struct World {
    pub(super) handler: Handler,
    pub(super) store: Arc<MemoryStore>,
    pub(super) queue: Arc<MemoryQueue>,
    pub(super) clock: Arc<VirtualClock>,
    pub(super) receiver: Arc<Receiver>,
    pub(super) leftovers: Arc<Told>,
}

/// Answers every attempt with one status; never, if that is 0.
pub(super) struct Receiver {
    status: AtomicU32,
    pub(super) bodies: Mutex<Vec<String>>,
}

#[async_trait]
impl Sender for Receiver {
    async fn send(&self, request: AttemptRequest) -> AttemptResult {
        self.bodies.lock().unwrap().push(String::from_utf8(request.body.to_vec()).unwrap());
        let status = self.status.load(Ordering::Relaxed) as u16;
        if status == 0 {
            std::future::pending::<()>().await;
        }
        let answer = Answer::Status { status, excerpt: String::new(), retry_after: None };
        AttemptResult { answer, took: Duration::from_millis(3) }
    }
}

/// Remembers what it was told to do with messages, and can be made to fail or to hang.
#[derive(Default)]
pub(super) struct Told {
    pub(super) broken: AtomicBool,
    pub(super) hangs: AtomicBool,
    pub(super) postponed: Mutex<Vec<(QueueName, String, u64)>>,
    pub(super) dead_letters: Mutex<Vec<(QueueName, String, String)>>,
    pub(super) sent_again: Mutex<Vec<SentAgain>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SentAgain {
    pub(super) queue: QueueName,
    pub(super) text: String,
    pub(super) group: Option<String>,
    pub(super) delay_s: u16,
}

impl Told {
    async fn answer(&self) -> Result<(), QueueError> {
        if self.hangs.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        if self.broken.load(Ordering::Relaxed) {
            return Err(QueueError("told to be broken".to_owned()));
        }
        Ok(())
    }
}

#[async_trait]
impl Leftovers for Told {
    async fn postpone(&self, queue: QueueName, waits: Vec<(Receipt, Duration)>) -> Result<(), QueueError> {
        let waits = waits.into_iter().map(|(receipt, wait)| (queue, receipt.0, wait.as_secs()));
        self.postponed.lock().unwrap().extend(waits);
        self.answer().await
    }

    async fn dead_letter(&self, queue: QueueName, item: &Item, why: &str) -> Result<(), QueueError> {
        self.answer().await?;
        self.dead_letters.lock().unwrap().push((queue, item.text.clone(), why.to_owned()));
        Ok(())
    }

    async fn send_again(&self, queue: QueueName, item: &Item, delay: Delay) -> Result<(), QueueError> {
        self.answer().await?;
        let (text, group) = (item.text.clone(), item.group.clone());
        let again = SentAgain { queue, text, group, delay_s: delay.as_secs() };
        self.sent_again.lock().unwrap().push(again);
        Ok(())
    }
}

impl World {
    /// With the one subscription that the sample events are for.
    pub(super) async fn new(trigger: Trigger) -> World {
        let clock = Arc::new(VirtualClock::new(START));
        let store = Arc::new(MemoryStore::new());
        let queue = Arc::new(MemoryQueue::new(clock.clone(), Duration::from_secs(180)));
        let receiver = Arc::new(Receiver { status: AtomicU32::new(200), bodies: Mutex::default() });
        let leftovers = Arc::new(Told::default());
        let ports = Ports {
            store: store.clone(),
            queue: queue.clone(),
            sender: receiver.clone(),
            clock: clock.clone(),
            entropy: Arc::new(SeededEntropy::new(SEED)),
        };
        let engine = Engine::new(ports, Settings::default());
        let new = NewSubscription {
            url: "https://receiver.example/orders".to_owned(),
            event_types: vec!["*".to_owned()],
            filters: Vec::new(),
            filter_connector: Connector::And,
            auth_token: None,
            description: None,
            active: true,
        };
        let subscription = engine.subscribe(&"default".into(), new).await.unwrap();
        assert_eq!(subscription.id.as_str(), SUBSCRIPTION, "the sample events are for another subscription");
        let handler = Handler { engine, leftovers: leftovers.clone(), trigger, stack: "test".to_owned() };
        World { handler, store, queue, clock, receiver, leftovers }
    }

    pub(super) fn answer_with(&self, status: u16) {
        self.receiver.status.store(u32::from(status), Ordering::Relaxed);
    }

    /// Invokes the function, which has this long.
    pub(super) async fn invoke_for(&self, event: &str, left: Duration) -> Result<Value, String> {
        let mut context = Context::default();
        let ends = holdfast_core::ports::Clock::now_real(&*self.clock) + left;
        context.deadline = u64::try_from(ends.as_millis()).unwrap();
        let payload = serde_json::from_str(event).unwrap();
        let reply = self.handler.handle(LambdaEvent { payload, context }).await;
        reply.map(|reply| serde_json::to_value(reply).unwrap()).map_err(|error| error.error_message)
    }

    pub(super) async fn invoke(&self, event: &str) -> Result<Value, String> {
        self.invoke_for(event, Duration::from_secs(30)).await
    }
}

/// The answer that reports these messages as failed.
pub(super) fn failures(ids: &[&str]) -> Value {
    let failures: Vec<Value> = ids.iter().map(|id| serde_json::json!({ "itemIdentifier": id })).collect();
    serde_json::json!({ "batchItemFailures": failures })
}
