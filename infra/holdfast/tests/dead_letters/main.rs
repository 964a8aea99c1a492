//! `holdfast dead-letters` as a process, on queues of an emulator.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod bench;
mod listing;
mod refusals;
mod requeueing;
