//! Makes attempts over HTTP: [`HttpSender`] is the `Sender` port on one pooled client.
//!
//! **Architecture Invariant: this crate is the only way out to the internet.** No other crate opens a connection to an
//! address that a customer chose, so that what guards those connections has one place to be.
//!
//! What holds for every attempt:
//! - One POST, HTTP/1.1 or HTTP/2, whichever the receiver prefers. Redirects are not followed, proxies of the environment are
//!   not used, cookies are not kept, and nothing is decompressed.
//! - One deadline covers all of it, from the name lookup to the end of the answer.
//! - At most [`MOST_READ`] bytes of an answer are read, and [`MOST_KEPT`] of them kept, as text.
//! - A failure is data: it has a kind and a sentence for the operator, which never holds the URL's query or the payload.
//!
//! The files: `client` builds the HTTP client, `resolver` looks names up, `sender` makes the attempt, `answer` and
//! `retry_after` read what came back, and `failure` says what went wrong.

mod answer;
mod client;
mod config;
mod failure;
mod resolver;
mod retry_after;
mod sender;

pub use answer::{MOST_KEPT, MOST_READ};
pub use client::BuildError;
pub use config::EgressConfig;
pub use sender::HttpSender;
