//! A receiver in this process, or one elsewhere that is read from here. It serves any path, each path's response can be switched, and all
//! requests are kept.

mod remote;

use std::collections::HashMap;
use std::future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Result;
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use tokio::net::TcpListener;
use tokio::time::Instant;

use self::remote::Remote;
use crate::clock;

/// How a path responds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    Status(u16),
    /// With a `retry-after` in seconds.
    Later(u16, u32),
    /// 200, after this long.
    Slow(Duration),
    Hang,
    /// 200 to every third request, 500 to the others.
    Flaky,
}

/// One request as it arrived.
#[derive(Clone, Debug)]
pub struct Arrival {
    pub headers: HeaderMap,
    pub body: Bytes,
    pub at: Instant,
    pub real_ms: u64,
    /// The status of the response; `None` if there was none.
    pub status: Option<u16>,
}

impl Arrival {
    #[must_use]
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The delivery's id.
    #[must_use]
    pub fn webhook_id(&self) -> &str {
        self.header("webhook-id")
    }

    #[must_use]
    pub fn accepted(&self) -> bool {
        self.status.is_some_and(|status| (200..300).contains(&status))
    }
}

struct PathState {
    reply: Reply,
    arrivals: Vec<Arrival>,
}

impl Default for PathState {
    fn default() -> PathState {
        PathState { reply: Reply::Status(200), arrivals: Vec::new() }
    }
}

/// Cheap to clone; all clones are the same receiver.
#[derive(Clone)]
pub struct Receiver {
    pub base: String,
    paths: Arc<Mutex<HashMap<String, PathState>>>,
    /// Where requests arrive, if not in this process.
    remote: Option<Arc<Remote>>,
}

impl Receiver {
    /// Listens until the runtime ends.
    pub async fn start() -> Result<Receiver> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let base = format!("http://{}", listener.local_addr()?);
        let receiver = Receiver { base, paths: Arc::default(), remote: None };
        let router = Router::new().fallback(receive).with_state(receiver.clone());
        tokio::spawn(axum::serve(listener, router).into_future());
        Ok(receiver)
    }

    /// The receiver of `infra/stacks/receiver.yaml`, which is read until the runtime ends. Needs a runtime of several threads.
    #[must_use]
    pub fn at(base: &str, key: &str, client: &reqwest::Client) -> Receiver {
        let base = base.trim_end_matches('/').to_owned();
        let remote = Remote { base: base.clone(), key: key.to_owned(), client: client.clone() };
        let receiver = Receiver { base, paths: Arc::default(), remote: Some(Arc::new(remote.clone())) };
        tokio::spawn(remote.read_all(receiver.clone()));
        receiver
    }

    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    pub fn switch(&self, path: &str, reply: Reply) {
        self.paths().entry(path.to_owned()).or_default().reply = reply;
        if let Some(remote) = &self.remote {
            remote.switch(path, reply);
        }
    }

    #[must_use]
    pub fn arrivals(&self, path: &str) -> Vec<Arrival> {
        self.paths().get(path).map(|state| state.arrivals.clone()).unwrap_or_default()
    }

    #[must_use]
    pub fn count(&self, path: &str) -> usize {
        self.paths().get(path).map_or(0, |state| state.arrivals.len())
    }

    fn paths(&self) -> MutexGuard<'_, HashMap<String, PathState>> {
        self.paths.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps what arrived elsewhere.
    fn keep(&self, path: &str, arrival: Arrival) {
        self.paths().entry(path.to_owned()).or_default().arrivals.push(arrival);
    }

    /// Records the arrival and returns how to respond.
    fn record(&self, path: &str, headers: HeaderMap, body: Bytes) -> Reply {
        let mut paths = self.paths();
        let state = paths.entry(path.to_owned()).or_default();
        let reply = match state.reply {
            Reply::Flaky if state.arrivals.len() % 3 == 2 => Reply::Status(200),
            Reply::Flaky => Reply::Status(500),
            other => other,
        };
        let status = match reply {
            Reply::Status(status) | Reply::Later(status, _) => Some(status),
            Reply::Slow(_) | Reply::Flaky => Some(200),
            Reply::Hang => None,
        };
        state.arrivals.push(Arrival { headers, body, at: Instant::now(), real_ms: clock::real_ms(), status });
        reply
    }
}

async fn receive(State(receiver): State<Receiver>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    match receiver.record(uri.path(), headers, body) {
        Reply::Status(status) => code(status).into_response(),
        Reply::Later(status, seconds) => {
            let mut response = code(status).into_response();
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
            response
        }
        Reply::Slow(wait) => {
            // Always times out.
            let _ = tokio::time::timeout(wait, future::pending::<()>()).await;
            StatusCode::OK.into_response()
        }
        // The server drops this future when the client disconnects.
        Reply::Hang => future::pending().await,
        Reply::Flaky => StatusCode::OK.into_response(),
    }
}

fn code(status: u16) -> StatusCode {
    StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}
