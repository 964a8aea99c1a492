//! The whole server as a process: started, driven over HTTP, stopped, killed and started again.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod bound;
mod canaries;
mod clock;
mod freeze;
mod greeting;
mod guides;
mod kill;
mod kill_replays;
mod overlap;
mod process;
mod refusals;
mod serve;
mod signing;
mod suite;
mod terminate;
