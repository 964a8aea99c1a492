//! `/v1/subscriptions/{id}/ping`

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use holdfast_core::engine::PingError;
use holdfast_core::rules::delivery::AttemptOutcome;
use serde::Serialize;

use crate::auth::Admin;
use crate::path::PathId;
use crate::response::{self, Time};
use crate::{App, Problem};

/// An attempt without a delivery.
#[derive(Serialize)]
struct PingJson<'a> {
    webhook_id: String,
    at: Time,
    outcome: AttemptOutcome,
    status: Option<u16>,
    error: Option<&'a str>,
    ms: u64,
    excerpt: Option<&'a str>,
}

pub(crate) async fn ping(
    State(app): State<Arc<App>>,
    Admin { tenant, .. }: Admin,
    id: PathId,
) -> Result<Response, Problem> {
    let attempt = app.engine.ping(&tenant, &id.subscription()?).await.map_err(|error| match error {
        PingError::Unknown => Problem::not_found("subscription"),
        PingError::NotEnabled(_) => Problem::conflict(format!("Not sent: {error}; enable it first.")),
        PingError::Unavailable(error) => error.into(),
    })?;
    let ping = PingJson {
        webhook_id: attempt.key.id(),
        at: Time(attempt.at),
        outcome: attempt.outcome,
        status: attempt.status,
        error: attempt.error.as_deref(),
        ms: attempt.ms,
        excerpt: attempt.excerpt.as_deref(),
    };
    Ok(response::json(StatusCode::OK, &ping))
}
