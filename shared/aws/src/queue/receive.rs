//! Out of the queues.

use async_trait::async_trait;
use aws_sdk_sqs::types::{Message as SqsMessage, MessageSystemAttributeName};
use holdfast_core::ports::{Inbox, QueueError, QueueName, Receipt, Received, Settlement, UnreadableMessage};

use super::SqsQueue;
use super::text::read_message;
use crate::call_error::CallError;

/// What SQS returns at most to one request.
pub(super) const MAX_RECEIVED: usize = 10;

#[async_trait]
impl Inbox for SqsQueue {
    async fn receive(&self, queue: QueueName, max: usize) -> Result<Vec<Received>, QueueError> {
        let mut all = Vec::new();
        while all.len() < max {
            match self.receive_some(queue, (max - all.len()).min(MAX_RECEIVED)).await {
                Ok(some) if some.is_empty() => break,
                Ok(some) => all.extend(some),
                // What has been received is invisible to other receivers by now, so it is returned all the same.
                Err(_) if !all.is_empty() => break,
                Err(error) => return Err(error),
            }
        }
        Ok(all)
    }

    async fn settle(
        &self,
        queue: QueueName,
        settlements: Vec<(Receipt, Settlement)>,
    ) -> Vec<Result<(), QueueError>> {
        self.settle_all(queue, settlements).await
    }
}

impl SqsQueue {
    async fn receive_some(&self, queue: QueueName, max: usize) -> Result<Vec<Received>, QueueError> {
        let request = self
            .client
            .receive_message()
            .queue_url(self.url(queue))
            .max_number_of_messages(i32::try_from(max).unwrap_or(i32::MAX))
            .wait_time_seconds(0)
            .message_system_attribute_names(MessageSystemAttributeName::ApproximateReceiveCount)
            .message_system_attribute_names(MessageSystemAttributeName::MessageGroupId);
        let response = request.send().await.map_err(|error| CallError::new("ReceiveMessage", &error))?;
        Ok(response.messages.unwrap_or_default().into_iter().map(from_sqs).collect())
    }
}

fn from_sqs(message: SqsMessage) -> Received {
    let group = system_attribute(&message, &MessageSystemAttributeName::MessageGroupId).map(str::to_owned);
    let count = receive_count(&message);
    received(message.body.unwrap_or_default(), group, message.receipt_handle.unwrap_or_default(), count)
}

/// A message of SQS in the terms of the port.
#[must_use]
pub fn received(text: String, group: Option<String>, receipt: String, receive_count: u32) -> Received {
    let message = read_message(&text);
    let message = message.map_err(|why| UnreadableMessage { why, payload: text.into(), group });
    Received { message, receipt: Receipt(receipt), receive_count, body_is_stored: false }
}

/// SQS writes the count as text. Too high rather than too low, should SQS ever omit it.
#[must_use]
pub fn parse_receive_count(count: Option<&str>) -> u32 {
    count.and_then(|count| count.parse().ok()).unwrap_or(u32::MAX)
}

pub(super) fn receive_count(message: &SqsMessage) -> u32 {
    parse_receive_count(system_attribute(message, &MessageSystemAttributeName::ApproximateReceiveCount))
}

pub(super) fn system_attribute<'a>(
    message: &'a SqsMessage,
    name: &MessageSystemAttributeName,
) -> Option<&'a str> {
    message.attributes.as_ref()?.get(name).map(String::as_str)
}
