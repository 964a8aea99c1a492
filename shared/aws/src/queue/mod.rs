//! The queues on SQS: standard queues, fair by message group.

mod batch;
mod dead_letters;
mod receive;
mod send;
mod text;
mod trouble;

use std::time::Duration;

use aws_sdk_sqs::Client;
use holdfast_core::ports::QueueName;

pub use dead_letters::{DeadLetter, DeadLetters};
pub use text::{from_text, read_message, to_text};

/// Where the queues are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueUrls {
    pub first: String,
    pub retry: String,
    pub dead_letters: String,
}

pub struct SqsQueue {
    client: Client,
    urls: QueueUrls,
    /// How many seconds of the schedule's clock, in which delays are given, pass in one real second.
    time_scale: u32,
}

impl SqsQueue {
    /// `time_scale` is 1 in production.
    #[must_use]
    pub fn new(client: Client, urls: QueueUrls, time_scale: u32) -> SqsQueue {
        assert!(time_scale > 0, "time must pass");
        SqsQueue { client, urls, time_scale }
    }

    fn url(&self, queue: QueueName) -> &str {
        match queue {
            QueueName::First => &self.urls.first,
            QueueName::Retry => &self.urls.retry,
        }
    }
}

/// How a queue is called where people read it, and in the attribute `queue` of a dead letter.
#[must_use]
pub fn name_of(queue: QueueName) -> &'static str {
    match queue {
        QueueName::First => "first",
        QueueName::Retry => "retry",
    }
}

/// How long a message that was received `receive_count` times should rest before it comes back: 5 s, doubled each time, at
/// most 15 minutes.
#[must_use]
pub fn backoff(receive_count: u32) -> Duration {
    const MAX_SECS: u64 = 900;
    let doublings = receive_count.saturating_sub(1).min(10);
    Duration::from_secs((5 << doublings).min(MAX_SECS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_rests_longer_each_time() {
        let secs: Vec<u64> = (0..=10).map(|count| backoff(count).as_secs()).collect();
        assert_eq!(secs, [5, 5, 10, 20, 40, 80, 160, 320, 640, 900, 900]);
        assert_eq!(backoff(u32::MAX).as_secs(), 900);
    }
}
