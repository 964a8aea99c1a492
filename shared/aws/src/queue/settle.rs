//! Settling received messages: in batches, with a result for each message.

use std::time::Duration;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::{ChangeMessageVisibilityBatchRequestEntry, DeleteMessageBatchRequestEntry};
use futures_util::future::{join, join_all};
use holdfast_core::ports::{QueueError, QueueName, Receipt, Settlement};

use super::SqsQueue;
use super::batch::{id, pack, send_all, verdicts};
use super::trouble::is_void;
use crate::call_error::CallError;

/// The longest that SQS hides a message: 12 hours.
const MAX_INVISIBLE_SECS: u64 = 43_200;

/// A receipt and its place among the settlements.
pub(super) struct Placed {
    pub(super) place: usize,
    pub(super) receipt: Receipt,
}

impl SqsQueue {
    pub(super) async fn settle_all(
        &self,
        queue: QueueName,
        settlements: Vec<(Receipt, Settlement)>,
    ) -> Vec<Result<(), QueueError>> {
        let mut results = vec![Ok(()); settlements.len()];
        let (mut deletes, mut waits, mut moves) = (Vec::new(), Vec::new(), Vec::new());
        for (place, (receipt, settlement)) in settlements.into_iter().enumerate() {
            let placed = Placed { place, receipt };
            match settlement {
                Settlement::Delete => deletes.push(placed),
                Settlement::RetryAfter(wait) => waits.push((placed, wait)),
                Settlement::Resend { .. } | Settlement::DeadLetter(_) => moves.push((placed, settlement)),
            }
        }
        let moving =
            moves.into_iter().map(async |(placed, settlement)| (placed, self.copy(queue, settlement).await));
        let (copied, not_hidden) =
            join(join_all(moving), change_visibility(&self.client, self.url(queue), waits)).await;
        for (placed, copied) in copied {
            match copied {
                // Deleted only once its copy is safe.
                Ok(()) => deletes.push(placed),
                Err(error) => results[placed.place] = Err(error),
            }
        }
        let not_deleted = delete(&self.client, self.url(queue), deletes).await;
        let not_hidden = not_hidden.into_iter().map(|((placed, _), error)| (placed, error));
        for (placed, error) in not_deleted.into_iter().chain(not_hidden) {
            results[placed.place] = Err(error);
        }
        results
    }

    /// Sends the message to where it is kept from now on.
    async fn copy(&self, queue: QueueName, settlement: Settlement) -> Result<(), QueueError> {
        match settlement {
            Settlement::Resend { message, delay } => {
                let text = String::from_utf8_lossy(&message.payload);
                self.send_raw(queue, &text, message.group.as_deref(), delay).await
            }
            Settlement::DeadLetter(message) => {
                let text = String::from_utf8_lossy(&message.payload);
                self.dead_letter(&text, &message.why.to_string(), queue).await
            }
            Settlement::Delete | Settlement::RetryAfter(_) => Ok(()),
        }
    }
}

pub(super) async fn delete(client: &Client, url: &str, receipts: Vec<Placed>) -> Vec<(Placed, QueueError)> {
    const OPERATION: &str = "DeleteMessageBatch";
    let request = |receipts: &[Placed]| {
        let count = receipts.len();
        let entries = receipts.iter().enumerate().map(|(place, Placed { receipt, .. })| {
            DeleteMessageBatchRequestEntry::builder()
                .id(id(place))
                .receipt_handle(&receipt.0)
                .build()
                .expect("an entry with id and receipt")
        });
        let request = client.delete_message_batch().queue_url(url).set_entries(Some(entries.collect()));
        async move {
            let response = request.send().await.map_err(|error| CallError::new(OPERATION, &error))?;
            let deleted = response.successful.iter().map(|entry| entry.id.as_str());
            Ok(verdicts(OPERATION, count, deleted, &response.failed, is_void))
        }
    };
    send_all(pack(receipts, |_| 0), request).await
}

/// Makes messages visible again after their waits (real time).
pub(super) async fn change_visibility(
    client: &Client,
    url: &str,
    waits: Vec<(Placed, Duration)>,
) -> Vec<((Placed, Duration), QueueError)> {
    const OPERATION: &str = "ChangeMessageVisibilityBatch";
    let request = |waits: &[(Placed, Duration)]| {
        let count = waits.len();
        let entries = waits.iter().enumerate().map(|(place, (Placed { receipt, .. }, wait))| {
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
            let response = request.send().await.map_err(|error| CallError::new(OPERATION, &error))?;
            let changed = response.successful.iter().map(|entry| entry.id.as_str());
            Ok(verdicts(OPERATION, count, changed, &response.failed, is_void))
        }
    };
    send_all(pack(waits, |_| 0), request).await
}

/// Rounds up: never earlier than asked, up to the longest time that SQS takes.
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
