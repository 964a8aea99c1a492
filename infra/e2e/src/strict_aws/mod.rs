//! AWS as its documentation describes it, where the emulator is more forgiving: a proxy between the functions and the emulator that
//! refuses what AWS refuses, throttles hot partitions, and lets a share of all calls go wrong.

pub mod actions;
pub mod call;
pub mod dynamo;
pub mod expression;
pub mod faults;
mod limited;
mod messages;
pub mod proxy;
#[cfg(test)]
mod proxy_tests;
pub mod refusal;
pub mod report;
pub mod schema;
pub mod sqs;
pub mod throttle;
pub mod touch;
pub mod units;

pub use proxy::{Options, Proxy};
pub use report::Report;
