//! The receivers of all subscriptions. Each request is checked as it comes in, and little of it is kept.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hasher};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use anyhow::Result;
use axum::body::{Body, to_bytes};
use hyper::body::Incoming;
use hyper::header::{HeaderMap, HeaderValue, RETRY_AFTER};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use standardwebhooks::Webhook;
use tokio::net::TcpListener;
use tokio::time::Instant;

use super::cast::{Behaviour, Role};
use super::payload;

const MAX_BODY_BYTES: usize = 2_000_000;
const FLAP_INTERVAL: Duration = Duration::from_millis(2_500);
/// How many requests with something wrong are described.
const MAX_FAULTS: usize = 20;

/// All requests with one `webhook-id`.
#[derive(Clone, Debug)]
pub(super) struct Received {
    pub(super) subscription: usize,
    pub(super) serial: u64,
    pub(super) event_id: String,
    /// The bytes of all its requests are the same.
    body_hash: u64,
    pub(super) requests: Vec<Heard>,
}

/// One request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heard {
    /// Since the start of the run.
    pub(super) at: Duration,
    /// `None`: it hangs, or its connection is closed.
    pub(super) status: Option<u16>,
}

impl Heard {
    pub(super) fn is_success(&self) -> bool {
        self.status.is_some_and(|status| (200..300).contains(&status))
    }
}

impl Received {
    pub(super) fn successes(&self) -> usize {
        self.requests.iter().filter(|heard| heard.is_success()).count()
    }
}

/// What is done with a request.
#[derive(Clone, Copy, Debug)]
enum Reply {
    Status(u16),
    Later(u16, u32),
    Hang,
    Close,
}

pub(super) struct Receivers {
    pub(super) base: String,
    shared: Arc<Shared>,
}

struct Shared {
    started: Instant,
    cast: Arc<Vec<Role>>,
    /// In the order of the cast.
    secrets: Vec<OnceLock<String>>,
    calm: AtomicBool,
    rng: Mutex<fastrand::Rng>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    received: HashMap<String, Received>,
    /// How many requests ended in which way.
    outcomes: BTreeMap<String, u64>,
    faults: Vec<String>,
}

