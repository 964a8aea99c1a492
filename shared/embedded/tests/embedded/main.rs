//! The store and the queues in one SQLite file.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod contract;
mod large_bodies;
mod newer_records;
mod opening;
mod queue;
mod settling;
