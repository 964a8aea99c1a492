//! The API through its router, on the ports in memory.

#![expect(clippy::unwrap_used, reason = "a test that meets something unexpected should fail at once")]

mod activity;
mod asking;
mod bad_input;
mod byte_for_byte;
mod deliveries;
mod events;
mod following;
mod ids_twice;
mod in_state;
mod lists;
mod subscriptions;
mod urls;
mod world;
