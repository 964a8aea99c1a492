use std::collections::BTreeMap;

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use holdfast_core::time::Now;
use serde::Serialize;

use super::reply::Reply;

/// The headers that Holdfast sets. The HTTP client sets the others.
const SHOWN_HEADERS: [&str; 7] = [
    "webhook-id",
    "webhook-timestamp",
    "webhook-signature",
    "content-type",
    "user-agent",
    "traceparent",
    "tracestate",
];

#[derive(Clone, Serialize)]
pub(super) struct Arrived {
    headers: BTreeMap<&'static str, String>,
    /// Whether there was an `authorization` header. Its value is a secret and is not kept.
    authorization: bool,
    pub(super) body: String,
}

impl Arrived {
    pub(super) fn new(headers: &HeaderMap, body: &[u8]) -> Arrived {
        let shown = SHOWN_HEADERS.into_iter().filter_map(|name| {
            let value = headers.get(name)?;
            Some((name, String::from_utf8_lossy(value.as_bytes()).into_owned()))
        });
        Arrived {
            headers: shown.collect(),
            authorization: headers.contains_key(AUTHORIZATION),
            body: String::from_utf8_lossy(body).into_owned(),
        }
    }
}

#[derive(Clone, Serialize)]
pub(super) struct Recorded {
    /// Counts from 1 for each receiver.
    seq: u64,
    /// Real time, RFC 3339.
    at: String,
    /// The same moment on the schedule clock.
    schedule_at: String,
    #[serde(flatten)]
    pub(super) arrived: Arrived,
    answered: Reply,
}

impl Recorded {
    pub(super) fn new(seq: u64, now: Now, arrived: Arrived, answered: Reply) -> Recorded {
        let (at, schedule_at) = (now.real.to_string(), now.schedule.to_string());
        Recorded { seq, at, schedule_at, arrived, answered }
    }
}
