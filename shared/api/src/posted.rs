//! What was posted, as bytes: at most so much, and within so long.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;

use crate::{Problem, params};

const MAX_BYTES: usize = 1_000_000;
/// A body that is too large is still read up to this, and thrown away: whoever hangs up on a client in the middle of its
/// request makes it miss the answer.
const MAX_DISCARDED: usize = 8_000_000;
const MAX_READ: Duration = Duration::from_secs(10);

pub(crate) struct Posted(pub(crate) Bytes);

impl<S: Send + Sync> FromRequest<S> for Posted {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Posted, Problem> {
        let (parts, body) = request.into_parts();
        let read = tokio::time::timeout(MAX_READ, read(body)).await;
        let posted = read.unwrap_or_else(|_| {
            let detail = "The body did not arrive within 10 s. Send the request again.";
            Err(Problem::new(StatusCode::REQUEST_TIMEOUT, detail))
        })?;
        params::refuse_unknown(parts.uri.query())?;
        Ok(Posted(posted))
    }
}

async fn read(mut body: Body) -> Result<Bytes, Problem> {
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    let mut length = 0;
    while let Some(frame) = body.frame().await {
        let broken = |_| Problem::new(StatusCode::BAD_REQUEST, "The body broke off. Send the request again.");
        let Ok(data) = frame.map_err(broken)?.into_data() else { continue };
        length += data.len();
        if length > MAX_DISCARDED {
            break;
        }
        if length > MAX_BYTES {
            (first, rest) = (Bytes::new(), BytesMut::new());
        } else if first.is_empty() {
            // Most bodies come in one piece, which then needs no copy.
            first = data;
        } else {
            if rest.is_empty() {
                rest.extend_from_slice(&first);
            }
            rest.extend_from_slice(&data);
        }
    }
    match (length > MAX_BYTES, rest.is_empty()) {
        (true, _) => {
            let detail = format!("The body has more than {MAX_BYTES} bytes. Post less at once.");
            Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail))
        }
        (false, true) => Ok(first),
        (false, false) => Ok(rest.freeze()),
    }
}
