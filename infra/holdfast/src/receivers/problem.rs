use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// What is wrong with the request, as `application/problem+json`.
#[derive(Debug)]
pub(super) struct Problem {
    status: StatusCode,
    detail: String,
}

impl Problem {
    /// The detail starts with the name of the invalid field.
    pub(super) fn bad_request(detail: impl Into<String>) -> Problem {
        Problem { status: StatusCode::BAD_REQUEST, detail: detail.into() }
    }

    pub(super) fn conflict(detail: impl Into<String>) -> Problem {
        Problem { status: StatusCode::CONFLICT, detail: detail.into() }
    }

    pub(super) fn full(detail: impl Into<String>) -> Problem {
        Problem { status: StatusCode::INSUFFICIENT_STORAGE, detail: detail.into() }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = json!({
            "type": "about:blank",
            "title": self.status.canonical_reason(),
            "status": self.status.as_u16(),
            "detail": self.detail,
        });
        (self.status, [(CONTENT_TYPE, "application/problem+json")], body.to_string()).into_response()
    }
}
