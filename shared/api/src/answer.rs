//! Answers that are not problems.

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use holdfast_core::engine::ListPage;
use holdfast_core::ids::Tenant;
use holdfast_core::time::Timestamp;
use serde::{Serialize, Serializer};

use crate::auth::Owned;
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

/// One page of a list, with the cursor of the next. Each item says whose it is where the list is of all tenants.
pub(crate) fn list<'a, T, A: Serialize>(
    page: &'a ListPage<Owned<T>>,
    tag: &ListTag,
    mut shown: impl FnMut(&'a T) -> A,
) -> Response {
    #[derive(Serialize)]
    struct Item<'a, A> {
        #[serde(skip_serializing_if = "Option::is_none")]
        tenant: Option<&'a Tenant>,
        #[serde(flatten)]
        shown: A,
    }
    let of = |owned: &'a Owned<T>| Item { tenant: owned.tenant.as_ref(), shown: shown(&owned.item) };
    list_of(page.items.iter().map(of).collect(), tag, page.next.as_deref())
}

/// One page of a list that belongs to nobody.
pub(crate) fn list_of<A: Serialize>(items: Vec<A>, tag: &ListTag, next: Option<&str>) -> Response {
    json(StatusCode::OK, &ListAnswer { items, next: next.map(|next| tag.cursor(next)) })
}

/// A time as the API writes it: RFC 3339 in UTC.
pub(crate) struct Time(pub(crate) Timestamp);

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}
