//! The number of requests to AWS, counted where the SDK sends them. They are most of what a deployment costs.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use holdfast_aws::queue::SqsQueue;
use holdfast_aws::{RequestCounter, connect};
use holdfast_core::engine::{DeliveryLog, Engine, NewEvent, NewSubscription, Ports, Settings};
use holdfast_core::ids::Tenant;
use holdfast_core::ports::{
    AttemptRequest, AttemptResponse, AttemptResult, NotCounted, Outgoing, Queue, QueueName, Receipt,
    Received, SendError, Sender, Settlement,
};
use holdfast_core::records::Message;
use holdfast_core::rules::shortage::Shortage;
use holdfast_core::time::Timestamp;
use holdfast_sim::{SeededEntropy, VirtualClock, me};

/// A full batch of the first-attempt queue.
const FULL_BATCH: usize = 100;
const POST: usize = 10;

/// Responds to every attempt with one status.
struct Receiver(AtomicU16);

#[async_trait]
impl Sender for Receiver {
    async fn send(&self, _: AttemptRequest) -> Result<AttemptResult, Shortage> {
        let status = self.0.load(Ordering::Relaxed);
        let response = AttemptResponse::Status { status, excerpt: String::new(), retry_after: None };
        Ok(AttemptResult { response, took: Duration::from_millis(1) })
    }
}

/// Sends to SQS and keeps the messages, which the event source mapping would hand to a function. Its requests are not counted.
struct RecordingQueue {
    queue: SqsQueue,
    sent: Mutex<Vec<Message>>,
}

#[async_trait]
impl Queue for RecordingQueue {
    async fn send(&self, queue: QueueName, messages: Vec<Outgoing>) -> Result<(), SendError> {
        self.sent.lock().unwrap().extend(messages.iter().map(|outgoing| outgoing.message.clone()));
        self.queue.send(queue, messages).await
    }
}

struct Deployment {
    engine: Engine,
    queue: Arc<RecordingQueue>,
    clock: Arc<VirtualClock>,
    receiver: Arc<Receiver>,
    counter: RequestCounter,
    tenant: Tenant,
}

/// Requests to DynamoDB and to SQS.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Requests {
    dynamodb: u64,
    sqs: u64,
}

impl Deployment {
    /// With one subscription to all events, and with warm caches.
    async fn new(delivery_log: DeliveryLog) -> Deployment {
        let counter = RequestCounter::new();
        let store = crate::dynamo::Table::create().await.store_through(counter.clone());
        let (_, urls) = crate::emulator::queues(Duration::from_secs(30)).await;
        let sdk = connect::to_emulator(&crate::emulator::endpoint(), crate::emulator::TIMEOUTS).await;
        let sqs = aws_sdk_sqs::config::Builder::from(&sdk).interceptor(counter.clone()).build();
        let clock = Arc::new(VirtualClock::new(Timestamp::from_millis(1_767_225_600_000)));
        let queue = Arc::new(RecordingQueue {
            queue: SqsQueue::new(aws_sdk_sqs::Client::from_conf(sqs), urls, 1),
            sent: Mutex::default(),
        });
        let receiver = Arc::new(Receiver(AtomicU16::new(200)));
        let ports = Ports {
            store: Arc::new(store),
            queue: queue.clone(),
            backlog: Arc::new(NotCounted),
            sender: receiver.clone(),
            clock: clock.clone(),
            entropy: Arc::new(SeededEntropy::new(1)),
        };
        let settings = Settings { delivery_log, ..Settings::default() };
        let tenant = Tenant::from("default");
        let deployment =
            Deployment { engine: Engine::new(ports, settings), queue, clock, receiver, counter, tenant };
        deployment.subscribe().await;
        deployment.post(1, "warm").await;
        deployment.handle(1).await;
        deployment.counter.take();
        deployment
    }

    async fn subscribe(&self) {
        let new = NewSubscription::to("https://shop.example/hook", "*");
        self.engine.subscribe(&self.tenant, new, me()).await.unwrap();
    }

