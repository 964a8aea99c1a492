use std::pin::Pin;
use std::sync::Arc;

use holdfast_core::ports::{Inbox, QueueName, Receipt, Settlement};

use super::interrupt::drive;
use crate::{MemoryQueue, block_on};

/// A batch that a host has begun. Dropping it is the host's death.
pub struct InFlight {
    pub(super) queue: QueueName,
    pub(super) receipts: Vec<Receipt>,
    pub(super) inbox: Arc<MemoryQueue>,
    pub(super) future: Pin<Box<dyn Future<Output = Vec<Settlement>>>>,
}

impl InFlight {
    /// Goes on to the next place where something holds the host.
    ///
    /// # Panics
    /// If nothing does.
    #[must_use]
    pub fn go_on(mut self) -> InFlight {
        assert!(drive(self.future.as_mut(), &mut 1).is_none(), "nothing holds the host");
        self
    }

    /// Goes on to the end. What is done is deleted from the queue.
    ///
    /// # Panics
    /// If something still holds the host.
    pub fn finish(self) -> Vec<Settlement> {
        let settlements = drive(self.future, &mut 1).expect("something still holds the host");
        settle(&self.inbox, self.queue, self.receipts, &settlements);
        settlements
    }
}

/// Settles a batch as a host does.
pub(super) fn settle(
    inbox: &MemoryQueue,
    queue: QueueName,
    receipts: Vec<Receipt>,
    settlements: &[Settlement],
) {
    assert_eq!(receipts.len(), settlements.len(), "every message is settled");
    let settlements = receipts.into_iter().zip(settlements.iter().cloned()).collect();
    for settled in block_on(inbox.settle(queue, settlements)) {
        settled.expect("the memory queue answers");
    }
}
