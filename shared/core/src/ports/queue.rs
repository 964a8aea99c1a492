use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use super::error::{QueueError, SendError};
use crate::records::{Message, Unreadable};
use crate::rules::delay::Delay;

/// First attempts never share a queue with retries and other tickets, so that failures never slow first attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QueueName {
    First,
    /// First attempts for URLs whose recent answers are slow, on hosts whose queues know only one level of groups: there they would keep
    /// the others waiting.
    Slow,
    Retry,
}

/// A message on its way into a queue.
#[derive(Clone, Debug, PartialEq)]
pub struct Outgoing {
    pub message: Message,
    pub delay: Delay,
}

/// The sending side: all that use-cases need.
#[async_trait]
pub trait Queue: Send + Sync {
    /// Returns when every message is safe. Grouped by `Message::group`, so that one URL's messages cannot starve another's.
    /// A ticket may be left out if the same one waits in the queue and is received as soon.
    async fn send(&self, queue: QueueName, messages: Vec<Outgoing>) -> Result<(), SendError>;
}

/// Names one receipt of a message: deleting by it is idempotent, and without effect once the message was received again.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Receipt(pub String);

#[derive(Clone, Debug, PartialEq)]
pub struct Received {
    pub message: Result<Message, UnreadableMessage>,
    pub receipt: Receipt,
    /// 1 for the first time. May be too high, never too low.
    pub receive_count: u32,
    /// The queue has stored the body that came with the message where bodies are, so that it need not be stored again.
    pub body_is_stored: bool,
}

/// A message that this release cannot read, as the queue had it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the message cannot be read: {why}")]
pub struct UnreadableMessage {
    pub why: Unreadable,
    pub payload: Bytes,
    /// The group it was sent with, so that it can be sent again in the same one.
    pub group: Option<String>,
}

/// What becomes of a received message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settlement {
    /// All that follows from it is safe.
    Delete,
    /// It becomes visible again after this long (real time).
    RetryAfter(Duration),
    /// It is sent once more, unchanged, as a new message, so that it never looks like poison.
    Resend { message: UnreadableMessage, delay: Delay },
    /// It is set aside for a person, with the reason.
    DeadLetter(UnreadableMessage),
}

/// The receiving side. A received message is invisible for the queue's visibility timeout (real time) and then received again,
/// unless it was settled before.
#[async_trait]
pub trait Inbox: Send + Sync {
    /// What is ready now, at most `max`; empty if nothing is.
    async fn receive(&self, queue: QueueName, max: usize) -> Result<Vec<Received>, QueueError>;

    /// Settles messages that were received from `queue`. A receipt that is void, because its message was deleted or received again,
    /// is not an error. The results are in the order of the settlements; what could not be settled is received again.
    async fn settle(
        &self,
        queue: QueueName,
        settlements: Vec<(Receipt, Settlement)>,
    ) -> Vec<Result<(), QueueError>>;
}
