//! `holdfast dead-letters` as a process, on queues of an emulator.
#![allow(clippy::unwrap_used, reason = "in a test, what fails panics")]

mod bench;
mod looking;
mod refusals;
mod requeueing;
