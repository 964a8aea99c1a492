//! The HTTP API as a library: handlers translate between HTTP and the use-cases, and nothing else. Whoever hosts it brings
//! the listener (or the function) and the runtime.
//!
//! Architecture Invariant: no rule lives here. What is sound is decided by `holdfast_core::rules`; this crate only says it
//! in the words of HTTP.

mod activity;
mod answer;
mod auth;
mod cursor;
mod deliveries;
mod events;
mod fields;
mod keys;
mod new_subscription;
mod openapi;
mod params;
mod path;
mod ping;
mod posted;
mod problem;
mod replays;
mod routes;
mod subscriptions;
mod urls;

use std::sync::Arc;

use holdfast_core::engine::Engine;

pub use auth::{BuiltIn, HashedKey, Keys};
pub use openapi::DOCUMENT;
pub use problem::{Fault, Problem};
pub use routes::{ROUTES, router};

/// What all handlers share.
pub struct App {
    pub engine: Arc<Engine>,
    pub keys: Keys,
}
