//! A whole Holdfast in memory behind the router, with a receiver that does as it is told.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode};
use bytes::Bytes;
use futures_util::TryStreamExt;
use holdfast_api::{App, Keys, router};
use holdfast_core::engine::{DeliveryLog, Engine, Ports, Settings, Verdict};
use holdfast_core::ports::{
    Answer as Received, AttemptRequest, AttemptResult, Delay, Inbox, Outgoing, Queue, QueueName, Refused,
    SendError, Sender, Store,
};
use holdfast_core::records::Message;
use holdfast_core::time::Timestamp;
use holdfast_sim::crash::Interruptible;
use holdfast_sim::{MemoryQueue, MemoryStore, SeededEntropy, VirtualClock};
use http_body_util::BodyExt;
use serde_json::Value;
use tower::ServiceExt;

use crate::contract::{self, Asked};

pub(crate) const KEY: &str = "hf_test";
/// Real times do not matter, but they must not be zero: 2026-01-01.
const START: Timestamp = Timestamp::from_millis(1_767_225_600_000);

pub(crate) struct World {
    pub(crate) router: Router,
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) clock: Arc<VirtualClock>,
    pub(crate) queue: Arc<FragileQueue>,
    pub(crate) receiver: Arc<Receiver>,
    pub(crate) engine: Arc<Engine>,
}

/// Answers every attempt with one status, but for the URLs that have one of their own, and keeps what came.
#[derive(Default)]
pub(crate) struct Receiver {
    pub(crate) status: AtomicU16,
    pub(crate) status_at: Mutex<HashMap<String, u16>>,
    pub(crate) bodies: Mutex<Vec<Bytes>>,
    pub(crate) requests: Mutex<Vec<AttemptRequest>>,
    /// What it says; a few words if it is not told.
    pub(crate) says: OnceLock<String>,
    /// Checks URLs in its place; without one, all are fine.
    pub(crate) guard: OnceLock<Arc<dyn Sender>>,
}

impl Receiver {
    /// What arrived at this path.
    pub(crate) fn arrived(&self, path: &str) -> Vec<AttemptRequest> {
        let url = format!("https://receiver.example/{path}");
        self.requests.lock().unwrap().iter().filter(|request| request.url == url).cloned().collect()
    }

    pub(crate) fn answer(&self, path: &str, status: u16) {
        self.status_at.lock().unwrap().insert(format!("https://receiver.example/{path}"), status);
    }
}

#[async_trait]
impl Sender for Receiver {
    async fn send(&self, request: AttemptRequest) -> AttemptResult {
        let own = self.status_at.lock().unwrap().get(&request.url).copied();
        let status = own.unwrap_or_else(|| self.status.load(Ordering::Relaxed));
        self.bodies.lock().unwrap().push(request.body.clone());
        self.requests.lock().unwrap().push(request);
        let answer = Received::Status {
            status,
            excerpt: self.says.get().cloned().unwrap_or_else(|| "as told".to_owned()),
            retry_after: None,
        };
        AttemptResult { answer, took: Duration::from_millis(3) }
    }

    async fn check(&self, url: &str) -> Result<(), Refused> {
        match self.guard.get() {
            Some(guard) => guard.check(url).await,
            None => Ok(()),
        }
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
        World::made(http_allowed, delivery_log, Keys::single(KEY, "default".into()))
    }

    /// Without `KEY`, unless it is among these.
    pub(crate) fn with_keys(keys: Keys) -> World {
        World::made(true, DeliveryLog::All, keys)
    }

    fn made(http_allowed: bool, delivery_log: DeliveryLog, keys: Keys) -> World {
        let clock = Arc::new(VirtualClock::new(START));
        let store = Arc::new(MemoryStore::new());
        let inner = MemoryQueue::new(clock.clone(), Duration::from_secs(180));
        let queue = Arc::new(FragileQueue { inner, broken: AtomicBool::new(false), hangs: Mutex::default() });
        let receiver = Arc::new(Receiver { status: AtomicU16::new(200), ..Receiver::default() });
        let settings = Settings {
            http_timeout: Duration::from_secs(10),
            keep: Duration::from_secs(7 * 86_400),
            delivery_log,
            http_allowed,
            ..Settings::default()
        };
        let ports = Ports {
            store: store.clone(),
            queue: queue.clone(),
            sender: receiver.clone(),
            clock: clock.clone(),
            entropy: Arc::new(SeededEntropy::new(7)),
        };
        let engine = Arc::new(Engine::new(ports, settings));
        let app = App { engine: engine.clone(), keys };
        World { router: router(Arc::new(app)), store, clock, queue, receiver, engine }
    }

    /// Another process over the same store, queue and time, with caches of its own.
    pub(crate) fn beside(&self) -> World {
        self.beside_with(self.store.clone(), Keys::single(KEY, "default".into()))
    }

