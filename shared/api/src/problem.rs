//! Errors as the API answers them: RFC 9457.

use std::time::Duration;

use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use holdfast_core::engine::Unavailable;
use holdfast_core::ports::chain;
use holdfast_core::rules::access::Role;
use serde::Serialize;

use crate::response;
use crate::suggest::excerpt;

const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");
/// A longer list does not help to correct a request.
const MAX_ERRORS: usize = 100;

/// One thing that is wrong with a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FieldError {
    pub field: String,
    pub detail: String,
}

impl FieldError {
    /// The field may be one that the client made up, and a long name is cut like a long value.
    pub(crate) fn new(field: impl AsRef<str>, detail: impl Into<String>) -> FieldError {
        FieldError { field: excerpt(field.as_ref()), detail: detail.into() }
    }
}

/// Why a request was rejected or failed, and what to do about it.
#[derive(Debug)]
pub struct Problem {
    pub(crate) status: StatusCode,
    pub(crate) detail: String,
    pub(crate) errors: Vec<FieldError>,
    header: Option<(&'static str, HeaderValue)>,
}

#[derive(Serialize)]
struct ProblemBody<'a> {
    r#type: &'static str,
    title: &'static str,
    status: u16,
    detail: &'a str,
    #[serde(skip_serializing_if = "<[FieldError]>::is_empty")]
    errors: &'a [FieldError],
}

impl Problem {
    #[must_use]
    pub fn new(status: StatusCode, detail: impl Into<String>) -> Problem {
        Problem { status, detail: detail.into(), errors: Vec::new(), header: None }
    }

    /// All errors of a request in one answer. There must be one.
    pub(crate) fn fields(status: StatusCode, mut errors: Vec<FieldError>) -> Problem {
        let more = match errors.len() {
            0 | 1 => String::new(),
            n => format!(" (and {} more, see `errors`)", n - 1),
        };
        errors.truncate(MAX_ERRORS);
        let first = errors.first().map(|e| format!("`{}`: {}", e.field, e.detail)).unwrap_or_default();
        Problem { errors, ..Problem::new(status, format!("{first}{more}")) }
    }

    pub(crate) fn invalid(errors: Vec<FieldError>) -> Problem {
        Problem::fields(StatusCode::BAD_REQUEST, errors)
    }

    pub(crate) fn invalid_field(field: &str, detail: impl Into<String>) -> Problem {
        Problem::invalid(vec![FieldError::new(field, detail)])
    }

    /// The same text for what does not exist and for what belongs to another tenant.
    pub(crate) fn not_found(what: &str) -> Problem {
        let detail = format!("There is no such {what}; check the id and the tenant.");
        Problem::new(StatusCode::NOT_FOUND, detail)
    }

    pub(crate) fn conflict(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::CONFLICT, detail)
    }

    pub(crate) fn unauthorized() -> Problem {
        let detail = "A valid key is required; send the header `authorization: Bearer hf_…`.";
        let header = Some(("www-authenticate", HeaderValue::from_static("Bearer")));
        Problem { header, ..Problem::new(StatusCode::UNAUTHORIZED, detail) }
    }

    pub(crate) fn wrong_role(has: Role, needs: Role) -> Problem {
        let sufficient: Vec<_> =
            Role::ALL.into_iter().filter(|role| role.suffices(needs)).map(Role::as_str).collect();
        let (last, others) = sufficient.split_last().unwrap_or((&"operator", &[]));
        let sufficient =
            if others.is_empty() { (*last).to_owned() } else { format!("{} or {last}", others.join(", ")) };
        let has = has.as_str();
        let detail = format!("This key has the role {has}; use a key with the role {sufficient}.");
        Problem::new(StatusCode::FORBIDDEN, detail)
    }

    pub(crate) fn other_tenant() -> Problem {
        let detail = "This key belongs to one tenant, and only an operator key can name another one; \
                      leave out `tenant`, or use a key of that tenant.";
        Problem::new(StatusCode::FORBIDDEN, detail)
    }

    pub(crate) fn no_such_tenant() -> Problem {
        let detail = "There is no such tenant; create a key for it first, with POST /v1/keys.";
        Problem::new(StatusCode::NOT_FOUND, detail)
    }

    pub(crate) fn unavailable(detail: impl Into<String>) -> Problem {
        Problem::retry_after(StatusCode::SERVICE_UNAVAILABLE, Duration::from_secs(1), detail)
    }

    pub(crate) fn too_many(wait: Duration, detail: impl Into<String>) -> Problem {
        Problem::retry_after(StatusCode::TOO_MANY_REQUESTS, wait, detail)
    }

    /// Asks the client to wait so long, in whole seconds.
    fn retry_after(status: StatusCode, wait: Duration, detail: impl Into<String>) -> Problem {
        let header = Some(("retry-after", HeaderValue::from(whole_secs(wait))));
        Problem { header, ..Problem::new(status, detail) }
    }
}

/// Rounded up, and at least one.
pub(crate) fn whole_secs(wait: Duration) -> u64 {
    u64::try_from(wait.as_millis().div_ceil(1_000)).unwrap_or(u64::MAX).max(1)
}

impl From<Unavailable> for Problem {
    fn from(error: Unavailable) -> Problem {
        // Only the log gets the details, because they name keys and machines.
        tracing::warn!(error = chain(&error), "api.unavailable");
        if let Unavailable::SubscriptionsTooLarge { max_bytes } = error {
            let detail = format!(
                "This tenant's subscriptions need more memory than the {max_bytes} bytes that they may take; delete some, or shorten \
                 their event types and filters."
            );
            return Problem::unavailable(detail);
        }
        Problem::unavailable(match error {
            Unavailable::Conflict(_) => "The data was modified concurrently; try again.",
            Unavailable::Shortage(_) => "Holdfast is short of a resource of its own; retry later.",
            Unavailable::Store(_)
            | Unavailable::Send(_)
            | Unavailable::SubscriptionsTooLarge { .. }
            | Unavailable::OutOfTime
            | Unavailable::Changed
            | Unavailable::BodyMissing(_)
            | Unavailable::EventsNotStored(_)
            | Unavailable::Busy(_)
            | Unavailable::NotHandled => "A dependency is unavailable; retry later.",
        })
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = ProblemBody {
            r#type: "about:blank",
            title: self.status.canonical_reason().unwrap_or("Error"),
            status: self.status.as_u16(),
            detail: &self.detail,
            errors: &self.errors,
        };
        let body = serde_json::to_vec(&body).expect("problems are plain data");
        let mut response = response::with_body(self.status, PROBLEM_JSON, body);
        if let Some((name, value)) = self.header {
            response.headers_mut().insert(name, value);
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use crate::events::parse_events;
    use crate::params::reject_unknown;

    #[test]
    fn a_refusal_does_not_repeat_a_long_name() {
        let name = "é".repeat(1_000);
        let post = format!(r#"{{"type":"a","data":1,"{name}":1}}"#);
        let twice = format!(r#"[{{"type":"a","data":1,"{name}":1,"{name}":2}}]"#);
        let of_posts = [post, twice].map(|post| parse_events(post.as_bytes()).err().expect("it is refused"));
        let of_query = reject_unknown(Some(&format!("{name}=1"))).unwrap_err();
        for problem in of_posts.into_iter().chain([of_query]) {
            assert!(!problem.errors.is_empty() && problem.detail.len() < 500, "{problem:?}");
            for error in &problem.errors {
                assert!(error.field.ends_with("é…") && error.field.chars().count() == 65, "{error:?}");
            }
        }
    }
}
