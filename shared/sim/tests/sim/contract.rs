//! The contract suite on memory.

use std::sync::Arc;
use std::time::Duration;

use holdfast_core::ports::{Backlog, Clock, Inbox, Queue, Store};
use holdfast_core::time::Timestamp;
use holdfast_sim::contract::{Harness, VISIBILITY};
use holdfast_sim::{MemoryBacklog, MemoryQueue, MemoryStore, VirtualClock};

struct Memory {
    clock: Arc<VirtualClock>,
    store: Arc<MemoryStore>,
    queue: Arc<MemoryQueue>,
}

fn memory() -> Memory {
    let clock = Arc::new(VirtualClock::new(Timestamp::from_millis(1_700_000_000_000)));
    let queue = Arc::new(MemoryQueue::new(Arc::clone(&clock) as Arc<dyn Clock>, VISIBILITY));
    Memory { clock, store: Arc::new(MemoryStore::new()), queue }
}

impl Harness for Memory {
    fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store) as _
    }

    fn queue(&self) -> Arc<dyn Queue> {
        Arc::clone(&self.queue) as _
    }

    fn inbox(&self) -> Arc<dyn Inbox> {
        Arc::clone(&self.queue) as _
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.clock) as _
    }

    fn backlog(&self) -> Arc<dyn Backlog> {
        Arc::new(MemoryBacklog { store: Arc::clone(&self.store), queue: Arc::clone(&self.queue) })
    }

    fn advance(&self, wait: Duration) {
        self.clock.advance(wait);
    }
}

holdfast_sim::contract_tests!(memory);
holdfast_sim::backlog_contract_tests!(memory);
