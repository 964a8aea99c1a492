//! Moves messages from a queue into the engine. One pump per queue: retries never hold up first attempts.

use std::sync::Arc;
use std::time::Duration;

use holdfast_core::engine::{Engine, Verdict};
use holdfast_core::ports::{Inbox, QueueName, Receipt, Received};
use holdfast_core::time::Timestamp;
use holdfast_embedded::EmbeddedQueue;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;

/// The most messages of one batch: all to one URL, because the queue hands them out so.
const BATCH: usize = 32;
const FIRST_BACKOFF: Duration = Duration::from_secs(1);
const MAX_BACKOFF: Duration = Duration::from_secs(60);
/// What nobody can read is kept, out of the way.
const SET_ASIDE: Duration = Duration::from_secs(3600);

pub(crate) struct Pump {
    pub(crate) engine: Arc<Engine>,
    pub(crate) queue: Arc<EmbeddedQueue>,
    pub(crate) name: QueueName,
    /// How many messages are handled at the same time.
    pub(crate) concurrency: usize,
}

impl Pump {
    /// Runs until told to stop, then finishes what is in flight.
    pub(crate) async fn run(self, mut stop: watch::Receiver<bool>) {
        let pump = Arc::new(self);
        let places = Arc::new(Semaphore::new(pump.concurrency));
        let mut tasks = JoinSet::new();
        loop {
            let batch = tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => break,
                batch = pump.next_batch(&places) => batch,
            };
            if let Some((batch, places)) = batch {
                tasks.spawn(Arc::clone(&pump).handle(batch, places));
            }
            // Ended tasks are collected as we go, so that their number stays bounded.
            while tasks.try_join_next().is_some() {}
        }
        while tasks.join_next().await.is_some() {}
    }

    /// Waits for room and for messages. `None`: there was nothing after all.
    async fn next_batch(&self, places: &Arc<Semaphore>) -> Option<(Vec<Received>, OwnedSemaphorePermit)> {
        let mut room = Arc::clone(places).acquire_owned().await.ok()?;
        self.queue.ready(self.name).await;
        let most = BATCH.min(places.available_permits() + 1);
        let batch = match self.queue.receive(self.name, most).await {
            Ok(batch) => batch,
            Err(error) => {
                tracing::error!(%error, "messages could not be received");
                return None;
            }
        };
        if batch.len() > 1 {
            // Only this loop takes places, so there are at least as many as a moment ago.
            room.merge(Arc::clone(places).try_acquire_many_owned(batch.len() as u32 - 1).ok()?);
        }
        (!batch.is_empty()).then_some((batch, room))
    }

    async fn handle(self: Arc<Self>, batch: Vec<Received>, _places: OwnedSemaphorePermit) {
        let receipts: Vec<(Receipt, u32)> =
            batch.iter().map(|m| (m.receipt.clone(), m.receive_count)).collect();
        let verdicts = self.engine.handle(batch, Timestamp::MAX).await;
        let mut done = Vec::with_capacity(receipts.len());
        for ((receipt, count), verdict) in receipts.into_iter().zip(verdicts) {
            match verdict {
                Verdict::Done => done.push(receipt),
                Verdict::Again(why) => {
                    tracing::warn!(why, "a message is given back");
                    let wait = FIRST_BACKOFF * 2_u32.pow(count.saturating_sub(1).min(10));
                    self.postpone(receipt, wait.min(MAX_BACKOFF)).await;
                }
                Verdict::Newer(why) | Verdict::DeadLetter(why) => {
                    tracing::error!(why, "a message cannot be read and is set aside");
                    self.postpone(receipt, SET_ASIDE).await;
                }
            }
        }
        if let Err(error) = self.queue.delete(self.name, done).await {
            tracing::error!(%error, "messages could not be deleted and will come again");
        }
    }

    async fn postpone(&self, receipt: Receipt, wait: Duration) {
        if let Err(error) = self.queue.postpone(self.name, receipt, wait).await {
            tracing::error!(%error, "a message could not be postponed and comes again after its visibility timeout");
        }
    }
}
