//! Moves messages from a queue into the engine. Each queue has its own pump, so that retries never hold up first attempts.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use holdfast_core::engine::Engine;
use holdfast_core::ports::{Inbox, QueueError, QueueName, Receipt, Settlement, chain};
use holdfast_core::time::Timestamp;
use holdfast_embedded::{EmbeddedQueue, TakenBatch};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;

/// The messages of one batch are all for one URL, because the queue serves one group at a time.
const MAX_BATCH: usize = 32;
/// How long a pump that is stopped waits for what is in flight. New messages are handled meanwhile, so that a receiver that hangs does not
/// delay the events of others.
const FINISHING: Duration = Duration::from_millis(1_500);
/// When messages whose handling panicked are received again.
const AFTER_PANIC: Duration = Duration::from_secs(5);

pub(crate) struct Pump {
    pub(crate) engine: Arc<Engine>,
    pub(crate) queue: Arc<EmbeddedQueue>,
    pub(crate) name: QueueName,
    /// How many messages are handled at the same time.
    pub(crate) concurrency: usize,
}

impl Pump {
    /// Runs until it is stopped, then finishes what is in flight. The caller ends it if that takes too long.
    pub(crate) async fn run(self, mut stop: watch::Receiver<bool>) {
        let pump = Arc::new(self);
        let permits = Arc::new(Semaphore::new(pump.concurrency));
        let mut tasks = JoinSet::new();
        loop {
            let batch = tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => break,
                batch = pump.next_batch(&permits) => batch,
            };
            if let Some((batch, permit)) = batch {
                tasks.spawn(Arc::clone(&pump).handle(batch, permit));
            }
            // Finished tasks are collected here, so that their number stays bounded.
            while tasks.try_join_next().is_some() {}
        }
        let mut in_flight = std::mem::take(&mut tasks);
        let finished = tokio::time::timeout(FINISHING, async {
            loop {
                tokio::select! {
                    biased;
                    ended = in_flight.join_next() => if ended.is_none() { break },
                    batch = pump.next_batch(&permits) => if let Some((batch, permit)) = batch {
                        tasks.spawn(Arc::clone(&pump).handle(batch, permit));
                    }
                }
            }
        });
        // What is left then is what hangs, and what has just begun.
        let _ = finished.await;
        while tasks.join_next().await.is_some() {}
        while in_flight.join_next().await.is_some() {}
    }

    /// Waits for permits and for messages. Returns `None` if another receiver was faster.
    async fn next_batch(&self, permits: &Arc<Semaphore>) -> Option<(TakenBatch, OwnedSemaphorePermit)> {
        let mut permit = Arc::clone(permits).acquire_owned().await.ok()?;
        self.queue.ready(self.name).await;
        let max = MAX_BATCH.min(permits.available_permits() + 1);
        // Completed by the task that handles them, so that the messages of others do not wait for it.
        let batch = self.queue.take(self.name, max).map_err(|error| not_received(&error)).ok()?;
        if batch.len() > 1 {
            // Only this loop takes permits, so there are still enough.
            permit.merge(Arc::clone(permits).try_acquire_many_owned(batch.len() as u32 - 1).ok()?);
        }
        (!batch.is_empty()).then_some((batch, permit))
    }

    async fn handle(self: Arc<Self>, batch: TakenBatch, _permit: OwnedSemaphorePermit) {
        let batch = match self.queue.complete(batch).await {
            Ok(batch) => batch,
            Err(error) => return not_received(&error),
        };
        let receipts: Vec<Receipt> = batch.iter().map(|received| received.receipt.clone()).collect();
        let handled = AssertUnwindSafe(self.engine.handle(batch, Timestamp::MAX)).catch_unwind().await;
        // A bug that one message shows must not keep the slots of all of them until they would be received again.
        let settlements = handled.unwrap_or_else(|_| {
            tracing::error!(messages = receipts.len(), "a batch was given back after a panic");
            vec![Settlement::RetryAfter(AFTER_PANIC); receipts.len()]
        });
        let settled = self.queue.settle(self.name, receipts.into_iter().zip(settlements).collect()).await;
        for error in settled.into_iter().filter_map(Result::err) {
            tracing::error!(
                error = chain(&error),
                "a message could not be settled and will be received again"
            );
        }
    }
}

fn not_received(error: &QueueError) {
    tracing::error!(error = chain(error), "messages could not be received");
}
