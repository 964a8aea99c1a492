//! Whether this host is ready, and what it did, for load balancers and monitoring.
//!
//! Both calls are public, so they name no URL, and no tenant unless the operator asks for it. On AWS, CloudWatch has the metrics, and there is no host to be ready.

mod metrics;
mod totals;
mod writable;

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use holdfast_core::engine::{Engine, StateCounts};
use holdfast_core::ids::Tenant;
use holdfast_core::ports::{Clock, chain};
use holdfast_core::rules::shortage::Shortage;
use holdfast_core::time::Timestamp;
use holdfast_embedded::{Embedded, EmbeddedQueue};
use serde_json::{Map, Value, json};

use crate::server::Connections;
use totals::Totals;
use writable::Writable;

/// With at most 1,000 deliveries or URLs of a tenant in each state, a count reads a million rows of an index at most.
const MAX_TENANTS_COUNTED: usize = 200;

pub(crate) struct Status {
    engine: Arc<Engine>,
    queue: Arc<EmbeddedQueue>,
    connections: Arc<Connections>,
    clock: Arc<dyn Clock>,
    totals: Mutex<Totals>,
    states: Mutex<Option<StateCounts>>,
    /// When a sweep last succeeded; before the first one, when this host started. In real milliseconds.
    last_sweep_ms: AtomicI64,
    /// The tenants that are not stored, because their keys are not.
    own_tenants: Vec<Tenant>,
    writable: Arc<Writable>,
}

impl Status {
    pub(crate) fn new(
        engine: &Arc<Engine>,
        embedded: &Arc<Embedded>,
        connections: &Arc<Connections>,
        clock: &Arc<dyn Clock>,
        own_tenants: Vec<Tenant>,
    ) -> Arc<Status> {
        Arc::new(Status {
            engine: Arc::clone(engine),
            queue: Arc::clone(&embedded.queue),
            connections: Arc::clone(connections),
            clock: Arc::clone(clock),
            totals: Mutex::default(),
            states: Mutex::default(),
            last_sweep_ms: AtomicI64::new(clock.now_real().as_millis()),
            own_tenants,
            writable: Arc::new(Writable::new(Arc::clone(embedded), Arc::clone(clock))),
        })
    }

    /// Takes what the engine counted since the last time.
    pub(crate) fn collect(&self) {
        self.lock().add(&self.engine.take_counters(), self.clock.now_real());
    }

    pub(crate) fn swept(&self) {
        self.last_sweep_ms.store(self.clock.now_real().as_millis(), Ordering::Relaxed);
    }

    /// Counts deliveries and URLs by state. If that fails, the counts stay as they were.
    pub(crate) async fn count_states(&self) {
        match self.engine.count_states(&self.own_tenants, MAX_TENANTS_COUNTED).await {
            Ok(counts) => {
                *self.states.lock().unwrap_or_else(PoisonError::into_inner) = Some(counts);
            }
            Err(error) => tracing::warn!(error = chain(&error), "deliveries and URLs could not be counted"),
        }
    }

    fn metrics(&self) -> String {
        let last_sweep = Timestamp::from_millis(self.last_sweep_ms.load(Ordering::Relaxed));
        let states = *self.states.lock().unwrap_or_else(PoisonError::into_inner);
        metrics::format(&metrics::Shown {
            counters: self.lock().counters(),
            queue: &self.queue,
            connections: &self.connections,
            states,
            last_sweep_age: self.clock.now_real().since(last_sweep),
            tenants: self.engine.tenant_counters(),
        })
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
    let text = status.metrics();
    ([(CONTENT_TYPE, metrics::CONTENT_TYPE), (CACHE_CONTROL, "no-store")], text).into_response()
}
