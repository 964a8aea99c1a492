//! The store on DynamoDB and the queues on SQS, behind the ports.

pub mod connect;
pub mod queue;
