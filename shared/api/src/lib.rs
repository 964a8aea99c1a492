//! The HTTP API as a library: handlers translate between HTTP and the use-cases, and nothing else. Whoever hosts it brings
//! the listener (or the function) and the runtime.
//!
//! Architecture Invariant: no rule lives here. What is sound is decided by `holdfast_core::rules`; this crate only says it
//! in the words of HTTP.

mod answer;
mod auth;
mod cursor;
mod deliveries;
mod events;
mod fields;
mod new_subscription;
mod params;
mod path;
mod posted;
mod problem;
mod subscriptions;
mod urls;

use std::sync::Arc;

use axum::Router;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{get, post};
use holdfast_core::usecases::Engine;

pub use auth::Keys;
pub use problem::{Fault, Problem};

/// What all handlers share.
pub struct App {
    pub engine: Arc<Engine>,
    pub keys: Keys,
}

/// Every call of the API. There is no middleware: each answer is made whole in one place, `answer` or `problem`.
pub fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/healthz", get(healthz))
        .route("/v1/events", post(events::accept))
        .route("/v1/events/{id}", get(events::view))
        .route("/v1/subscriptions", get(subscriptions::list).post(subscriptions::create))
        .route("/v1/subscriptions/{id}", get(subscriptions::view).delete(subscriptions::delete))
        .route("/v1/urls", get(urls::list))
        .route("/v1/urls/{id}", get(urls::view))
        .route("/v1/urls/{id}/enable", post(urls::enable))
        .route("/v1/urls/{id}/freeze", post(urls::freeze))
        .route("/v1/urls/{id}/disable", post(urls::disable))
        .route("/v1/deliveries", get(deliveries::list))
        .route("/v1/deliveries/{id}", get(deliveries::view))
        .route("/v1/deliveries/{id}/replay", post(deliveries::replay))
        .fallback(no_such_path)
        .method_not_allowed_fallback(no_such_method)
        .with_state(app)
}

async fn healthz() -> Response {
    #[derive(serde::Serialize)]
    struct Alive {
        status: &'static str,
    }
    answer::json(StatusCode::OK, &Alive { status: "ok" })
}

async fn no_such_path() -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "There is nothing at this path.")
}

/// The router adds the `allow` header.
async fn no_such_method() -> Problem {
    Problem::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "This path does not take this method; see the `allow` header.",
    )
}
