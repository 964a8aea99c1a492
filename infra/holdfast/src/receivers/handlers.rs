use std::collections::HashMap;
use std::future;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use holdfast_api::Problem;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::bad_request;
use super::name::Name;
use super::receiver::{MAX_REQUESTS, View};
use super::record::Arrived;
use super::reply::Reply;
use super::setting::Setting;
use super::state::Receivers;

const DEFAULT_LIMIT: usize = 100;
/// Longer than any attempt waits, but limited, so that a forgotten client does not keep its connection open.
const HANG_TIMEOUT: Duration = Duration::from_secs(60);

pub(super) async fn receive(
    State(receivers): State<Arc<Receivers>>,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let name = Name::parse(name)?;
    let (reply, retry_after) = receivers.receive(&name, Arrived::new(&headers, &body))?;
    let mut response = match reply {
        Reply::Status(status) => respond(&name.text, status),
        Reply::Hang => hang().await,
    };
    if let Some(seconds) = retry_after {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    Ok(response)
}

pub(super) async fn switch(
    State(receivers): State<Arc<Receivers>>,
    Path(name): Path<String>,
    body: Bytes,
) -> Result<Json<View>, Problem> {
    let name = Name::parse(name)?;
    let setting = Setting::parse(&body)?;
    receivers.switch(&name, setting).map(Json)
}

pub(super) async fn show(
    State(receivers): State<Arc<Receivers>>,
    Path(name): Path<String>,
    Query(query): Query<HashMap<String, String>>,
) -> Result<Json<View>, Problem> {
    let name = Name::parse(name)?;
    let limit = query.get("limit").map_or(Ok(DEFAULT_LIMIT), |text| parse_limit(text))?;
    Ok(Json(receivers.show(&name, limit)))
}

pub(super) async fn forget(
    State(receivers): State<Arc<Receivers>>,
    Path(name): Path<String>,
) -> Result<StatusCode, Problem> {
    receivers.forget(&Name::parse(name)?);
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn list(State(receivers): State<Arc<Receivers>>) -> Json<Value> {
    Json(json!({ "receivers": receivers.list() }))
}

fn parse_limit(text: &str) -> Result<usize, Problem> {
    text.parse()
        .ok()
        .filter(|limit| (1..=MAX_REQUESTS).contains(limit))
        .ok_or_else(|| bad_request(format!("limit: must be a number from 1 to {MAX_REQUESTS}")))
}

/// With a short text, so that there is something to see where responses are shown.
fn respond(name: &str, status: u16) -> Response {
    // Only valid statuses can be set.
    let code = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    match status {
        // These have no body.
        204 | 205 | 304 => code.into_response(),
        _ => (code, format!("the receiver '{name}' responds {status}\n")).into_response(),
    }
}

/// The server drops this future when the client disconnects.
async fn hang() -> Response {
    // Always times out.
    let _ = timeout(HANG_TIMEOUT, future::pending::<()>()).await;
    (StatusCode::GATEWAY_TIMEOUT, "the client did not disconnect\n").into_response()
}
