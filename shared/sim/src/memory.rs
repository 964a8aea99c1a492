use std::sync::Arc;
use std::time::Duration;

use holdfast_core::engine::Ports;
use holdfast_core::ids::Tenant;
use holdfast_core::time::Timestamp;

use crate::crash::Receiver;
use crate::{MemoryBacklog, MemoryQueue, MemoryStore, SeededEntropy, VirtualClock};

/// How long a received message stays invisible.
const VISIBILITY: Duration = Duration::from_secs(180);

/// All ports in memory, on a clock that moves only when it is told to, and a receiver that records every request.
pub struct Memory {
    pub clock: Arc<VirtualClock>,
    pub store: Arc<MemoryStore>,
    pub queue: Arc<MemoryQueue>,
    pub receiver: Arc<Receiver>,
    pub tenant: Tenant,
    seed: u64,
}

impl Memory {
    /// When every simulation starts.
    pub const START: Timestamp = Timestamp::from_millis(1_700_000_000_000);

    #[must_use]
    pub fn new() -> Memory {
        Memory::with(0, 1)
    }

    /// `speed`: how much faster than real time the schedule's clock runs.
    #[must_use]
    pub fn with(seed: u64, speed: u32) -> Memory {
        let clock = Arc::new(VirtualClock::with_speed(Memory::START, speed));
        let store = Arc::new(MemoryStore::new());
        let tenant = Tenant::from("default");
        let receiver = Receiver::new(Arc::clone(&clock), Arc::clone(&store), tenant.clone());
        Memory {
            queue: Arc::new(MemoryQueue::new(Arc::clone(&clock) as _, VISIBILITY)),
            receiver: Arc::new(receiver),
            clock,
            store,
            tenant,
            seed,
        }
    }

    #[must_use]
    pub fn backlog(&self) -> MemoryBacklog {
        MemoryBacklog { store: Arc::clone(&self.store), queue: Arc::clone(&self.queue) }
    }

    #[must_use]
    pub fn ports(&self) -> Ports {
        Ports {
            store: Arc::clone(&self.store) as _,
            queue: Arc::clone(&self.queue) as _,
            backlog: Arc::new(self.backlog()),
            sender: Arc::clone(&self.receiver) as _,
            clock: Arc::clone(&self.clock) as _,
            entropy: Arc::new(SeededEntropy::new(self.seed)),
        }
    }
}

impl Default for Memory {
    fn default() -> Memory {
        Memory::new()
    }
}
