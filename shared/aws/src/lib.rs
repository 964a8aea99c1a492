//! The store on DynamoDB and the queues on SQS, behind the ports.
