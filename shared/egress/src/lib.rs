//! Makes attempts over HTTP: [`HttpSender`] is the `Sender` port on one pooled client.
//!
//! **Architecture Invariant: every outbound request is made by this crate.** No other crate connects to an
//! address that a customer chose, so that all such connections are guarded in one place.
//!
//! For every attempt:
//! - It is one POST over HTTP/1.1 or HTTP/2, as negotiated. Redirects are not followed, the environment's proxies are ignored,
//!   cookies are not kept, and nothing is decompressed.
//! - It goes only to allowed addresses. An address in the URL is checked as it is; a name is resolved once, all its addresses are
//!   checked, and the connection uses one of them.
//! - One timeout covers everything from the name lookup to the end of the response.
//! - At most [`MAX_RESPONSE_BYTES`] of a response are read, and [`MAX_EXCERPT_BYTES`] of them are kept as text.
//! - A failure is data: a kind and a sentence for the operator, without the URL's query or the payload.
//!
//! `client` builds the HTTP client, `lookup` and `resolver` resolve and check names, `sender` makes the attempt, `response` and
//! `retry_after` read the response, and `failure` describes what went wrong.

mod client;
mod config;
mod connector;
mod failure;
mod lookup;
mod meter;
mod names;
mod resolver;
mod response;
mod retry_after;
mod sender;
mod text;

pub use client::BuildError;
pub use config::{EgressConfig, LookupLimits};
pub use lookup::{Answer, Lookup, LookupError, SystemLookup};
pub use meter::MAX_ATTEMPT_BYTES;
pub use response::{MAX_EXCERPT_BYTES, MAX_RESPONSE_BYTES};
pub use sender::{HttpSender, sender};
