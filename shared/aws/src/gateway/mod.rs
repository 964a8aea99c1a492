//! API Gateway's HTTP API (payload format 2.0) in the terms of HTTP: its event is a request, and a response is its answer.

mod path;
mod request;
mod response;
mod serve;

use std::time::Duration;

pub use request::{NotARequest, request};
pub use response::{Reply, reply};
pub use serve::{answer, serve};

/// API Gateway gives up after 30 s, and the functions behind it have a second less.
pub const MAX_ANSWER: Duration = Duration::from_secs(29);
