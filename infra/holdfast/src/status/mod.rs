//! Whether this host is ready, and what it did, for load balancers and monitoring.
//!
//! Both calls are public, so they name no tenant and no URL. On AWS, CloudWatch has the metrics, and there is no host to be ready.

mod metrics;
mod totals;
mod writable;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use holdfast_core::engine::Engine;
use holdfast_core::ports::Clock;
use holdfast_core::rules::shortage::Shortage;
use holdfast_embedded::{Embedded, EmbeddedQueue};
use serde_json::{Map, Value, json};

use crate::server::Connections;
use totals::Totals;
use writable::Writable;

pub(crate) struct Status {
    engine: Arc<Engine>,
    queue: Arc<EmbeddedQueue>,
    connections: Arc<Connections>,
    clock: Arc<dyn Clock>,
    totals: Mutex<Totals>,
    writable: Arc<Writable>,
}

impl Status {
    pub(crate) fn new(
        engine: &Arc<Engine>,
        embedded: &Arc<Embedded>,
        connections: &Arc<Connections>,
        clock: &Arc<dyn Clock>,
    ) -> Arc<Status> {
        Arc::new(Status {
            engine: Arc::clone(engine),
            queue: Arc::clone(&embedded.queue),
            connections: Arc::clone(connections),
            clock: Arc::clone(clock),
            totals: Mutex::default(),
            writable: Arc::new(Writable::new(Arc::clone(embedded), Arc::clone(clock))),
        })
    }

    /// Takes what the engine counted since the last time.
    pub(crate) fn collect(&self) {
        self.lock().add(&self.engine.take_counters(), self.clock.now_real());
    }

    /// Every change leaves the sums valid, so the data behind a poisoned lock is too.
    fn lock(&self) -> MutexGuard<'_, Totals> {
        self.totals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) fn router(status: Arc<Status>) -> Router {
    Router::new().route("/readyz", get(readyz)).route("/metrics", get(metrics)).with_state(status)
}

/// A shortage does not make the host unready: else a peer that causes one could take every host out of service.
async fn readyz(State(status): State<Arc<Status>>) -> Response {
    let ready = Writable::check(&status.writable).await;
    status.collect();
    let recent = status.lock().shortages_in_last_minute(status.clock.now_real());
    let shortages: Map<String, Value> =
        Shortage::ALL.iter().map(|each| (each.as_str().to_owned(), recent[*each as usize].into())).collect();
    let mut shown = json!({ "ready": ready, "shortages": shortages });
    let mut code = StatusCode::OK;
    if !ready {
        shown["detail"] = "The store cannot write; see the log.".into();
        code = StatusCode::SERVICE_UNAVAILABLE;
    }
    (code, [(CACHE_CONTROL, "no-store")], Json(shown)).into_response()
}

async fn metrics(State(status): State<Arc<Status>>) -> Response {
    status.collect();
    let text = metrics::format(status.lock().counters(), &status.queue, &status.connections);
    ([(CONTENT_TYPE, metrics::CONTENT_TYPE), (CACHE_CONTROL, "no-store")], text).into_response()
}
