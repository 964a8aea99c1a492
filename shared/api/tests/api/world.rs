//! Holdfast in memory behind the router, with a receiver whose responses a test chooses.

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
use holdfast_core::engine::{DeliveryLog, Engine, Ports, Settings};
use holdfast_core::ids::Tenant;
use holdfast_core::ports::{
    AttemptRequest, AttemptResponse, AttemptResult, Delay, Feed, Inbox, NotCounted, Outgoing, Queue,
    QueueError, QueueName, Received, Refused, SendError, Sender, Settlement, Store,
};
use holdfast_core::records::Message;
use holdfast_core::rules::shortage::Shortage;
use holdfast_core::time::Timestamp;
use holdfast_sim::crash::Interruptible;
use holdfast_sim::{
    CountingStore, Memory, MemoryBacklog, MemoryQueue, MemoryStore, SeededEntropy, VirtualClock,
};
use http_body_util::BodyExt;
use serde_json::Value;
use tower::ServiceExt;

use crate::contract::{self, ApiRequest};

pub(crate) const KEY: &str = "hf_test";
/// 2026-01-01, so that the times in answers are easy to read.
const START: Timestamp = Timestamp::from_millis(1_767_225_600_000);

/// Clones are processes that share everything in memory.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) router: Router,
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) clock: Arc<VirtualClock>,
    pub(crate) queue: Arc<FragileQueue>,
    pub(crate) backlog: Arc<MemoryBacklog>,
    pub(crate) receiver: Arc<Receiver>,
    pub(crate) engine: Arc<Engine>,
}

/// Responds with one status, except at URLs that have their own, and records every request.
#[derive(Default)]
pub(crate) struct Receiver {
    pub(crate) status: AtomicU16,
    status_by_url: Mutex<HashMap<String, u16>>,
    requests: Mutex<Vec<AttemptRequest>>,
    /// The body of its responses.
    pub(crate) response_body: OnceLock<String>,
    /// Checks the URLs of subscriptions. Without it, all are allowed.
    pub(crate) guard: OnceLock<Arc<dyn Sender>>,
}

impl Receiver {
    pub(crate) fn requests_to(&self, path: &str) -> Vec<AttemptRequest> {
        let url = format!("https://receiver.example/{path}");
        self.requests.lock().unwrap().iter().filter(|request| request.url == url).cloned().collect()
    }

    /// The bodies of all requests.
    pub(crate) fn bodies(&self) -> Vec<Bytes> {
        self.requests.lock().unwrap().iter().map(|request| request.body.clone()).collect()
    }

    pub(crate) fn respond_at(&self, path: &str, status: u16) {
        self.status_by_url.lock().unwrap().insert(format!("https://receiver.example/{path}"), status);
    }
}

#[async_trait]
impl Sender for Receiver {
    async fn send(&self, request: AttemptRequest) -> Result<AttemptResult, Shortage> {
        let own = self.status_by_url.lock().unwrap().get(&request.url).copied();
        let status = own.unwrap_or_else(|| self.status.load(Ordering::Relaxed));
        self.requests.lock().unwrap().push(request);
        let excerpt = self.response_body.get().cloned().unwrap_or_else(|| "thanks".to_owned());
        let response = AttemptResponse::Status { status, excerpt, retry_after: None };
        Ok(AttemptResult { response, took: Duration::from_millis(3) })
    }

    async fn check(&self, tenant: &Tenant, url: &str) -> Result<(), Refused> {
        match self.guard.get() {
            Some(guard) => guard.check(tenant, url).await,
            None => Ok(()),
        }
    }
}

