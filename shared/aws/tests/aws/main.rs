//! The tests that need AWS, on an emulator. One binary, because each one is linked with the whole SDK.
#![allow(clippy::unwrap_used, reason = "in a test, what fails panics")]

mod dynamo;
mod emulator;
#[cfg(feature = "feed")]
mod feed;
mod queue_beyond;
mod queue_contract;
mod requests;
mod scripted;
mod store_contract;
