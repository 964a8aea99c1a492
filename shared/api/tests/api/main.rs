//! The API through its router, on the ports in memory.

#![expect(clippy::unwrap_used, reason = "a test that meets something unexpected should fail at once")]

mod asking;
mod bad_input;
mod byte_for_byte;
mod deliveries;
mod events;
mod ids_twice;
mod key_cache;
mod keys;
mod lists;
mod roles;
mod state_changes;
mod subscriptions;
mod tenants;
mod urls;
mod world;
