//! The store part of the contract suite on an emulator of DynamoDB.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use holdfast_aws::DynamoStore;
use holdfast_core::ports::{Clock, Inbox, Queue, Store};
use holdfast_core::time::Timestamp;
use holdfast_sim::contract::{Harness, VISIBILITY};
use holdfast_sim::{MemoryQueue, VirtualClock};
use tokio::runtime::Runtime;

struct OnDynamo {
    runtime: Runtime,
    clock: Arc<VirtualClock>,
    store: Arc<DynamoStore>,
    // Not used by the store part.
    queue: Arc<MemoryQueue>,
}

fn on_dynamo() -> OnDynamo {
    let runtime = crate::dynamo::runtime();
    let store = Arc::new(runtime.block_on(crate::dynamo::Table::create()).store());
    let clock = Arc::new(VirtualClock::new(Timestamp::from_millis(1_700_000_000_000)));
    let queue = Arc::new(MemoryQueue::new(Arc::clone(&clock) as Arc<dyn Clock>, VISIBILITY));
    OnDynamo { runtime, clock, store, queue }
}

impl Harness for OnDynamo {
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

    fn advance(&self, wait: Duration) {
        self.clock.advance(wait);
    }

    fn run(&self, case: Pin<Box<dyn Future<Output = ()> + '_>>) {
        self.runtime.block_on(case);
    }
}

holdfast_sim::store_contract_tests!(on_dynamo);
