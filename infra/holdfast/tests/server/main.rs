//! The server as a process: started, driven over HTTP, stopped, killed and restarted.

#![expect(clippy::unwrap_used, reason = "tests may panic")]

mod bound;
mod canaries;
mod client;
mod clock;
mod data_folder;
mod dead_letters;
mod files;
mod freeze;
mod greeting;
mod guides;
mod kill;
mod kill_replays;
#[cfg(feature = "otlp")]
mod otlp;
mod overlap;
mod process;
mod refusals;
mod serve;
mod signing;
mod soak;
mod status;
mod suite;
mod terminate;
