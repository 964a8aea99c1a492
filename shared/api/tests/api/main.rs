//! The API through its router, on the ports in memory.

#![expect(clippy::unwrap_used, reason = "a test should fail at the first unexpected value")]

mod attempts_feed;
mod byte_for_byte;
mod console;
mod contract;
mod deliveries;
mod document;
mod events;
mod held_bodies;
mod hostile_urls;
mod idempotency;
mod key_cache;
mod key_use;
mod keys;
mod lists;
mod lists_by_state;
mod long_lists;
mod moving_deliveries;
mod overview;
mod permissions;
mod ping;
mod quotas;
mod replay_pace;
mod replays;
mod requests;
mod roles;
mod rotate_secret;
mod subscriptions;
mod tenants;
mod unread_responses;
mod update_subscription;
mod url_events;
mod url_history;
mod urls;
mod validation;
mod world;
