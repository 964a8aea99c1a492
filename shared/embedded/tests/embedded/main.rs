//! The store and the queues in one SQLite file.
#![allow(clippy::unwrap_used, reason = "in a test, what fails panics")]

mod contract;
mod large_bodies;
mod opening;
mod queue;
