use std::sync::Arc;
use std::time::Duration;

use holdfast_core::ports::{Clock, Inbox, Queue, QueueName, Store};
use holdfast_core::records::Record;
use holdfast_core::time::Timestamp;

use crate::{MemoryQueue, MemoryStore};

/// How long a received message stays invisible.
pub const VISIBILITY: Duration = Duration::from_secs(180);

/// Where a world stores its records and queues its messages: in memory, or in another adapter. What it answers must not depend on real time.
pub trait Backend: Send + Sync {
    fn store(&self) -> &dyn Store;

    fn queue(&self) -> &dyn Queue;

    fn inbox(&self) -> &dyn Inbox;

    /// Whether first attempts for slow URLs have a queue of their own.
    fn has_slow_queue(&self) -> bool {
        true
    }

    /// Every record, in the order of the keys.
    fn all(&self) -> Vec<Record>;

    /// Removes what may be removed by `now`.
    fn purge(&self, now: Timestamp);

    /// When the sweep should look at something next.
    fn next_look_at(&self) -> Option<Timestamp>;

    /// When the next message can be received; not in the future if one can be received now.
    fn next_ready_at(&self, queue: QueueName) -> Option<Timestamp>;

    /// How many messages there are: ready, delayed or invisible.
    fn messages(&self, queue: QueueName) -> usize;
}

pub(super) struct InMemory {
    store: MemoryStore,
    queue: MemoryQueue,
}

impl InMemory {
    pub(super) fn new(clock: Arc<dyn Clock>) -> InMemory {
        InMemory { store: MemoryStore::new(), queue: MemoryQueue::new(clock, VISIBILITY) }
    }
}

impl Backend for InMemory {
    fn store(&self) -> &dyn Store {
        &self.store
    }

    fn queue(&self) -> &dyn Queue {
        &self.queue
    }

    fn inbox(&self) -> &dyn Inbox {
        &self.queue
    }

    fn all(&self) -> Vec<Record> {
        self.store.all()
    }

    fn purge(&self, now: Timestamp) {
        self.store.purge(now);
    }

    fn next_look_at(&self) -> Option<Timestamp> {
        self.store.next_look_at()
    }

    fn next_ready_at(&self, queue: QueueName) -> Option<Timestamp> {
        self.queue.next_ready_at(queue)
    }

    fn messages(&self, queue: QueueName) -> usize {
        self.queue.len(queue)
    }
}
