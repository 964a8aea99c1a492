//! Answers that are not problems.

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use holdfast_core::time::Timestamp;
use holdfast_core::usecases::ListPage;
use serde::{Serialize, Serializer};

use crate::cursor::ListTag;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// Answers hold secrets and change at any time.
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

pub(crate) fn json<T: Serialize>(status: StatusCode, answer: &T) -> Response {
    // Only maps with keys that are no text could fail, and answers have none.
    let body = serde_json::to_vec(answer).expect("answers are plain data");
    of_bytes(status, JSON, body)
}

pub(crate) fn of_bytes(status: StatusCode, content_type: HeaderValue, body: Vec<u8>) -> Response {
    let mut response = empty(status);
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    *response.body_mut() = Body::from(body);
    response
}

pub(crate) fn empty(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response.headers_mut().insert(CACHE_CONTROL, NO_STORE);
    response
}

#[derive(Serialize)]
struct ListAnswer<T> {
    items: Vec<T>,
    next: Option<String>,
}

/// One page of a list, with the cursor of the next.
pub(crate) fn list<'a, T, A: Serialize>(
    page: &'a ListPage<T>,
    tag: &ListTag,
    shown: impl FnMut(&'a T) -> A,
) -> Response {
    let next = page.next.as_deref().map(|next| tag.cursor(next));
    json(StatusCode::OK, &ListAnswer { items: page.items.iter().map(shown).collect(), next })
}

/// A time as the API writes it: RFC 3339 in UTC.
pub(crate) struct Time(pub(crate) Timestamp);

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}
