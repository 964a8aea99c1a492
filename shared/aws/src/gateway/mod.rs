//! API Gateway's HTTP API (payload format 2.0) as HTTP: its event becomes a request, and a response becomes its reply.

mod path;
mod request;
mod response;
mod serve;

use std::time::Duration;

pub use request::{NotARequest, request};
pub use response::{Reply, reply};
pub use serve::{answer, serve_api};

/// API Gateway gives up after 30 s, and the functions behind it have a second less.
const TIMEOUT: Duration = Duration::from_secs(29);
