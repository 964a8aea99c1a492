//! The built-in receivers of development mode, so that deliveries can be tried without writing a receiver.
//!
//! | Request | What it does |
//! |---|---|
//! | `POST /dev/receiver/{name}` | Records a delivery, and responds as the receiver's name or setting says. |
//! | `PUT /dev/receiver/{name}` | Sets how a receiver responds: see [`setting::Setting`]. |
//! | `GET /dev/receiver/{name}?limit=` | Shows its requests, newest first: 100 by default, 1,000 at most. |
//! | `DELETE /dev/receiver/{name}` | Deletes its requests, but not its setting. |
//! | `GET /dev/receiver` | Lists the receivers with their counts. |
//!
//! `200` to `599` always respond with that status, and `hang` never responds. Every other name is a receiver that can be switched: it
//! exists from its first use, and responds 200 until it is switched.
//!
//! Everything is in memory, with limits on the receivers and on the requests of each.

mod handlers;
mod loopback;
mod name;
mod receiver;
mod record;
mod reply;
mod setting;
mod state;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use axum::Router;
use axum::http::StatusCode;
use axum::middleware::from_fn;
use axum::routing::{get, post};
use holdfast_api::Problem;

pub(crate) use state::Receivers;

/// For development mode only: the routes need no key, and show what was delivered.
pub(crate) fn router(receivers: Arc<Receivers>) -> Router {
    let one = post(handlers::receive).put(handlers::switch).get(handlers::show).delete(handlers::forget);
    Router::new()
        .route("/dev/receiver", get(handlers::list))
        .route("/dev/receiver/{name}", one)
        .route_layer(from_fn(loopback::require))
        .with_state(receivers)
}

/// The detail starts with the name of the invalid field.
fn bad_request(detail: impl Into<String>) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, detail)
}
