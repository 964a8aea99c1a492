//! A whole Holdfast in memory behind the router, with a receiver that does as it is told.

use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode};
use bytes::Bytes;
use holdfast_api::{App, Keys, router};
use holdfast_core::ports::{
    Answer as Received, AttemptRequest, AttemptResult, Inbox, Outgoing, Queue, QueueName, SendError, Sender,
};
use holdfast_core::time::Timestamp;
use holdfast_core::usecases::{DeliveryLog, Engine, Ports, Settings, Verdict};
use holdfast_sim::{MemoryQueue, MemoryStore, SeededEntropy, VirtualClock};
use http_body_util::BodyExt;
use serde_json::Value;
use tower::ServiceExt;

pub(crate) const KEY: &str = "hf_test";
/// Real times do not matter, but they must not be zero: 2026-01-01.
const START: Timestamp = Timestamp::from_millis(1_767_225_600_000);

pub(crate) struct World {
    pub(crate) router: Router,
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) clock: Arc<VirtualClock>,
    pub(crate) queue: Arc<FragileQueue>,
    pub(crate) receiver: Arc<Receiver>,
    engine: Arc<Engine>,
}

/// Answers every attempt with one status, and keeps the bodies.
pub(crate) struct Receiver {
    pub(crate) status: AtomicU16,
    pub(crate) bodies: Mutex<Vec<Bytes>>,
}

#[async_trait]
impl Sender for Receiver {
    async fn send(&self, request: AttemptRequest) -> AttemptResult {
        self.bodies.lock().unwrap().push(request.body);
        let status = self.status.load(Ordering::Relaxed);
        let answer = Received::Status { status, excerpt: "as told".to_owned(), retry_after: None };
        AttemptResult { answer, took: Duration::from_millis(3) }
    }
}

/// Takes nothing while it is broken, and never answers while it hangs.
pub(crate) struct FragileQueue {
    inner: MemoryQueue,
    pub(crate) broken: AtomicBool,
    pub(crate) hangs: Mutex<Option<Hangs>>,
}

/// Where a call to the queue hangs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hangs {
    Before,
    After,
}

#[async_trait]
impl Queue for FragileQueue {
    async fn send(&self, queue: QueueName, messages: Vec<Outgoing>) -> Result<(), SendError> {
        if self.broken.load(Ordering::Relaxed) {
            return Err(SendError::Partly { unsent: messages, why: "10.0.0.7 is down".to_owned() });
        }
        let hangs = *self.hangs.lock().unwrap();
        if hangs != Some(Hangs::Before) {
            self.inner.send(queue, messages).await?;
        }
        match hangs {
            Some(_) => std::future::pending().await,
            None => Ok(()),
        }
    }
}

impl World {
    pub(crate) fn new() -> World {
        World::with(true, DeliveryLog::All)
    }

    pub(crate) fn with(http_allowed: bool, delivery_log: DeliveryLog) -> World {
        let clock = Arc::new(VirtualClock::new(START));
        let store = Arc::new(MemoryStore::new());
        let inner = MemoryQueue::new(clock.clone(), Duration::from_secs(180));
        let queue = Arc::new(FragileQueue { inner, broken: AtomicBool::new(false), hangs: Mutex::default() });
        let receiver = Arc::new(Receiver { status: AtomicU16::new(200), bodies: Mutex::default() });
        let ports = Ports {
            store: store.clone(),
            queue: queue.clone(),
            sender: receiver.clone(),
            clock: clock.clone(),
            entropy: Arc::new(SeededEntropy::new(7)),
        };
        let settings = Settings {
            http_timeout: Duration::from_secs(10),
            keep: Duration::from_secs(7 * 86_400),
            delivery_log,
            http_allowed,
            ..Settings::default()
        };
        let engine = Arc::new(Engine::new(ports, settings));
        let app = App { engine: engine.clone(), keys: Keys::single(KEY, "default".into()) };
        World { router: router(Arc::new(app)), store, clock, queue, receiver, engine }
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Told {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let told = Told {
            status: parts.status,
            headers: parts.headers,
            body: body.collect().await.unwrap().to_bytes(),
        };
        assert_eq!(told.header("cache-control"), "no-store");
        told
    }

    pub(crate) async fn call(&self, method: &str, path: &str, body: impl Into<Body>) -> Told {
        let request = Request::builder().method(method).uri(path);
        self.send(request.header("authorization", format!("Bearer {KEY}")).body(body.into()).unwrap()).await
    }

    pub(crate) async fn get(&self, path: &str) -> Told {
        self.call("GET", path, Body::empty()).await
    }

    pub(crate) async fn post(&self, path: &str, body: impl Into<Body>) -> Told {
        self.call("POST", path, body).await
    }

    /// A subscription of all events at this path of the receiver.
    pub(crate) async fn subscribe(&self, path: &str) -> Value {
        let body = format!(r#"{{"url":"https://receiver.example/{path}","event_types":["*"]}}"#);
        self.post("/v1/subscriptions", body).await.expect(StatusCode::CREATED)
    }

    /// Handles what the queues hold until they hold nothing for now.
    pub(crate) async fn work(&self) {
        loop {
            let mut worked = false;
            for name in [QueueName::First, QueueName::Retry] {
                let batch = self.queue.inner.receive(name, 10).await.unwrap();
                let receipts: Vec<_> = batch.iter().map(|received| received.receipt.clone()).collect();
                worked |= !batch.is_empty();
                let verdicts = self.engine.handle(batch, holdfast_core::time::Timestamp::MAX).await;
                assert!(verdicts.iter().all(|verdict| *verdict == Verdict::Done), "{verdicts:?}");
                self.queue.inner.delete(name, receipts).await.unwrap();
            }
            if !worked {
                return;
            }
        }
    }
}

/// An answer of the API.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Told {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    #[track_caller]
    pub(crate) fn expect(&self, status: StatusCode) -> Value {
        assert_eq!(self.status, status, "{}", String::from_utf8_lossy(&self.body));
        serde_json::from_slice(&self.body).unwrap()
    }

    /// Checks that this is a whole problem, and answers the fields that it names.
    #[track_caller]
    pub(crate) fn problem(&self, status: u16) -> Vec<String> {
        let problem = self.expect(StatusCode::from_u16(status).unwrap());
        assert_eq!(self.header("content-type"), "application/problem+json");
        assert_eq!((&problem["type"], &problem["status"]), (&"about:blank".into(), &status.into()));
        assert!(problem["title"].is_string() && !problem["detail"].as_str().unwrap().is_empty());
        let errors = problem["errors"].as_array().cloned().unwrap_or_default();
        errors.iter().map(|error| error["field"].as_str().unwrap().to_owned()).collect()
    }

    pub(crate) fn detail(&self) -> String {
        let problem: Value = serde_json::from_slice(&self.body).unwrap();
        problem["detail"].as_str().unwrap().to_owned()
    }
}
