//! Makes attempts over HTTP: [`HttpSender`] is the `Sender` port on one pooled client.
//!
//! **Architecture Invariant: every outbound request is made by this crate.** No other crate connects to an
//! address that a customer chose, so that all such connections are guarded in one place.
//!
//! For every attempt:
//! - It is one POST over HTTP/1.1. Redirects are not followed, the environment's proxies are ignored,
//!   cookies are not kept, and nothing is decompressed.
//! - It goes only to allowed addresses. An address in the URL is checked as it is; a name is resolved once, all its addresses are
//!   checked, and the connection uses one of them.
//! - One timeout covers everything from the name lookup to the end of the response.
//! - A failure is data: a kind and a sentence for the operator, without the URL's query or the payload.
//!
//! What one attempt, or one tenant, may use is bounded, so that it takes nothing from others:
//! - A look-up has two fifths of the attempt's timeout and ends with the attempt. Attempts to one name share one look-up, and its answer
//!   is used for its time to live ([`LookupLimits`]). A name that hangs or has no address is the URL's failure. A look-up beyond our
//!   limits is not: the attempt ends as a [`Shortage`](holdfast_core::rules::shortage::Shortage).
//! - At most [`MAX_ATTEMPT_BYTES`] are read for an attempt, counted from the first byte of the connection, at most
//!   [`MAX_RESPONSE_BYTES`] of them as the response's body, and [`MAX_EXCERPT_BYTES`] are kept as text in which nothing is invisible.
//!
//! `connector` opens connections whose bytes `meter` counts, `client` sends requests on them, `idle` limits how many are kept, and `overtaken`
//! how many are opened without an attempt that waits for them. `busy` and `tasks` divide the processor between connections. `lookup` asks the name servers, `names`
//! shares, caches and limits look-ups, `resolver` checks their answers, and `sources` whether they can be reached. `sender` makes the attempt, `response`, `retry_after` and
//! `text` read the response, and `failure` describes what went wrong.

mod busy;
mod certificates;
mod client;
mod config;
mod connector;
mod failure;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod idle;
mod lookup;
mod meter;
mod names;
mod overtaken;
mod resolver;
mod response;
mod retry_after;
mod sender;
mod sources;
mod tasks;
mod text;

pub use client::BuildError;
pub use config::{EgressConfig, LookupLimits};
pub use lookup::{Answer, Lookup, LookupError, SystemLookup};
pub use meter::MAX_ATTEMPT_BYTES;
pub use overtaken::MAX_OVERTAKEN;
pub use response::{MAX_EXCERPT_BYTES, MAX_RESPONSE_BYTES, MAX_RESPONSE_PIECES};
pub use sender::{HttpSender, sender};
