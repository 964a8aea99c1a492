//! The body of a request, limited in size and in the time it takes to arrive.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;

use crate::{Problem, params};

const MAX_BYTES: usize = 1_000_000;
/// A body that is too large is still read up to this size, and discarded: a client whose connection is closed while it sends
/// does not see the answer.
const MAX_DISCARDED_BYTES: usize = 8_000_000;
const READ_TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) struct RequestBody(pub(crate) Bytes);

impl<S: Send + Sync> FromRequest<S> for RequestBody {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<RequestBody, Problem> {
        let (parts, body) = request.into_parts();
        let read = tokio::time::timeout(READ_TIMEOUT, read(body)).await;
        let body = read.unwrap_or_else(|_| {
            let detail = "The body did not arrive within 10 s; send the request again.";
            Err(Problem::new(StatusCode::REQUEST_TIMEOUT, detail))
        })?;
        params::reject_unknown(parts.uri.query())?;
        Ok(RequestBody(body))
    }
}

async fn read(mut body: Body) -> Result<Bytes, Problem> {
    let mut whole = Bytes::new();
    let mut length = 0;
    while let Some(frame) = body.frame().await {
        let broken = |_| {
            let detail = "The connection broke before the whole body arrived; send the request again.";
            Problem::new(StatusCode::BAD_REQUEST, detail)
        };
        let Ok(data) = frame.map_err(broken)?.into_data() else { continue };
        length += data.len();
        if length > MAX_DISCARDED_BYTES {
            break;
        }
        if length > MAX_BYTES {
            whole = Bytes::new();
        } else if whole.is_empty() {
            // Most bodies come in one piece, which then needs no copy.
            whole = data;
        } else {
            // Copies only the first piece and the new one: from then on, nothing else refers to the buffer.
            let mut joined = BytesMut::from(whole);
            joined.extend_from_slice(&data);
            whole = joined.freeze();
        }
    }
    if length > MAX_BYTES {
        let detail = format!("The body is larger than {MAX_BYTES} bytes; send less at once.");
        return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail));
    }
    Ok(whole)
}
