//! What Holdfast promises, as pure functions: time, randomness and configuration are arguments.

pub mod access;
pub mod activity;
pub mod address;
pub mod claim;
pub mod event_type;
pub mod filter;
pub mod guard;
pub mod health;
pub mod look;
pub mod matching;
pub mod release;
pub mod resettle;
pub mod schedule;
pub mod signing;
#[cfg(test)]
pub(crate) mod test_vectors;
