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
use serde_json::{Value, json};
use tokio::time::timeout;

use super::name::Name;
use super::problem::Problem;
use super::receiver::{MAX_REQUESTS, View};
use super::record::Arrived;
use super::reply::Reply;
use super::setting::Setting;
use super::state::Receivers;

const SHOWN_UNLESS_TOLD: usize = 100;
/// Longer than any attempt waits, and short enough that a forgotten client does not hold its connection for ever.
const MAX_HANG: Duration = Duration::from_secs(60);

/// `POST /dev/receiver/{name}`
pub(super) async fn receive(
    State(receivers): State<Arc<Receivers>>,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let name = Name::parse(name)?;
    let (reply, retry_after) = receivers.receive(&name, Arrived::new(&headers, &body))?;
    let mut response = match reply {
        Reply::Status(status) => answer(name.as_str(), status),
        Reply::Hang => hang().await,
    };
    if let Some(seconds) = retry_after {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    Ok(response)
}

/// `PUT /dev/receiver/{name}`
pub(super) async fn switch(
    State(receivers): State<Arc<Receivers>>,
    Path(name): Path<String>,
    body: Bytes,
) -> Result<Json<View>, Problem> {
    let name = Name::parse(name)?;
    let setting = Setting::parse(&body)?;
    receivers.switch(&name, setting).map(Json)
}

/// `GET /dev/receiver/{name}?limit=`
pub(super) async fn show(
    State(receivers): State<Arc<Receivers>>,
    Path(name): Path<String>,
    Query(query): Query<HashMap<String, String>>,
) -> Result<Json<View>, Problem> {
    let name = Name::parse(name)?;
    let limit = query.get("limit").map_or(Ok(SHOWN_UNLESS_TOLD), |text| parse_limit(text))?;
    Ok(Json(receivers.show(&name, limit)))
}

/// `DELETE /dev/receiver/{name}`
pub(super) async fn forget(
    State(receivers): State<Arc<Receivers>>,
    Path(name): Path<String>,
) -> Result<StatusCode, Problem> {
    receivers.forget(&Name::parse(name)?);
    Ok(StatusCode::NO_CONTENT)
}

/// `GET /dev/receiver`
pub(super) async fn list(State(receivers): State<Arc<Receivers>>) -> Json<Value> {
    Json(json!({ "receivers": receivers.list() }))
}

fn parse_limit(text: &str) -> Result<usize, Problem> {
    text.parse()
        .ok()
        .filter(|limit| (1..=MAX_REQUESTS).contains(limit))
        .ok_or_else(|| Problem::bad_request(format!("limit: must be a number from 1 to {MAX_REQUESTS}")))
}

/// Says a little, so that there is something to see where answers are shown.
fn answer(name: &str, status: u16) -> Response {
    // Every number that a receiver can be told is a status.
    let code = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    match status {
        // These have no body.
        204 | 205 | 304 => code.into_response(),
        _ => (code, format!("the receiver '{name}' answers {status}\n")).into_response(),
    }
}

/// The server drops the handler, and this with it, when the client goes.
async fn hang() -> Response {
    // It cannot end in any other way than by running out of time.
    let _ = timeout(MAX_HANG, future::pending::<()>()).await;
    (StatusCode::GATEWAY_TIMEOUT, "nobody went away\n").into_response()
}
