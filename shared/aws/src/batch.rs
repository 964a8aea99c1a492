//! A batch from SQS: the engine says what becomes of each message, and this says so to SQS.
//!
//! Lambda deletes every message that is not reported as failed. So a message is reported exactly when nothing else keeps what it
//! stands for, and a customer's failure never is one: its record and ticket are safe before the engine answers.

use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use holdfast_core::engine::{Engine, Verdict};
use holdfast_core::ports::{Delay, QueueError, QueueName, Receipt, Received};
use tokio::time::{Instant, timeout, timeout_at};

use crate::activity::flush_activity;
use crate::deadline::Deadline;
use crate::queue::{SqsQueue, backoff, read_message};

/// A message as SQS hands it over.
#[derive(Clone)]
pub struct Item {
    /// What SQS calls it, also when it is received again.
    pub id: String,
    pub receipt: Receipt,
    pub text: String,
    /// What it was sent with, so that it can be sent again in the same group.
    pub group: Option<String>,
    /// 1 for the first time.
    pub receive_count: u32,
}

/// What a host does with messages that are not simply done.
#[async_trait]
pub trait Leftovers: Send + Sync {
    /// Makes each message visible again after its wait. Without it, they come after the visibility timeout.
    async fn postpone(&self, queue: QueueName, waits: Vec<(Receipt, Duration)>) -> Result<(), QueueError>;

    /// Puts a message aside for a person.
    async fn dead_letter(&self, queue: QueueName, item: &Item, why: &str) -> Result<(), QueueError>;

    /// Sends a message once more, unchanged, as a new one.
    async fn send_again(&self, queue: QueueName, item: &Item, delay: Delay) -> Result<(), QueueError>;
}

/// What became of a batch.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// The ids of the messages that stay in the queue, in their order.
    pub given_back: Vec<String>,
    pub dead_letters: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Gone,
    GivenBack,
    DeadLetter,
}

/// Handles a batch and settles every message of it before the deadline.
pub async fn handle(
    engine: &Engine,
    leftovers: &dyn Leftovers,
    queue: QueueName,
    items: Vec<Item>,
    deadline: Deadline,
) -> Settled {
    let received = items.iter().map(received).collect();
    let left = deadline.until_work_ends(engine.clock());
    let handled = timeout(left, engine.handle(received, deadline.work_ends())).await;
    let Ok(verdicts) = handled else {
        // Whatever was begun may be dropped at any point and is done again, after the visibility timeout: by then nobody
        // else can still be at it.
        tracing::error!(messages = items.len(), "batch.late");
        let given_back = items.into_iter().map(|item| item.id).collect();
        return Settled { given_back, dead_letters: 0 };
    };
    let until = Instant::now() + deadline.until_answer_is_due(engine.clock());
    let settled = settle(leftovers, queue, items, verdicts, until).await;
    // Last, and only if there is time: no message waits for statistics.
    let _ = timeout_at(until, flush_activity(engine)).await;
    settled
}

fn received(item: &Item) -> Received {
    Received {
        message: read_message(&item.text),
        receipt: item.receipt.clone(),
        receive_count: item.receive_count,
    }
}

async fn settle(
    leftovers: &dyn Leftovers,
    queue: QueueName,
    items: Vec<Item>,
    verdicts: Vec<Verdict>,
    until: Instant,
) -> Settled {
    let fates = items.iter().zip(verdicts).map(async |(item, verdict)| {
        let settled = timeout_at(until, settle_one(leftovers, queue, item, verdict)).await;
        settled.unwrap_or(Fate::GivenBack)
    });
    let fates = join_all(fates).await;
    let dead_letters = fates.iter().filter(|fate| **fate == Fate::DeadLetter).count();
    let given_back: Vec<Item> = items
        .into_iter()
        .zip(fates)
        .filter(|(_, fate)| *fate == Fate::GivenBack)
        .map(|(item, _)| item)
        .collect();
    postpone(leftovers, queue, &given_back, until).await;
    Settled { given_back: given_back.into_iter().map(|item| item.id).collect(), dead_letters }
}

async fn postpone(leftovers: &dyn Leftovers, queue: QueueName, items: &[Item], until: Instant) {
    if items.is_empty() {
        return;
    }
    let waits = items.iter().map(|item| (item.receipt.clone(), backoff(item.receive_count))).collect();
    // They come back in any case, only later.
    match timeout_at(until, leftovers.postpone(queue, waits)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(%error, "messages.not_postponed"),
        Err(_) => tracing::warn!("messages.not_postponed"),
    }
}

async fn settle_one(leftovers: &dyn Leftovers, queue: QueueName, item: &Item, verdict: Verdict) -> Fate {
    let Item { id, receive_count, .. } = item;
    match verdict {
        Verdict::Done => Fate::Gone,
        Verdict::Again(why) => {
            tracing::warn!(message_id = id, receive_count, why, "message.given_back");
            Fate::GivenBack
        }
        Verdict::DeadLetter(why) => match leftovers.dead_letter(queue, item, &why).await {
            Ok(()) => {
                tracing::error!(message_id = id, why, "message.dead_letter");
                Fate::DeadLetter
            }
            Err(error) => not_moved(item, &why, &error),
        },
        Verdict::Newer(why) => match leftovers.send_again(queue, item, Delay::MAX).await {
            Ok(()) => {
                tracing::warn!(message_id = id, why, "message.newer");
                Fate::Gone
            }
            Err(error) => not_moved(item, &why, &error),
        },
    }
}

fn not_moved(item: &Item, why: &str, error: &QueueError) -> Fate {
    let Item { id, receive_count, .. } = item;
    tracing::error!(message_id = id, receive_count, why, %error, "message.given_back");
    Fate::GivenBack
}

#[async_trait]
impl Leftovers for SqsQueue {
    async fn postpone(&self, queue: QueueName, waits: Vec<(Receipt, Duration)>) -> Result<(), QueueError> {
        self.postpone_all(queue, waits).await
    }

    async fn dead_letter(&self, queue: QueueName, item: &Item, why: &str) -> Result<(), QueueError> {
        SqsQueue::dead_letter(self, &item.text, why, queue).await
    }

    async fn send_again(&self, queue: QueueName, item: &Item, delay: Delay) -> Result<(), QueueError> {
        self.send_raw(queue, &item.text, item.group.as_deref(), delay).await
    }
}
