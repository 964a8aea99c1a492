//! The store on DynamoDB and the queues on SQS, behind the ports.

pub mod connect;
mod counting;
pub mod queue;
mod store;

pub use counting::RequestCounter;
pub use store::DynamoStore;
