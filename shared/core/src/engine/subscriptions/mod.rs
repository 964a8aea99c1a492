//! Creates and changes subscriptions, and moves their deliveries along.

mod create;
mod delete;
mod of_url;
mod ping;
mod reassign;
mod rotate_secret;
mod try_event;
mod update;

pub(super) use create::new_url;
pub use create::{NewSubscription, SubscribeError, TooLarge, TooManyUrls};
pub(super) use ping::PINGS;
pub use ping::{MAX_PINGS, PingError};
pub use rotate_secret::RotateError;
pub use try_event::{MAX_TRIED, TriedEvent, TriedSubscription};
pub use update::{SubscriptionPatch, UpdateError};
