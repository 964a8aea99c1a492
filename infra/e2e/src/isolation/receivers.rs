//! The receivers of both tenants. They keep less than the receiver of the scenarios, because floods are large.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use axum::Router;
use axum::body::Bytes;
use axum::http::StatusCode;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::time::Instant;

use super::tally::{Mark, Tally};

/// When an event of the victim arrived.
#[derive(Clone, Debug)]
pub(super) struct Arrived {
    pub(super) at: Instant,
    pub(super) mark: Mark,
    /// The event's `data`.
    pub(super) data: Value,
}

/// The victim's receiver: answers at once. All clones are the same receiver.
#[derive(Clone)]
pub(super) struct Healthy {
    pub(super) base: String,
    arrived: Arc<Mutex<HashMap<u64, Vec<Arrived>>>>,
}

impl Healthy {
    pub(super) async fn start(tally: Tally) -> Result<Healthy> {
        let arrived: Arc<Mutex<HashMap<u64, Vec<Arrived>>>> = Arc::default();
        let seen = Arc::clone(&arrived);
        let handler = move |body: Bytes| {
            let (at, mark) = (Instant::now(), tally.mark());
            let mut event: Value = serde_json::from_slice(&body).unwrap_or_default();
            let data = event["data"].take();
            // Pings and other events of Holdfast have no number and count as events that were never posted.
            let number = data["number"].as_u64().unwrap_or(u64::MAX);
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.entry(number).or_default().push(Arrived { at, mark, data });
            std::future::ready(StatusCode::OK)
        };
        Ok(Healthy { base: serve(Router::new().fallback(handler)).await?, arrived })
    }

    /// The arrivals of the event with this number, in order.
    pub(super) fn arrivals(&self, number: u64) -> Vec<Arrived> {
        let arrived = self.arrived.lock().unwrap_or_else(PoisonError::into_inner);
        arrived.get(&number).cloned().unwrap_or_default()
    }

    pub(super) fn has(&self, number: u64) -> bool {
        self.arrived.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&number)
    }
}

/// Starts a receiver of the attacker that answers 200 to every path after `wait`, and returns its base URL.
pub(super) async fn slow(tally: Tally, wait: Duration) -> Result<String> {
    let handler = move || {
        let running = tally.start();
        async move {
            // Always times out.
            let _ = tokio::time::timeout(wait, std::future::pending::<()>()).await;
            drop(running);
            StatusCode::OK
        }
    };
    serve(Router::new().fallback(handler)).await
}

async fn serve(router: Router) -> Result<String> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let base = format!("http://{}", listener.local_addr()?);
    tokio::spawn(axum::serve(listener, router).into_future());
    Ok(base)
}
