//! Errors as the API tells them: RFC 9457.

use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use holdfast_core::engine::Unavailable;
use holdfast_core::rules::access::Role;
use serde::Serialize;

use crate::answer;

const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");
/// More than this does not help anybody to mend a request.
const MAX_FAULTS: usize = 100;

/// One thing that is wrong with a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fault {
    pub field: String,
    pub detail: String,
}

impl Fault {
    pub(crate) fn new(field: impl Into<String>, detail: impl Into<String>) -> Fault {
        Fault { field: field.into(), detail: detail.into() }
    }
}

/// Why a request was not done, and what to do about it.
#[derive(Debug)]
pub struct Problem {
    status: StatusCode,
    detail: String,
    errors: Vec<Fault>,
    header: Option<(&'static str, &'static str)>,
}

#[derive(Serialize)]
struct Told<'a> {
    r#type: &'static str,
    title: &'static str,
    status: u16,
    detail: &'a str,
    #[serde(skip_serializing_if = "<[Fault]>::is_empty")]
    errors: &'a [Fault],
}

impl Problem {
    pub(crate) fn new(status: StatusCode, detail: impl Into<String>) -> Problem {
        Problem { status, detail: detail.into(), errors: Vec::new(), header: None }
    }

    /// The faults of a request, all in one answer. There must be one.
    pub(crate) fn faults(status: StatusCode, mut errors: Vec<Fault>) -> Problem {
        let more = match errors.len() {
            0 | 1 => String::new(),
            n => format!(" (and {} more, see `errors`)", n - 1),
        };
        errors.truncate(MAX_FAULTS);
        let first = errors.first().map(|f| format!("`{}` {}", f.field, f.detail)).unwrap_or_default();
        Problem { errors, ..Problem::new(status, format!("{first}{more}")) }
    }

    pub(crate) fn invalid(errors: Vec<Fault>) -> Problem {
        Problem::faults(StatusCode::BAD_REQUEST, errors)
    }

    pub(crate) fn not_found(what: &str) -> Problem {
        Problem::new(StatusCode::NOT_FOUND, format!("There is no such {what}."))
    }

    pub(crate) fn conflict(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::CONFLICT, detail)
    }

    pub(crate) fn unauthorized() -> Problem {
        let detail = "A valid key is required: send the header `authorization: Bearer hf_…`.";
        Problem::new(StatusCode::UNAUTHORIZED, detail).with("www-authenticate", "Bearer")
    }

    pub(crate) fn wrong_role(has: Role, needs: Role) -> Problem {
        let suffices: Vec<_> =
            Role::ALL.into_iter().filter(|role| role.suffices(needs)).map(Role::as_str).collect();
        let (has, suffices) = (has.as_str(), suffices.join(" or "));
        let detail = format!("This key has the role {has}, and this call needs {suffices}: use such a key.");
        Problem::new(StatusCode::FORBIDDEN, detail)
    }

    pub(crate) fn other_tenant() -> Problem {
        let detail = "This key is for one tenant, and only an operator's key may name another one: \
                      leave `tenant` out, or use the other tenant's key.";
        Problem::new(StatusCode::FORBIDDEN, detail)
    }

    pub(crate) fn no_such_tenant() -> Problem {
        let detail = "There is no such tenant; make a key for it first, with POST /v1/keys.";
        Problem::new(StatusCode::NOT_FOUND, detail)
    }

    pub(crate) fn try_again(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail).with("retry-after", "1")
    }

    fn with(mut self, name: &'static str, value: &'static str) -> Problem {
        self.header = Some((name, value));
        self
    }
}

impl From<Unavailable> for Problem {
    fn from(error: Unavailable) -> Problem {
        // Logged here, at the edge, and not told: it names keys and machines.
        tracing::warn!(%error, "api.unavailable");
        Problem::try_again("Holdfast cannot do this right now. Try again in a moment.")
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let told = Told {
            r#type: "about:blank",
            title: self.status.canonical_reason().unwrap_or("Error"),
            status: self.status.as_u16(),
            detail: &self.detail,
            errors: &self.errors,
        };
        let body = serde_json::to_vec(&told).expect("problems are plain data");
        let mut response = answer::of_bytes(self.status, PROBLEM_JSON, body);
        if let Some((name, value)) = self.header {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        response
    }
}
