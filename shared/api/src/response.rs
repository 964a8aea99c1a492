//! Responses that are not problems.

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use holdfast_core::ids::Tenant;
use holdfast_core::time::Timestamp;
use serde::{Serialize, Serializer};

use crate::auth::{ListItem, ListPage};

pub(crate) const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// Responses hold secrets and change at any time.
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

pub(crate) fn ok<T: Serialize>(value: &T) -> Response {
    json(StatusCode::OK, value)
}

pub(crate) fn json<T: Serialize>(status: StatusCode, value: &T) -> Response {
    // Only maps whose keys are not strings could fail, and responses have none.
    let body = serde_json::to_vec(value).expect("responses are plain data");
    with_body(status, JSON, body)
}

pub(crate) fn with_body(status: StatusCode, content_type: HeaderValue, body: impl Into<Body>) -> Response {
    let mut response = empty(status);
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    *response.body_mut() = body.into();
    response
}

pub(crate) fn empty(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response.headers_mut().insert(CACHE_CONTROL, NO_STORE);
    response
}

/// One page of a list. In a list of all tenants each item names its tenant.
pub(crate) fn list<'a, T, J: Serialize>(
    page: &'a ListPage<T>,
    mut to_json: impl FnMut(&'a T) -> J,
) -> Response {
    #[derive(Serialize)]
    struct ItemJson<'a, J> {
        #[serde(skip_serializing_if = "Option::is_none")]
        tenant: Option<&'a Tenant>,
        #[serde(flatten)]
        item: J,
    }
    let of = |found: &'a ListItem<T>| ItemJson { tenant: found.tenant.as_ref(), item: to_json(&found.item) };
    let items = page.items.iter().map(of).collect();
    ok(&PageJson { items, next: page.next.as_deref(), partial: page.is_partial })
}

#[derive(Serialize)]
struct PageJson<'a, J> {
    items: Vec<J>,
    next: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    partial: bool,
}

/// One page of a list whose items are ready to be shown.
pub(crate) fn list_of<J: Serialize>(items: Vec<J>, next: Option<String>) -> Response {
    ok(&PageJson { items, next: next.as_deref(), partial: false })
}

/// A time as the API writes it: RFC 3339 in UTC.
pub(crate) struct Time(pub(crate) Timestamp);

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        time(&self.0, serializer)
    }
}

pub(crate) fn time<S: Serializer>(time: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(time)
}
