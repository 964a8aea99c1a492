//! Creates and changes subscriptions, and moves their deliveries along.

mod create;
mod delete;
mod ping;
mod reassign;
mod rotate_secret;
mod update;

pub(super) use create::new_url;
pub use create::{NewSubscription, SubscribeError, TooLarge, TooManyUrls};
pub use ping::PingError;
pub use rotate_secret::RotateError;
pub use update::{SubscriptionPatch, UpdateError};
