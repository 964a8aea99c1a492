//! The trace that a request belongs to.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::request::Parts;
use holdfast_core::rules::trace::TraceContext;

use crate::App;

/// What `traceparent` and `tracestate` say. Headers that are not valid are ignored.
pub(crate) struct Trace(pub(crate) Option<TraceContext>);

impl FromRequestParts<Arc<App>> for Trace {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<App>) -> Result<Trace, Infallible> {
        Ok(Trace(of_headers(&parts.headers)))
    }
}

fn of_headers(headers: &HeaderMap) -> Option<TraceContext> {
    // What is not visible ASCII is valid in neither of them.
    let values = |name| headers.get_all(name).iter().map(|value| value.to_str().unwrap_or("\0"));
    TraceContext::parse(values("traceparent"), values("tracestate"))
}
