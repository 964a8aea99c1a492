//! The built-in development receivers: endpoints to deliver to, so that a newcomer can watch the life of a delivery without
//! writing a line.
//!
//! | Request | What it does |
//! |---|---|
//! | `POST /dev/receiver/{name}` | Receives a delivery, records it, and answers as the receiver's name or switch says. |
//! | `PUT /dev/receiver/{name}` | Switches what a receiver answers: see [`setting::Setting`]. |
//! | `GET /dev/receiver/{name}?limit=` | Shows what it received, newest first; 100 requests unless told, 1,000 at most. |
//! | `DELETE /dev/receiver/{name}` | Forgets what it received, and not how it is switched. |
//! | `GET /dev/receiver` | Lists the receivers with their counts. |
//!
//! The name decides. `200` to `599` always answer that status, and `hang` never answers. Every other name is a receiver that
//! can be switched: it exists from its first use on, and answers 200 until somebody switches it.
//!
//! Everything is kept in memory, within limits: the last requests of each receiver, and so many receivers.

mod handlers;
mod name;
mod problem;
mod receiver;
mod record;
mod reply;
mod setting;
mod state;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};

pub(crate) use state::Receivers;

/// Routes for development only: there is no key to show, and anyone who can reach them can read what was delivered.
pub(crate) fn router(receivers: Arc<Receivers>) -> Router {
    let one = post(handlers::receive).put(handlers::switch).get(handlers::show).delete(handlers::forget);
    Router::new()
        .route("/dev/receiver", get(handlers::list))
        .route("/dev/receiver/{name}", one)
        .with_state(receivers)
}