    /// One post; with ids that begin with `name`, if it is not empty.
    async fn post(&self, events: usize, name: &str) {
        let event = |n: usize| NewEvent {
            id: (!name.is_empty()).then(|| format!("{name}-{n}")),
            ..NewEvent::new("order.created", &format!("{{\"number\": {n}}}"))
        };
        let accepted = self.engine.accept(&self.tenant, (0..events).map(event).collect()).await.unwrap();
        assert!(accepted.iter().all(|one| one.deliveries == 1 && !one.duplicate));
        // As the functions do at the end of an invocation.
        self.engine.flush_activity(false).await;
    }

    /// Handles all sent messages, in batches of this size.
    async fn handle(&self, batch: usize) {
        let sent = std::mem::take(&mut *self.queue.sent.lock().unwrap());
        assert!(!sent.is_empty());
        for messages in sent.chunks(batch) {
            let received = messages.iter().enumerate().map(|(n, message)| Received {
                message: Ok(message.clone()),
                receipt: Receipt(n.to_string()),
                receive_count: 1,
                body_is_stored: false,
            });
            let settlements = self.engine.handle(received.collect(), Timestamp::MAX).await;
            assert!(settlements.iter().all(|one| *one == Settlement::Delete), "{settlements:?}");
            self.engine.flush_activity(false).await;
        }
    }

    /// The requests since the last call.
    fn requests(&self, of: &str) -> Requests {
        let counts: BTreeMap<String, u64> = self.counter.take();
        println!("{of}: {counts:?}");
        let of =
            |service: &str| counts.iter().filter(|(name, _)| name.starts_with(service)).map(|(_, n)| n).sum();
        let requests = Requests { dynamodb: of("DynamoDB."), sqs: of("SQS.") };
        assert_eq!(
            requests.dynamodb + requests.sqs,
            counts.values().sum::<u64>(),
            "no other service is called"
        );
        requests
    }

    /// A hundred events in posts of ten, delivered at once in full batches.
    async fn deliver_a_hundred(&self, of: &str, ids: bool) -> Requests {
        for post in 0..FULL_BATCH / POST {
            self.post(POST, &if ids { format!("{of}-{post}") } else { String::new() }).await;
        }
        self.handle(FULL_BATCH).await;
        self.requests(of)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_is_delivered_at_once_is_cheap() {
    let trouble = Deployment::new(DeliveryLog::Trouble).await;
    let plain = trouble.deliver_a_hundred("trouble", false).await;
    assert!(plain.sqs <= 15 && plain.dynamodb <= 35, "{plain:?}");
    let with_ids = trouble.deliver_a_hundred("trouble, with ids", true).await;
    assert!(with_ids.sqs <= 15 && with_ids.dynamodb <= 55, "{with_ids:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn logging_every_delivery_costs_little_more() {
    let all = Deployment::new(DeliveryLog::All).await;
    let plain = all.deliver_a_hundred("all", false).await;
    assert!(plain.sqs <= 15 && plain.dynamodb <= 35 + 10, "{plain:?}");
    let with_ids = all.deliver_a_hundred("all, with ids", true).await;
    assert!(with_ids.sqs <= 15 && with_ids.dynamodb <= 55 + 10, "{with_ids:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_attempt_takes_at_most_three_requests_besides_health() {
    let deployment = Deployment::new(DeliveryLog::Trouble).await;
    deployment.receiver.0.store(500, Ordering::Relaxed);
    deployment.post(POST, "").await;
    deployment.requests("accepted");
    deployment.handle(POST).await;
    let first = deployment.requests("first attempts that failed");
    let health = 1;
    // Ten failures in a row are trouble, which a ticket announces: once, not for each attempt.
    let announcement_ticket = 1;
    assert!(first.dynamodb <= 3 * POST as u64 + health && first.sqs <= 1 + announcement_ticket, "{first:?}");
    deployment.clock.advance(Duration::from_secs(85));
    deployment.handle(POST).await;
    let retries = deployment.requests("retries that failed");
    // The ticket is handled with them.
    let announcement = 12;
    assert!(retries.dynamodb <= 3 * POST as u64 + health + announcement && retries.sqs <= 2, "{retries:?}");
}
