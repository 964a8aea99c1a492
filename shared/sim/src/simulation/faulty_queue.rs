use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use holdfast_core::ports::{Clock, Delay, Outgoing, Queue, QueueName, SendError};

use super::backend::Backend;
use super::faults::{Faults, Service};
use super::observer::Observer;
use super::versions::{Release, Versions};
use crate::block_on;

/// How much later than asked a message may come.
const LATE: Duration = Duration::from_secs(600);

/// The queues as one process sees them: messages are lost, late, reordered and duplicated, and calls fail.
pub(super) struct FaultyQueue {
    pub(super) backend: Arc<dyn Backend>,
    pub(super) faults: Arc<Faults>,
    pub(super) observer: Arc<Observer>,
    pub(super) versions: Arc<Versions>,
    pub(super) release: Release,
}

impl FaultyQueue {
    /// What the queue makes of the messages that it has taken.
    fn taken(&self, queue: QueueName, messages: Vec<Outgoing>) -> Vec<Outgoing> {
        let rates = self.faults.rates();
        let mut taken = Vec::with_capacity(messages.len());
        for mut message in messages {
            if queue == QueueName::Retry && self.faults.happens(rates.lost, "fault: a ticket is lost") {
                continue;
            }
            if self.faults.happens(rates.duplicated, "fault: a message is duplicated") {
                taken.push(message.clone());
            }
            if self.faults.happens(rates.late, "fault: a message is late") {
                let late = self.faults.dice.time(Duration::from_secs(1), LATE);
                message.delay = Delay::at_most(message.delay.as_duration() + late);
            }
            taken.push(message);
        }
        taken
    }
}

#[async_trait]
impl Queue for FaultyQueue {
    async fn send(&self, queue: QueueName, mut messages: Vec<Outgoing>) -> Result<(), SendError> {
        self.faults.pass().await;
        let fate = self.faults.fate(Service::Queue);
        if let Some(source) = fate.queue_error().filter(|_| fate.is_before()) {
            return Err(SendError { unsent: messages, source });
        }
        let unsent = match fate.queue_error() {
            Some(source) => {
                // The sender cannot know which of them were taken.
                let unsent = messages.clone();
                let kept = self.faults.dice.between(1, messages.len().max(1) as u64) as usize;
                messages.truncate(kept);
                Err(SendError { unsent, source })
            }
            None => Ok(()),
        };
        self.observer.sent(queue, &messages, self.faults.time.now());
        self.versions.sent(self.release, &messages);
        block_on(self.backend.queue().send(queue, self.taken(queue, messages)))?;
        self.faults.pass().await;
        unsent
    }
}