/// A queue that can fail, and hang before or after it took the messages.
pub(crate) struct FragileQueue {
    inner: Arc<MemoryQueue>,
    pub(crate) broken: AtomicBool,
    pub(crate) hangs: Mutex<Option<Hangs>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hangs {
    Before,
    After,
}

#[async_trait]
impl Queue for FragileQueue {
    async fn send(&self, queue: QueueName, messages: Vec<Outgoing>) -> Result<(), SendError> {
        if self.broken.load(Ordering::Relaxed) {
            let source = QueueError::Failed(Arc::new(std::io::Error::other("10.0.0.7 is down")));
            return Err(SendError { unsent: messages, source });
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

fn default_keys() -> Keys {
    Keys::single(KEY, "default".into())
}

impl World {
    pub(crate) fn new() -> World {
        World::with(true, DeliveryLog::All)
    }

    pub(crate) fn with(http_allowed: bool, delivery_log: DeliveryLog) -> World {
        World::build(http_allowed, delivery_log, default_keys())
    }

    /// `KEY` is valid only if it is one of these.
    pub(crate) fn with_keys(keys: Keys) -> World {
        World::build(true, DeliveryLog::All, keys)
    }

    fn build(http_allowed: bool, delivery_log: DeliveryLog, keys: Keys) -> World {
        let memory = Memory::with(7, 1);
        memory.clock.advance(START.since(Memory::START));
        let queue = FragileQueue {
            inner: memory.queue.clone(),
            broken: AtomicBool::new(false),
            hangs: Mutex::default(),
        };
        let queue = Arc::new(queue);
        let receiver = Arc::new(Receiver { status: AtomicU16::new(200), ..Receiver::default() });
        let settings = Settings {
            http_timeout: Duration::from_secs(10),
            keep: Duration::from_secs(7 * 86_400),
            delivery_log,
            http_allowed,
            ..Settings::default()
        };
        let ports = Ports { queue: queue.clone(), sender: receiver.clone(), ..memory.ports() };
        let engine = Arc::new(Engine::new(ports, settings));
        let router = router(Arc::new(App::new(engine.clone(), keys)));
        let backlog = Arc::new(memory.backlog());
        World { router, store: memory.store, clock: memory.clock, queue, backlog, receiver, engine }
    }

    /// The ports of another process with the same store, queues and time.
    pub(crate) fn ports(&self, seed: u64) -> Ports {
        Ports {
            store: self.store.clone(),
            queue: self.queue.clone(),
            backlog: self.backlog.clone(),
            sender: self.receiver.clone(),
            clock: self.clock.clone(),
            entropy: Arc::new(SeededEntropy::new(seed)),
        }
    }

    /// Another process with its own caches.
    pub(crate) fn another_process(&self) -> World {
        self.with_ports(self.ports(8), default_keys())
    }

    /// The same, with a pause before and after each call to the store, so that requests interleave.
    pub(crate) fn another_process_with_pauses(&self, keys: Keys) -> World {
        let store = Arc::new(Interruptible(self.store.clone() as Arc<dyn Store>));
        self.with_ports(Ports { store, ..self.ports(8) }, keys)
    }

    /// Another process whose reads are counted.
    pub(crate) fn with_counted_reads(&self) -> (World, Arc<CountingStore>) {
        let store = Arc::new(CountingStore::new(self.store.clone()));
        (self.with_ports(Ports { store: store.clone(), ..self.ports(8) }, default_keys()), store)
    }

    /// Another process on a host that does not count what waits, as on AWS.
    pub(crate) fn without_backlog(&self) -> World {
        self.with_ports(Ports { backlog: Arc::new(NotCounted), ..self.ports(8) }, default_keys())
    }

    /// Another process that publishes events for operators.
    pub(crate) fn with_feed(&self, feed: Arc<dyn Feed>) -> World {
        let engine = Arc::new(Engine::new(self.ports(8), self.engine.settings().clone()).with_feed(feed));
        let router = router(Arc::new(App::new(engine.clone(), default_keys())));
        World { router, engine, ..self.clone() }
    }

    fn with_ports(&self, ports: Ports, keys: Keys) -> World {
        let engine = Arc::new(Engine::new(ports, self.engine.settings().clone()));
        let router = router(Arc::new(App::new(engine.clone(), keys)));
        World { router, engine, ..self.clone() }
    }

    /// Sends a request, and compares it and its answer with the OpenAPI document.
    pub(crate) async fn send(&self, request: Request<Body>) -> Answer {
        let (request, read) = record_body(request);
        let (method, uri) = (request.method().to_string(), request.uri().clone());
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let answer = Answer {
            status: parts.status,
            headers: parts.headers,
            body: body.collect().await.unwrap().to_bytes(),
        };
        assert_eq!(answer.header("cache-control"), "no-store");
        let body = Bytes::from(std::mem::take(&mut *read.lock().unwrap()));
        let (path, query) = (uri.path().to_owned(), uri.query().unwrap_or_default().to_owned());
        contract::check(&ApiRequest { method, path, query, body }, &answer);
        answer
    }

    pub(crate) async fn call(&self, method: &str, path: &str, body: impl Into<Body>) -> Answer {
        self.call_as(KEY, method, path, body).await
    }

    pub(crate) async fn call_as(&self, key: &str, method: &str, path: &str, body: impl Into<Body>) -> Answer {
        let request = Request::builder().method(method).uri(path);
        self.send(request.header("authorization", format!("Bearer {key}")).body(body.into()).unwrap()).await
    }

    /// Creates a key. `""` for an operator key without a tenant.
    pub(crate) async fn key(&self, tenant: &str, role: &str) -> String {
        let tenant = Some(tenant).filter(|name| !name.is_empty());
        let body = serde_json::json!({"tenant": tenant, "role": role}).to_string();
        let created = self.post("/v1/keys", body).await.expect(StatusCode::CREATED);
        created["key"].as_str().unwrap().to_owned()
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.call("GET", path, Body::empty()).await
    }

    pub(crate) async fn post(&self, path: &str, body: impl Into<Body>) -> Answer {
        self.call("POST", path, body).await
    }

    pub(crate) async fn patch(&self, path: &str, body: impl Into<Body>) -> Answer {
        self.call("PATCH", path, body).await
    }

    /// Subscribes a path of the receiver to all events.
    pub(crate) async fn subscribe(&self, path: &str) -> Value {
        let body = format!(r#"{{"url":"https://receiver.example/{path}","event_types":["*"]}}"#);
        self.post("/v1/subscriptions", body).await.expect(StatusCode::CREATED)
    }

    pub(crate) fn duplicate_tickets(&self) {
        self.queue.inner.duplicate_all(QueueName::Retry);
    }

    /// Takes first-attempt messages out of their queue, for a test that handles them itself.
    pub(crate) async fn receive(&self, max: usize) -> Vec<Received> {
        let batch = self.queue.inner.receive(QueueName::First, max).await.unwrap();
        self.settle(QueueName::First, &batch, vec![Settlement::Delete; batch.len()]).await;
        batch
    }

    async fn settle(&self, queue: QueueName, batch: &[Received], settlements: Vec<Settlement>) {
        let receipts = batch.iter().map(|received| received.receipt.clone());
        let results = self.queue.inner.settle(queue, receipts.zip(settlements).collect()).await;
        assert!(results.iter().all(Result::is_ok), "{results:?}");
    }

    /// Handles messages until none is ready.
    pub(crate) async fn work(&self) {
        loop {
            let mut worked = false;
            for queue in [QueueName::First, QueueName::Retry] {
                let batch = self.queue.inner.receive(queue, 10).await.unwrap();
                worked |= !batch.is_empty();
                let settlements = self.engine.handle(batch.clone(), Timestamp::MAX).await;
                assert!(settlements.iter().all(|done| *done == Settlement::Delete), "{settlements:?}");
                self.settle(queue, &batch, settlements).await;
            }
            if !worked {
                return;
            }
        }
    }

    pub(crate) async fn sweep(&self) {
        assert_eq!(self.engine.sweep().await.unwrap().failed, 0);
    }

    /// Sends a probe ticket for this URL, and handles it.
    pub(crate) async fn probe(&self, url_id: &Value) {
        let url_id = url_id.as_str().unwrap().into();
        let message = Message::Probe { tenant: "default".into(), url_id };
        self.queue.send(QueueName::Retry, vec![Outgoing { message, delay: Delay::NONE }]).await.unwrap();
        self.work().await;
    }
}

/// Records how much of the body the router reads, because some bodies never end.
fn record_body(request: Request<Body>) -> (Request<Body>, Arc<Mutex<Vec<u8>>>) {
    let read = Arc::new(Mutex::new(Vec::new()));
    let recorder = Arc::clone(&read);
    let record = |body: Body| {
        Body::from_stream(body.into_data_stream().inspect_ok(move |piece| {
            recorder.lock().unwrap().extend_from_slice(piece);
        }))
    };
    (request.map(record), read)
}

/// An answer of the API.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
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

    /// Checks that this is a complete problem, and returns the fields that it names.
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
