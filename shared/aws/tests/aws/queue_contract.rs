//! The queue part of the contract suite on an emulator of SQS.
//!
//! Without fairness, which the emulator does not have: `queue_beyond` tests that every message carries the group by which SQS is
//! fair.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::emulator::queues;
use holdfast_aws::queue::SqsQueue;
use holdfast_core::ports::{Clock, Inbox, Queue, Store};
use holdfast_core::time::Timestamp;
use holdfast_sim::contract::Harness;
use holdfast_sim::{MemoryStore, VirtualClock};
use tokio::runtime::Runtime;

/// A real second is a minute of the schedule clock: the longest delay takes 15 s.
const TIME_SCALE: u32 = 60;
/// Short, because the tests wait for it in real time.
const VISIBILITY: Duration = Duration::from_secs(4);

struct Sqs {
    runtime: Runtime,
    queue: Arc<SqsQueue>,
}

fn sqs() -> Sqs {
    let runtime = Runtime::new().unwrap();
    let queue = runtime.block_on(async {
        let (client, urls) = queues(VISIBILITY).await;
        Arc::new(SqsQueue::new(client, urls, TIME_SCALE))
    });
    Sqs { runtime, queue }
}

impl Harness for Sqs {
    /// Not used by the queue part.
    fn store(&self) -> Arc<dyn Store> {
        Arc::new(MemoryStore::new())
    }

    fn queue(&self) -> Arc<dyn Queue> {
        Arc::clone(&self.queue) as _
    }

    fn inbox(&self) -> Arc<dyn Inbox> {
        Arc::clone(&self.queue) as _
    }

    /// Not used by the queue part.
    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(VirtualClock::new(Timestamp::ZERO))
    }

    fn advance(&self, wait: Duration) {
        #[expect(clippy::disallowed_methods, reason = "the time of another process cannot be advanced")]
        std::thread::sleep(wait);
    }

    fn visibility(&self) -> Duration {
        VISIBILITY
    }

    /// What a busy machine may need from the end of a wait until the response to its requests.
    fn grain(&self) -> Duration {
        Duration::from_secs(2)
    }

    fn real(&self, schedule: Duration) -> Duration {
        schedule / TIME_SCALE
    }

    fn run(&self, case: Pin<Box<dyn Future<Output = ()> + '_>>) {
        self.runtime.block_on(case);
    }
}

holdfast_sim::queue_contract_tests!(sqs);
