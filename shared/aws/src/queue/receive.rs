//! Out of the queues.

use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_sqs::types::{
    ChangeMessageVisibilityBatchRequestEntry, DeleteMessageBatchRequestEntry, Message as SqsMessage,
    MessageSystemAttributeName,
};
use holdfast_core::ports::{Inbox, QueueError, QueueName, Receipt, Received};
use holdfast_core::records::Unreadable;

use super::SqsQueue;
use super::batch::{Left, id, pack, send_all, verdicts};
use super::text::read_message;
use super::trouble::{is_void, why};

/// What SQS answers at most to one request.
pub(super) const MAX_RECEIVED: usize = 10;
/// The longest that SQS hides a message: 12 hours.
const MAX_INVISIBLE_SECS: u64 = 43_200;

#[async_trait]
impl Inbox for SqsQueue {
    async fn receive(&self, queue: QueueName, max: usize) -> Result<Vec<Received>, QueueError> {
        let mut all = Vec::new();
        while all.len() < max {
            match self.receive_some(queue, (max - all.len()).min(MAX_RECEIVED)).await {
                Ok(some) if some.is_empty() => break,
                Ok(some) => all.extend(some),
                // What has been received is invisible to everybody else by now, so it is handed out all the same.
                Err(_) if !all.is_empty() => break,
                Err(error) => return Err(error),
            }
        }
        Ok(all)
    }

    async fn delete(&self, queue: QueueName, receipts: Vec<Receipt>) -> Result<(), QueueError> {
        delete(&self.client, self.url(queue), receipts).await
    }

    async fn postpone(&self, queue: QueueName, receipt: Receipt, wait: Duration) -> Result<(), QueueError> {
        self.postpone_all(queue, vec![(receipt, wait)]).await
    }
}

impl SqsQueue {
    /// Makes messages visible again after their waits (real time). A receipt that is void is not an error.
    pub async fn postpone_all(
        &self,
        queue: QueueName,
        waits: Vec<(Receipt, Duration)>,
    ) -> Result<(), QueueError> {
        postpone(&self.client, self.url(queue), waits).await
    }

    async fn receive_some(&self, queue: QueueName, max: usize) -> Result<Vec<Received>, QueueError> {
        let request = self
            .client
            .receive_message()
            .queue_url(self.url(queue))
            .max_number_of_messages(i32::try_from(max).unwrap_or(i32::MAX))
            .wait_time_seconds(0)
            .message_system_attribute_names(MessageSystemAttributeName::ApproximateReceiveCount);
        let answer = request.send().await.map_err(|error| QueueError(why(&error)))?;
        Ok(answer.messages.unwrap_or_default().into_iter().map(received).collect())
    }
}

fn received(message: SqsMessage) -> Received {
    let receive_count = receive_count(&message);
    let no_text = || Unreadable::Poison("a message without a text".to_owned());
    Received {
        message: message.body.ok_or_else(no_text).and_then(|text| read_message(&text)),
        receipt: Receipt(message.receipt_handle.unwrap_or_default()),
        receive_count,
    }
}

pub(super) fn receive_count(message: &SqsMessage) -> u32 {
    let count = system_attribute(message, &MessageSystemAttributeName::ApproximateReceiveCount);
    // Rather too high than too low, should SQS ever leave it out.
    count.and_then(|count| count.parse().ok()).unwrap_or(u32::MAX)
}

pub(super) fn system_attribute<'a>(
    message: &'a SqsMessage,
    name: &MessageSystemAttributeName,
) -> Option<&'a str> {
    message.attributes.as_ref()?.get(name).map(String::as_str)
}

pub(super) async fn delete(
    client: &aws_sdk_sqs::Client,
    url: &str,
    receipts: Vec<Receipt>,
) -> Result<(), QueueError> {
    let request = |receipts: &[Receipt]| {
        let count = receipts.len();
        let entries = receipts.iter().enumerate().map(|(place, receipt)| {
            DeleteMessageBatchRequestEntry::builder()
                .id(id(place))
                .receipt_handle(&receipt.0)
                .build()
                .expect("an entry with id and receipt")
        });
        let request = client.delete_message_batch().queue_url(url).set_entries(Some(entries.collect()));
        async move {
            let answer = request.send().await.map_err(|error| why(&error))?;
            let deleted = answer.successful.iter().map(|entry| entry.id.as_str());
            Ok(verdicts(count, deleted, &answer.failed, is_void))
        }
    };
    none_left(send_all(pack(receipts, |_| 0), request).await)
}

pub(super) async fn postpone(
    client: &aws_sdk_sqs::Client,
    url: &str,
    waits: Vec<(Receipt, Duration)>,
) -> Result<(), QueueError> {
    let request = |waits: &[(Receipt, Duration)]| {
        let count = waits.len();
        let entries = waits.iter().enumerate().map(|(place, (receipt, wait))| {
            ChangeMessageVisibilityBatchRequestEntry::builder()
                .id(id(place))
                .receipt_handle(&receipt.0)
                .visibility_timeout(invisible_secs(*wait))
                .build()
                .expect("an entry with id and receipt")
        });
        let request =
            client.change_message_visibility_batch().queue_url(url).set_entries(Some(entries.collect()));
        async move {
            let answer = request.send().await.map_err(|error| why(&error))?;
            let changed = answer.successful.iter().map(|entry| entry.id.as_str());
            Ok(verdicts(count, changed, &answer.failed, is_void))
        }
    };
    none_left(send_all(pack(waits, |_| 0), request).await)
}

fn none_left<T>(left: Left<T>) -> Result<(), QueueError> {
    if left.entries.is_empty() { Ok(()) } else { Err(QueueError(left.why)) }
}

/// Rounds up: never earlier than asked, except that SQS hides nothing for longer than it can.
fn invisible_secs(wait: Duration) -> i32 {
    let secs = wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0));
    secs.min(MAX_INVISIBLE_SECS) as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_rounds_up_and_has_a_limit() {
        let secs = |millis| invisible_secs(Duration::from_millis(millis));
        assert_eq!((secs(0), secs(1), secs(1_000), secs(1_001)), (0, 1, 1, 2));
        assert_eq!(invisible_secs(Duration::MAX), 43_200);
    }
}
