use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// What is wrong with the request, as `application/problem+json`.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) status: StatusCode,
    pub(super) detail: String,
}

impl Problem {
    /// The detail starts with the name of the invalid field.
    pub(super) fn bad_request(detail: impl Into<String>) -> Problem {
        Problem { status: StatusCode::BAD_REQUEST, detail: detail.into() }
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
