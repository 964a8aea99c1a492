//! API Gateway's HTTP API (payload format 2.0) in the terms of HTTP: its event is a request, and a response is its answer.

mod path;
mod request;
mod response;

pub use request::{NotARequest, request};
pub use response::{Reply, reply};
