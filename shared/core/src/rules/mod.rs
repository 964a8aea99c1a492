//! What Holdfast promises, as pure functions: time, randomness and configuration are arguments.

pub mod access;
pub mod activity;
pub mod announcements;
pub mod backoff;
pub mod bucket;
pub mod chain;
pub mod claim;
pub mod delay;
pub mod delivery;
pub mod event_type;
pub mod filter;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod guard;
pub mod health;
pub mod last_failure;
pub mod latencies;
pub mod latency;
pub mod look_at;
pub mod matching;
pub mod outage;
pub mod quota;
pub mod reassign;
pub mod release;
pub mod schedule;
pub mod shortage;
pub mod signing;
pub mod steady_time;
#[cfg(test)]
pub(crate) mod test_vectors;
pub mod trace;
pub mod turns;
pub mod url_form;
