//! The store on DynamoDB and the queues on SQS, behind the ports, and what the functions need besides: configuration, clock, log
//! and metrics.

mod activity;
pub mod batch;
mod chain;
mod clock;
pub mod config;
pub mod connect;
mod counting;
mod deadline;
mod entropy;
#[cfg(feature = "api")]
pub mod gateway;
pub mod logging;
pub mod metrics;
#[cfg(feature = "api")]
pub mod operator_key;
pub mod queue;
pub mod start;
mod store;
mod sweeping;
mod wiring;

pub use activity::flush_activity;
pub use chain::chain;
pub use clock::MachineClock;
pub use counting::RequestCounter;
pub use deadline::Deadline;
pub use entropy::OsEntropy;
pub use store::DynamoStore;
pub use sweeping::{SweepFailed, sweep};
pub use wiring::Cloud;