    /// The same, but whoever asks the store waits for it before and after, so that others come in between.
    pub(crate) fn beside_with_pauses(&self, keys: Keys) -> World {
        self.beside_with(Arc::new(Interruptible(self.store.clone() as Arc<dyn Store>)), keys)
    }

    fn beside_with(&self, store: Arc<dyn Store>, keys: Keys) -> World {
        let ports = Ports {
            store,
            queue: self.queue.clone(),
            sender: self.receiver.clone(),
            clock: self.clock.clone(),
            entropy: Arc::new(SeededEntropy::new(8)),
        };
        let engine = Arc::new(Engine::new(ports, self.engine.settings().clone()));
        let app = App { engine: engine.clone(), keys };
        World {
            router: router(Arc::new(app)),
            store: self.store.clone(),
            clock: self.clock.clone(),
            queue: self.queue.clone(),
            receiver: self.receiver.clone(),
            engine,
        }
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Told {
        let (request, heard) = listened_to(request);
        let (method, uri) = (request.method().to_string(), request.uri().clone());
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let told = Told {
            status: parts.status,
            headers: parts.headers,
            body: body.collect().await.unwrap().to_bytes(),
        };
        assert_eq!(told.header("cache-control"), "no-store");
        let body = Bytes::from(std::mem::take(&mut *heard.lock().unwrap()));
        let (path, query) = (uri.path().to_owned(), uri.query().unwrap_or_default().to_owned());
        contract::check(&Asked { method, path, query, body }, &told);
        told
    }

    pub(crate) async fn call(&self, method: &str, path: &str, body: impl Into<Body>) -> Told {
        self.call_as(KEY, method, path, body).await
    }

    pub(crate) async fn call_as(&self, key: &str, method: &str, path: &str, body: impl Into<Body>) -> Told {
        let request = Request::builder().method(method).uri(path);
        self.send(request.header("authorization", format!("Bearer {key}")).body(body.into()).unwrap()).await
    }

    /// A new key of this role for this tenant, which exists from then on. An operator's key without a tenant: `""`.
    pub(crate) async fn key(&self, tenant: &str, role: &str) -> String {
        let tenant = Some(tenant).filter(|name| !name.is_empty());
        let body = serde_json::json!({"tenant": tenant, "role": role}).to_string();
        let made = self.post("/v1/keys", body).await.expect(StatusCode::CREATED);
        made["key"].as_str().unwrap().to_owned()
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(crate) async fn get(&self, path: &str) -> Told {
        self.call("GET", path, Body::empty()).await
    }

    pub(crate) async fn post(&self, path: &str, body: impl Into<Body>) -> Told {
        self.call("POST", path, body).await
    }

    pub(crate) async fn patch(&self, path: &str, body: impl Into<Body>) -> Told {
        self.call("PATCH", path, body).await
    }

    /// A subscription of all events at this path of the receiver.
    pub(crate) async fn subscribe(&self, path: &str) -> Value {
        let body = format!(r#"{{"url":"https://receiver.example/{path}","event_types":["*"]}}"#);
        self.post("/v1/subscriptions", body).await.expect(StatusCode::CREATED)
    }

    /// Every ticket that waits comes twice.
    pub(crate) fn duplicate_tickets(&self) {
        self.queue.inner.duplicate_all(QueueName::Retry);
    }

    /// Takes first-attempt messages out of their queue, for an engine of one's own to handle.
    pub(crate) async fn receive(&self, most: usize) -> Vec<holdfast_core::ports::Received> {
        let batch = self.queue.inner.receive(QueueName::First, most).await.unwrap();
        let receipts = batch.iter().map(|received| received.receipt.clone()).collect();
        self.queue.inner.delete(QueueName::First, receipts).await.unwrap();
        batch
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

impl World {
    pub(crate) async fn sweep(&self) {
        assert_eq!(self.engine.sweep().await.unwrap().failed, 0);
    }

    /// A ticket says that this URL may be probed.
    pub(crate) async fn probe(&self, url_id: &Value) {
        let url_id = url_id.as_str().unwrap().into();
        let message = Message::Probe { tenant: "default".into(), url_id };
        self.queue.send(QueueName::Retry, vec![Outgoing { message, delay: Delay::NONE }]).await.unwrap();
        self.work().await;
    }
}

/// Keeps what the router reads of the body: some bodies never end.
fn listened_to(request: Request<Body>) -> (Request<Body>, Arc<Mutex<Vec<u8>>>) {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let heard_too = Arc::clone(&heard);
    let listened = |body: Body| {
        Body::from_stream(body.into_data_stream().inspect_ok(move |piece| {
            heard_too.lock().unwrap().extend_from_slice(piece);
        }))
    };
    (request.map(listened), heard)
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

    #[track_caller]
    pub(crate) fn json(&self, status: u16) -> Value {
        self.expect(StatusCode::from_u16(status).unwrap())
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
