//! The store on DynamoDB and the queues on SQS, behind the ports, and what the functions need besides: configuration, log and metrics.

mod activity;
pub mod batch;
mod call_error;
pub mod config;
pub mod connect;
mod counting;
mod deadline;
#[cfg(feature = "feed")]
mod feed;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
#[cfg(feature = "api")]
pub mod gateway;
mod https;
pub mod logging;
pub mod metrics;
#[cfg(feature = "api")]
mod operator_key;
pub mod queue;
pub mod start;
mod state_counts;
mod store;
mod sweeping;
mod wiring;

pub use activity::flush_activity;
pub use counting::RequestCounter;
pub use deadline::Deadline;
#[cfg(feature = "feed")]
pub use feed::SnsFeed;
#[cfg(feature = "api")]
pub use operator_key::OperatorKey;
pub use state_counts::StateCounter;
pub use store::DynamoStore;
pub use sweeping::{SweepFailed, sweep};
pub use wiring::Cloud;