impl Receivers {
    /// Listens until the runtime ends.
    pub(super) async fn start(
        cast: Arc<Vec<Role>>,
        rng: fastrand::Rng,
        started: Instant,
    ) -> Result<Receivers> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let base = format!("http://{}", listener.local_addr()?);
        let (calm, rng, state) = (AtomicBool::new(false), Mutex::new(rng), Mutex::default());
        let secrets = cast.iter().map(|_| OnceLock::new()).collect();
        let shared = Arc::new(Shared { started, cast, secrets, calm, rng, state });
        tokio::spawn(serve(listener, Arc::clone(&shared)));
        Ok(Receivers { base, shared })
    }

    /// Before the first event is posted.
    pub(super) fn learn_secret(&self, subscription: usize, secret: String) {
        // A subscription has one secret: it is created once.
        let _ = self.shared.secrets[subscription].set(secret);
    }

    /// From now on everything is accepted.
    pub(super) fn calm_down(&self) {
        self.shared.calm.store(true, Ordering::SeqCst);
    }

    /// Each subscription has two URLs, between which people move it.
    pub(super) fn url(&self, subscription: usize, is_second: bool) -> String {
        format!("{}/{subscription}/{}", self.base, if is_second { "b" } else { "a" })
    }

    pub(super) fn received(&self) -> HashMap<String, Received> {
        self.shared.state().received.clone()
    }

    pub(super) fn outcomes(&self) -> BTreeMap<String, u64> {
        self.shared.state().outcomes.clone()
    }

    pub(super) fn faults(&self) -> Vec<String> {
        self.shared.state().faults.clone()
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let _ = stream.set_nodelay(true);
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            let service = service_fn(|request| shared.respond(request));
            // An error is a server that was killed, or a connection that is closed on purpose.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn respond(&self, request: Request<Incoming>) -> io::Result<Response<Body>> {
        let (head, body) = request.into_parts();
        // A server that is killed leaves half a request.
        let body = to_bytes(Body::new(body), MAX_BODY_BYTES).await.map_err(io::Error::other)?;
        match self.record(head.uri.path(), &head.headers, &body) {
            Reply::Status(status) => Ok(answer(status)),
            Reply::Later(status, seconds) => {
                let mut response = answer(status);
                response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
                Ok(response)
            }
            // Dropped when the client disconnects.
            Reply::Hang => std::future::pending().await,
            Reply::Close => Err(io::Error::other("closed on purpose")),
        }
    }

    fn record(&self, path: &str, headers: &HeaderMap, body: &[u8]) -> Reply {
        let at = self.started.elapsed();
        let checked = self.check(path, headers, body);
        let mut state = self.state();
        let (id, subscription, serial, event_id) = match checked {
            Ok(checked) => checked,
            Err(fault) => {
                if state.faults.len() < MAX_FAULTS {
                    state.faults.push(format!("a request to {path}: {fault}"));
                }
                return Reply::Status(400);
            }
        };
        let reply = self.reply(self.cast[subscription].behaviour, serial);
        let status = match reply {
            Reply::Status(status) | Reply::Later(status, _) => Some(status),
            Reply::Hang | Reply::Close => None,
        };
        let outcome = match reply {
            Reply::Status(status) | Reply::Later(status, _) => status.to_string(),
            Reply::Hang => "hung".to_owned(),
            Reply::Close => "closed".to_owned(),
        };
        *state.outcomes.entry(outcome).or_default() += 1;
        let mut hasher = DefaultHasher::new();
        hasher.write(body);
        let body_hash = hasher.finish();
        let new = || Received { subscription, serial, event_id, body_hash, requests: Vec::new() };
        let received = state.received.entry(id.clone()).or_insert_with(new);
        received.requests.push(Heard { at, status });
        let is_same = received.subscription == subscription && received.body_hash == body_hash;
        if !is_same && state.faults.len() < MAX_FAULTS {
            state.faults.push(format!("{id} came with two bodies, or to two subscriptions"));
        }
        reply
    }

    /// The id of the delivery, the subscription, the number of the event, and its id.
    fn check(
        &self,
        path: &str,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Result<(String, usize, u64, String), String> {
        let number = path.trim_start_matches('/').split('/').next().and_then(|number| number.parse().ok());
        let Some((subscription, role)) = number.and_then(|n: usize| Some((n, self.cast.get(n)?))) else {
            return Err("no such receiver".to_owned());
        };
        let secret = self.secrets[subscription].get().ok_or("it is not subscribed yet")?;
        let webhook = Webhook::new(secret).map_err(|error| error.to_string())?;
        webhook.verify(body, headers).map_err(|error| format!("the signature is not valid: {error}"))?;
        let serial = payload::serial_of(body).ok_or("the data is not what was posted")?;
        let event: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
        let event_id = event["id"].as_str().ok_or("no event id")?.to_owned();
        if event["type"] != role.family.event_type() {
            return Err(format!("the type {} does not match", event["type"]));
        }
        let id = headers.get("webhook-id").and_then(|id| id.to_str().ok()).ok_or("no webhook-id")?;
        Ok((id.to_owned(), subscription, serial, event_id))
    }

    fn reply(&self, behaviour: Behaviour, serial: u64) -> Reply {
        if self.calm.load(Ordering::SeqCst) {
            return Reply::Status(200);
        }
        let mut rng = self.rng.lock().unwrap_or_else(PoisonError::into_inner);
        match behaviour {
            Behaviour::Succeed => Reply::Status(if rng.u8(..4) == 0 { 204 } else { 200 }),
            Behaviour::Fail => Reply::Status(if rng.u8(..4) == 0 { 410 } else { 500 }),
            Behaviour::Hang => Reply::Hang,
            Behaviour::Flap => {
                let is_up =
                    (self.started.elapsed().as_millis() / FLAP_INTERVAL.as_millis()).is_multiple_of(2);
                Reply::Status(if is_up { 200 } else { 502 })
            }
            Behaviour::RefuseShare => Reply::Status(if serial.is_multiple_of(6) { 422 } else { 200 }),
            Behaviour::Throttle if rng.bool() => {
                Reply::Later(if rng.bool() { 429 } else { 503 }, rng.u32(1..200))
            }
            Behaviour::CloseEarly if rng.bool() => Reply::Close,
            Behaviour::Throttle | Behaviour::CloseEarly => Reply::Status(200),
        }
    }
}

fn answer(status: u16) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or_default();
    response
}
