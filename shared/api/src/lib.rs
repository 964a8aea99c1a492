//! The HTTP API as a library: handlers translate between HTTP and the engine. The host brings the listener (or the function) and
//! the runtime.
//!
//! Architecture Invariant: no rule lives here. `holdfast_core::rules` decides what is valid; this crate reports it over HTTP.

mod activity;
mod audit;
mod auth;
mod body;
mod budget;
mod console;
mod cursor;
mod deliveries;
mod events;
mod explain;
mod fields;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod keys;
mod openapi;
mod params;
mod path;
mod problem;
mod replays;
mod response;
mod routes;
mod subscription_request;
mod subscriptions;
mod suggest;
mod tenants;
mod trace;
mod try_event;
mod turns;
mod urls;

use std::sync::Arc;

use holdfast_core::engine::Engine;

pub use auth::{BuiltIn, HashedKey, KeyUse, Keys};
use budget::Budget;
pub use openapi::DOCUMENT;
pub use problem::{FieldError, Problem};
pub use routes::{ROUTES, router};
use turns::Turns;

pub struct App {
    pub engine: Arc<Engine>,
    pub keys: Keys,
    pub(crate) turns: Turns,
    pub(crate) bodies: Arc<Budget>,
    pub(crate) responses: Arc<Budget>,
}

impl App {
    #[must_use]
    pub fn new(engine: Arc<Engine>, keys: Keys) -> App {
        let (bodies, responses) = (Arc::new(Budget::for_bodies()), Arc::new(Budget::for_responses()));
        App { engine, keys, turns: Turns::default(), bodies, responses }
    }
}
