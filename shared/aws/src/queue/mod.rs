//! The queues on SQS: standard queues, fair by message group.
//!
//! A fair queue knows one level of groups. It serves the messages of quiet groups before those of a group that has many in flight or takes
//! much of the processing time. So the queues are grouped by tenant, and slow URLs, which would delay the others of their tenant, have a
//! queue of their own.

mod batch;
mod dead_letters;
mod receive;
mod send;
mod settle;
mod text;
mod trouble;

use aws_sdk_sqs::Client;
use holdfast_core::ports::QueueName;
use holdfast_core::records::Message;

pub use dead_letters::{DeadLetter, DeadLetters};
pub use receive::{parse_receive_count, received};
pub use text::{from_text, read_message, to_text};

/// Where the queues are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueUrls {
    pub first: String,
    pub slow: String,
    pub retry: String,
    pub dead_letters: String,
}

pub struct SqsQueue {
    client: Client,
    urls: QueueUrls,
    /// How many seconds of the schedule clock, which delays are measured by, pass in one real second.
    time_scale: u32,
}

impl SqsQueue {
    /// `time_scale` is 1 in production.
    #[must_use]
    pub fn new(client: Client, urls: QueueUrls, time_scale: u32) -> SqsQueue {
        assert!(time_scale > 0, "the schedule clock does not stand still");
        SqsQueue { client, urls, time_scale }
    }

    fn url(&self, queue: QueueName) -> &str {
        match queue {
            QueueName::First => &self.urls.first,
            QueueName::Slow => &self.urls.slow,
            QueueName::Retry => &self.urls.retry,
        }
    }
}

/// The group of a message: no group can hold up another.
#[must_use]
pub fn group_of(queue: QueueName, message: &Message) -> String {
    match queue {
        QueueName::First | QueueName::Retry => message.tenant().to_string(),
        // Two tenants with the same URL are two. No tenant's name holds a `#`.
        QueueName::Slow => format!("{}#{}", message.tenant(), message.group()),
    }
}

/// The queue's name in logs and in the attribute `queue` of a dead letter.
#[must_use]
pub fn name_of(queue: QueueName) -> &'static str {
    match queue {
        QueueName::First => "first",
        QueueName::Slow => "slow",
        QueueName::Retry => "retry",
    }
}
