//! A batch from SQS on Lambda: the engine decides what becomes of each message, and the inbox does it.
//!
//! Lambda deletes every message that is not reported as failed. A message is reported exactly when it must stay in the queue. A
//! customer's failure is not reported: its record and ticket are safe before the engine returns.

use std::sync::Arc;

use holdfast_core::engine::Engine;
use holdfast_core::ports::{Inbox, QueueError, QueueName, Receipt, Received, Settlement, chain};
use holdfast_core::rules::backoff::{Trouble, redelivery_delay};
use tokio::time::{Instant, timeout, timeout_at};

use crate::activity::flush_activity;
use crate::deadline::Deadline;

/// A message as Lambda hands it over.
#[derive(Clone)]
pub struct Item {
    /// SQS's id of the message, which stays the same when it is received again.
    pub id: String,
    pub received: Received,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// The ids of the messages that stay in the queue, in their order.
    pub given_back: Vec<String>,
    pub dead_letters: usize,
}

struct Handle {
    id: String,
    receipt: Receipt,
    receive_count: u32,
}

/// Handles a batch and settles all of its messages before the deadline.
pub async fn handle(
    engine: &Engine,
    inbox: &dyn Inbox,
    queue: QueueName,
    items: Vec<Item>,
    deadline: Deadline,
) -> Settled {
    let split = |Item { id, received }| {
        let (receipt, receive_count) = (received.receipt.clone(), received.receive_count);
        (Handle { id, receipt, receive_count }, received)
    };
    let (handles, received): (Vec<Handle>, Vec<Received>) = items.into_iter().map(split).unzip();
    let left = deadline.until_work_ends(engine.clock());
    let Ok(settlements) = timeout(left, engine.handle(received, deadline.work_ends)).await else {
        // All of it is done again after the visibility timeout, when this invocation is certainly over.
        tracing::error!(messages = handles.len(), "batch.late");
        let given_back = handles.into_iter().map(|handle| handle.id).collect();
        return Settled { given_back, dead_letters: 0 };
    };
    let until = Instant::now() + deadline.until_answer_is_due(engine.clock());
    // Lambda deletes the others.
    let open =
        handles.into_iter().zip(settlements).filter(|(_, settlement)| *settlement != Settlement::Delete);
    let settled = settle(inbox, queue, open.collect(), until).await;
    // Last, and only if there is time: no message waits for statistics.
    let _ = timeout_at(until, flush_activity(engine)).await;
    settled
}

async fn settle(
    inbox: &dyn Inbox,
    queue: QueueName,
    open: Vec<(Handle, Settlement)>,
    until: Instant,
) -> Settled {
    let requested = open.iter().map(|(handle, settlement)| (handle.receipt.clone(), settlement.clone()));
    let results = settle_until(inbox, queue, requested.collect(), until).await;
    let mut settled = Settled::default();
    let mut not_moved = Vec::new();
    for ((handle, settlement), result) in open.into_iter().zip(results) {
        let Handle { id, receipt, receive_count } = handle;
        if let Err(error) = &result {
            tracing::error!(message_id = id, receive_count, error = chain(error), "message.not_settled");
        }
        match (settlement, result) {
            (Settlement::Delete | Settlement::Resend { .. }, Ok(())) => {}
            (Settlement::DeadLetter(message), Ok(())) => {
                tracing::error!(message_id = id, error = chain(&message), "message.dead_letter");
                settled.dead_letters += 1;
            }
            // If SQS did not take the wait, the message is received again after the visibility timeout.
            (Settlement::RetryAfter(_), _) => settled.given_back.push(id),
            (_, Err(_)) => {
                settled.given_back.push(id);
                let wait = redelivery_delay(Trouble::Dependency, receive_count);
                not_moved.push((receipt, Settlement::RetryAfter(wait)));
            }
        }
    }
    if !not_moved.is_empty() {
        settle_until(inbox, queue, not_moved, until).await;
    }
    settled
}

async fn settle_until(
    inbox: &dyn Inbox,
    queue: QueueName,
    settlements: Vec<(Receipt, Settlement)>,
    until: Instant,
) -> Vec<Result<(), QueueError>> {
    let count = settlements.len();
    let late = |error| vec![Err(QueueError::TimedOut(Arc::new(error))); count];
    timeout_at(until, inbox.settle(queue, settlements)).await.unwrap_or_else(late)
}
