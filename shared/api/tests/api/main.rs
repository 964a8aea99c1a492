//! The API through its router, on the ports in memory.

#![expect(clippy::unwrap_used, reason = "a test that meets something unexpected should fail at once")]

mod activity;
mod asking;
mod bad_input;
mod byte_for_byte;
mod contract;
mod deliveries;
mod document;
mod events;
mod following;
mod hostile_urls;
mod ids_twice;
mod in_state;
mod key_cache;
mod keys;
mod lists;
mod lists_that_grow;
mod moving;
mod patching;
mod pinging;
mod replay_pace;
mod replays;
mod roles;
mod rotating;
mod state_changes;
mod subscriptions;
mod tenants;
mod url_history;
mod urls;
mod walk;
mod world;
