use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use holdfast_aws::StateCounter;
use holdfast_aws::config::Trigger;
use holdfast_core::engine::{Engine, NewSubscription, Ports, Settings};
use holdfast_core::ports::{
    AttemptRequest, AttemptResponse, AttemptResult, Clock, Inbox, NotCounted, QueueError, QueueName, Receipt,
    Received, Sender, Settlement,
};
use holdfast_core::rules::shortage::Shortage;
use holdfast_core::time::Timestamp;
use holdfast_sim::{MemoryQueue, MemoryStore, SeededEntropy, VirtualClock, me};
use lambda_runtime::{Context, LambdaEvent};
use serde_json::Value;

use crate::handler::Handler;

pub(super) const START: Timestamp = Timestamp::from_millis(1_767_225_600_000);

/// The subscription of the sample events: the first id that is made from [`SEED`].
pub(super) const SUBSCRIPTION: &str = "sub_qs6j4mf4s75m67367jqdef2c0g";
const SEED: u64 = 7;

pub(super) struct Function {
    pub(super) handler: Handler,
    pub(super) store: Arc<MemoryStore>,
    pub(super) queue: Arc<MemoryQueue>,
    pub(super) clock: Arc<VirtualClock>,
    pub(super) receiver: Arc<Receiver>,
    pub(super) inbox: Arc<RecordingInbox>,
}

/// Responds to every attempt with one status; never, if that is 0.
pub(super) struct Receiver {
    status: AtomicU32,
    pub(super) bodies: Mutex<Vec<String>>,
}

#[async_trait]
impl Sender for Receiver {
    async fn send(&self, request: AttemptRequest) -> Result<AttemptResult, Shortage> {
        self.bodies.lock().unwrap().push(String::from_utf8(request.body.to_vec()).unwrap());
        let status = self.status.load(Ordering::Relaxed) as u16;
        if status == 0 {
            std::future::pending::<()>().await;
        }
        let response = AttemptResponse::Status { status, excerpt: String::new(), retry_after: None };
        Ok(AttemptResult { response, took: Duration::from_millis(3) })
    }
}

/// Records the settlements that it is asked for, and can be made to fail or to hang.
#[derive(Default)]
pub(super) struct RecordingInbox {
    pub(super) fails: AtomicBool,
    pub(super) hangs: AtomicBool,
    pub(super) settlements: Mutex<Vec<(QueueName, String, Settlement)>>,
}

impl RecordingInbox {
    /// The receipts of the messages that are to be received again, and after how many seconds.
    pub(super) fn postponed(&self) -> Vec<(QueueName, String, u64)> {
        let settlements = self.settlements.lock().unwrap().clone();
        let postponed = settlements.into_iter().filter_map(|(queue, receipt, settlement)| match settlement {
            Settlement::RetryAfter(wait) => Some((queue, receipt, wait.as_secs())),
            _ => None,
        });
        postponed.collect()
    }
}

#[async_trait]
impl Inbox for RecordingInbox {
    /// Lambda receives the messages.
    async fn receive(&self, _: QueueName, _: usize) -> Result<Vec<Received>, QueueError> {
        Ok(Vec::new())
    }

    async fn settle(
        &self,
        queue: QueueName,
        settlements: Vec<(Receipt, Settlement)>,
    ) -> Vec<Result<(), QueueError>> {
        let result = match self.fails.load(Ordering::Relaxed) {
            true => Err(QueueError::Failed(Arc::new(std::io::Error::other("configured to fail")))),
            false => Ok(()),
        };
        let results = vec![result; settlements.len()];
        let requested = settlements.into_iter().map(|(receipt, settlement)| (queue, receipt.0, settlement));
        self.settlements.lock().unwrap().extend(requested);
        if self.hangs.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        results
    }
}

impl Function {
    /// With the one subscription that the sample events are for.
    pub(super) async fn new(trigger: Trigger) -> Function {
        let clock = Arc::new(VirtualClock::new(START));
        let store = Arc::new(MemoryStore::new());
        let queue = Arc::new(MemoryQueue::new(clock.clone(), Duration::from_secs(180)));
        let receiver = Arc::new(Receiver { status: AtomicU32::new(200), bodies: Mutex::default() });
        let inbox = Arc::new(RecordingInbox::default());
        let ports = Ports {
            store: store.clone(),
            queue: queue.clone(),
            backlog: Arc::new(NotCounted),
            sender: receiver.clone(),
            clock: clock.clone(),
            entropy: Arc::new(SeededEntropy::new(SEED)),
        };
        let engine = Engine::new(ports, Settings::default());
        let new = NewSubscription::to("https://receiver.example/orders", "*");
        let subscription = engine.subscribe(&"default".into(), new, me()).await.unwrap();
        assert_eq!(subscription.id.as_str(), SUBSCRIPTION, "the sample events are for another subscription");
        let (stack, states) = ("test".to_owned(), StateCounter::default());
        let handler = Handler { engine, inbox: inbox.clone(), trigger, stack, states };
        Function { handler, store, queue, clock, receiver, inbox }
    }

    pub(super) fn respond_with(&self, status: u16) {
        self.receiver.status.store(u32::from(status), Ordering::Relaxed);
    }

    /// Invokes the function with this much time left.
    pub(super) async fn invoke_for(&self, event: &str, left: Duration) -> Result<Value, String> {
        let mut context = Context::default();
        let ends = self.clock.now_real() + left;
        context.deadline = u64::try_from(ends.as_millis()).unwrap();
        let payload = serde_json::from_str(event).unwrap();
        let reply = self.handler.handle(LambdaEvent { payload, context }).await;
        reply.map(|reply| serde_json::to_value(reply).unwrap()).map_err(|error| error.error_message)
    }

    pub(super) async fn invoke(&self, event: &str) -> Result<Value, String> {
        self.invoke_for(event, Duration::from_secs(30)).await
    }
}

/// The response that reports these messages as failed.
pub(super) fn failures(ids: &[&str]) -> Value {
    let failures: Vec<Value> = ids.iter().map(|id| serde_json::json!({ "itemIdentifier": id })).collect();
    serde_json::json!({ "batchItemFailures": failures })
}
