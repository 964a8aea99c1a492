//! The sample events, as API Gateway sends them, over a Holdfast in memory.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use holdfast_api::{App, Keys};
use holdfast_aws::gateway;
use holdfast_core::engine::{Engine, NewEvent, Ports, Settings};
use holdfast_core::ports::{AttemptRequest, AttemptResult, Sender};
use holdfast_core::time::Timestamp;
use holdfast_sim::{MemoryQueue, MemoryStore, SeededEntropy, VirtualClock};
use serde_json::Value;
use serde_json::value::RawValue;

const SUBSCRIBE: &str = include_str!("../events/subscribe.json");
const LIST_URLS: &str = include_str!("../events/list-urls.json");
/// Its path is as API Gateway hands it over: decoded, but for `%`.
const VIEW_EVENT: &str = include_str!("../events/view-event.json");
const HEALTHZ: &str = include_str!("../events/healthz.json");

/// No call here makes an attempt.
struct NobodySends;

#[async_trait::async_trait]
impl Sender for NobodySends {
    async fn send(&self, _: AttemptRequest) -> AttemptResult {
        panic!("an attempt was made")
    }
}

struct World {
    router: Router,
    engine: Arc<Engine>,
}

impl World {
    fn new() -> World {
        let clock = Arc::new(VirtualClock::new(Timestamp::from_millis(1_767_225_600_000)));
        let ports = Ports {
            store: Arc::new(MemoryStore::new()),
            queue: Arc::new(MemoryQueue::new(clock.clone(), Duration::from_secs(180))),
            sender: Arc::new(NobodySends),
            clock,
            entropy: Arc::new(SeededEntropy::new(7)),
        };
        let engine = Arc::new(Engine::new(ports, Settings::default()));
        let app = App { engine: engine.clone(), keys: Keys::single("hf_sample", "default".into()) };
        World { router: holdfast_api::router(Arc::new(app)), engine }
    }

    /// The status and the body.
    async fn invoke(&self, event: &str) -> (u64, Value) {
        let reply = gateway::answer(self.router.clone(), serde_json::from_str(event).unwrap()).await;
        let reply = serde_json::to_value(reply.unwrap()).unwrap();
        let body = serde_json::from_str(reply["body"].as_str().unwrap()).unwrap();
        (reply["statusCode"].as_u64().unwrap(), body)
    }
}

#[tokio::test]
async fn a_subscription_is_made_and_its_url_listed() {
    let world = World::new();
    let (status, made) = world.invoke(SUBSCRIBE).await;
    assert_eq!(status, 201, "{made}");
    let (status, urls) = world.invoke(LIST_URLS).await;
    assert_eq!((status, urls["items"].as_array().unwrap().len()), (200, 1), "{urls}");
    assert_eq!(urls["items"][0]["url"], "https://receiver.example/orders");
    let frozen = LIST_URLS.replace("state=enabled", "state=frozen");
    let (_, urls) = world.invoke(&frozen).await;
    assert_eq!(urls["items"].as_array().unwrap().len(), 0, "the query counts");
}

#[tokio::test]
async fn ids_with_strange_characters_are_found() {
    let world = World::new();
    let data = RawValue::from_string("1".to_owned()).unwrap();
    let event = NewEvent {
        id: Some("a?b#c%".to_owned()),
        event_type: "order.created".to_owned(),
        subject: None,
        data,
    };
    world.engine.accept(&"default".into(), vec![event]).await.unwrap();
    let (status, body) = world.invoke(VIEW_EVENT).await;
    assert_eq!((status, &body["id"]), (200, &"a?b#c%".into()), "{body}");
}

#[tokio::test]
async fn only_healthz_needs_no_key() {
    let world = World::new();
    let (status, body) = world.invoke(HEALTHZ).await;
    assert_eq!((status, &body["status"]), (200, &"ok".into()));
    for event in [SUBSCRIBE, LIST_URLS, VIEW_EVENT] {
        let (status, _) = world.invoke(&event.replace("hf_sample", "hf_guess")).await;
        assert_eq!(status, 401);
    }
}
