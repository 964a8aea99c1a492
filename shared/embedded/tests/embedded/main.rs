//! The store and the queues in one SQLite file.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod backlog;
mod backup;
mod contract;
mod damage;
mod fairness;
mod folder;
mod large_bodies;
mod lost_files;
mod missing_data;
mod newer_records;
mod opening;
mod queue;
mod reads;
mod settling;
mod sweep;
mod tickets;
mod write_ahead_log;
