//! Makes attempts over HTTP: [`HttpSender`] is the `Sender` port on one pooled client.
//!
//! **Architecture Invariant: this crate is the only way out to the internet.** No other crate opens a connection to an
//! address that a customer chose, so that what guards those connections has one place to be.
//!
//! What holds for every attempt:
//! - One POST, HTTP/1.1 or HTTP/2, whichever the receiver prefers. Redirects are not followed, proxies of the environment are
//!   not used, cookies are not kept, and nothing is decompressed.
//! - It goes where the guard allows it to: a host that is an address is checked before it is sent to, a name is looked up here,
//!   every address that it has is checked, and the connection is made to one of those. There is no second lookup.
//! - One deadline covers all of it, from the name lookup to the end of the answer.
//! - At most [`MAX_READ`] bytes of an answer are read, and [`MAX_KEPT`] of them kept, as text.
//! - A failure is data: it has a kind and a sentence for the operator, which never holds the URL's query or the payload.
//!
//! The files: `client` builds the HTTP client, `lookup` and `resolver` find the addresses of names and check them, `sender` makes the attempt, `answer` and
//! `retry_after` read what came back, and `failure` says what went wrong.

mod answer;
mod client;
mod config;
mod failure;
mod lookup;
mod resolver;
mod retry_after;
mod sender;

pub use answer::{MAX_KEPT, MAX_READ};
pub use client::BuildError;
pub use config::EgressConfig;
pub use lookup::{Lookup, SystemLookup};
pub use sender::{HttpSender, sender};
