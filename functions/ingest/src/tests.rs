//! The sample events, as API Gateway sends them, over a Holdfast in memory.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use holdfast_api::{App, Keys};
use holdfast_aws::gateway;
use holdfast_core::engine::{Engine, NewSubscription, Ports, Settings};
use holdfast_core::ports::{AttemptRequest, AttemptResult, Inbox, QueueName, Sender};
use holdfast_core::records::Message;
use holdfast_core::rules::filter::Connector;
use holdfast_core::time::Timestamp;
use holdfast_sim::{MemoryQueue, MemoryStore, SeededEntropy, VirtualClock};
use serde_json::Value;

const POST: &str = include_str!("../events/post.json");
const POST_BASE64: &str = include_str!("../events/post-base64.json");
const POST_WITHOUT_KEY: &str = include_str!("../events/post-without-key.json");

/// What the samples post as `data`, to the byte.
const DATA: &str =
    "{\"z\": 1,\n \"a\":12345678901234567890123456789012345678901, \"a\":\"\\u00e9 é \u{ffff}\"}";

/// Accepting an event makes no attempt.
struct NobodySends;

#[async_trait::async_trait]
impl Sender for NobodySends {
    async fn send(&self, _: AttemptRequest) -> AttemptResult {
        panic!("an attempt was made")
    }
}

struct World {
    router: Router,
    queue: Arc<MemoryQueue>,
}

impl World {
    async fn new() -> World {
        let clock = Arc::new(VirtualClock::new(Timestamp::from_millis(1_767_225_600_000)));
        let queue = Arc::new(MemoryQueue::new(clock.clone(), Duration::from_secs(180)));
        let ports = Ports {
            store: Arc::new(MemoryStore::new()),
            queue: queue.clone(),
            sender: Arc::new(NobodySends),
            clock,
            entropy: Arc::new(SeededEntropy::new(7)),
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
        engine.subscribe(&"default".into(), new).await.unwrap();
        let app = App { engine: Arc::new(engine), keys: Keys::single("hf_sample", "default".into()) };
        World { router: holdfast_api::router(Arc::new(app)), queue }
    }

    async fn invoke(&self, event: &str) -> Value {
        let reply = gateway::answer(self.router.clone(), serde_json::from_str(event).unwrap()).await;
        serde_json::to_value(reply.unwrap()).unwrap()
    }

    /// The body that will be delivered.
    async fn queued_body(&self) -> String {
        let received = self.queue.receive(QueueName::First, 10).await.unwrap();
        let [one] = &received[..] else { panic!("{} messages", received.len()) };
        let Ok(Message::FirstAttempt(first)) = &one.message else { panic!("{:?}", one.message) };
        String::from_utf8(first.body.clone().unwrap().to_vec()).unwrap()
    }
}

#[tokio::test]
async fn an_event_is_accepted_byte_for_byte() {
    for event in [POST, POST_BASE64] {
        let world = World::new().await;
        let reply = world.invoke(event).await;
        assert_eq!(reply["statusCode"], 202, "{reply}");
        assert_eq!(reply["isBase64Encoded"], false);
        assert_eq!(reply["headers"]["content-type"], "application/json");
        let body: Value = serde_json::from_str(reply["body"].as_str().unwrap()).unwrap();
        assert_eq!((&body["id"], &body["deliveries"]), (&"order-1".into(), &1.into()));
        assert!(world.queued_body().await.ends_with(&format!("\"data\":{DATA}}}")));
    }
}

#[tokio::test]
async fn nobody_posts_without_the_key() {
    let world = World::new().await;
    let wrong_key = POST.replace("hf_sample", "hf_guess");
    for event in [POST_WITHOUT_KEY, &wrong_key] {
        let reply = world.invoke(event).await;
        assert_eq!(reply["statusCode"], 401, "{reply}");
        assert_eq!(reply["headers"]["content-type"], "application/problem+json");
    }
    assert!(world.queue.is_empty(QueueName::First));
}
