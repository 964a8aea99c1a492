//! The store on DynamoDB and the queues on SQS, behind the ports.

mod counting;
mod store;

pub use counting::RequestCounter;
pub use store::DynamoStore;
