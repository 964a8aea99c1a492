//! Function instances over one table: the engine and the store as they are deployed, with queues, receivers and a clock in memory.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use holdfast_aws::DynamoStore;
use holdfast_core::engine::{Engine, NewEvent, Ports, Settings};
use holdfast_core::ids::{SubscriptionId, Tenant, UrlId};
use holdfast_core::ports::{
    AttemptRequest, AttemptResponse, AttemptResult, Clock, Inbox, NotCounted, QueueName, Sender, Store,
};
use holdfast_core::records::{Record, Subscription, TenantVersion, UrlRecord};
use holdfast_core::rules::filter::Connector;
use holdfast_core::rules::shortage::Shortage;
use holdfast_core::rules::signing::{self, Secret};
use holdfast_core::time::Timestamp;
use holdfast_sim::{Memory, MemoryQueue, SeededEntropy, VirtualClock};

use crate::dynamo::{Dynamo, NAME};

const VISIBILITY: Duration = Duration::from_secs(180);
/// How many messages are taken from a queue at once, to be handed out in batches.
const TAKEN: usize = 2_000;

/// Every receiver responds with this status.
struct Receivers(AtomicU16);

#[async_trait]
impl Sender for Receivers {
    async fn send(&self, _: AttemptRequest) -> Result<AttemptResult, Shortage> {
        let status = self.0.load(Ordering::Relaxed);
        let response = AttemptResponse::Status { status, excerpt: String::new(), retry_after: None };
        Ok(AttemptResult { response, took: Duration::from_millis(40) })
    }
}

pub(crate) struct Deployment {
    pub(crate) dynamo: Dynamo,
    pub(crate) clock: Arc<VirtualClock>,
    pub(crate) queue: Arc<MemoryQueue>,
    receivers: Arc<Receivers>,
    instances: Vec<Engine>,
    /// Which instance is next.
    turn: Cell<usize>,
}

impl Deployment {
    pub(crate) fn new(instances: usize) -> Deployment {
        let clock = Arc::new(VirtualClock::new(Memory::START));
        let dynamo = Dynamo::new(Arc::clone(&clock));
        let mut deployment = Deployment {
            queue: Arc::new(MemoryQueue::new(Arc::clone(&clock) as _, VISIBILITY)),
            receivers: Arc::new(Receivers(AtomicU16::new(200))),
            instances: Vec::new(),
            turn: Cell::new(0),
            dynamo,
            clock,
        };
        for _ in 0..instances {
            deployment.start_instance();
        }
        deployment
    }

    /// A new instance, which knows nothing yet.
    pub(crate) fn start_instance(&mut self) -> &Engine {
        let seed = 1 + self.instances.len() as u64;
        let ports = Ports {
            store: Arc::new(self.store(seed)),
            queue: Arc::clone(&self.queue) as _,
            backlog: Arc::new(NotCounted),
            sender: Arc::clone(&self.receivers) as _,
            clock: Arc::clone(&self.clock) as _,
            entropy: Arc::new(SeededEntropy::new(seed << 32)),
        };
        self.instances.push(Engine::new(ports, Settings::default()));
        &self.instances[self.instances.len() - 1]
    }

    fn store(&self, seed: u64) -> DynamoStore {
        DynamoStore::new(self.dynamo.client(), NAME, Arc::new(SeededEntropy::new(seed << 48)))
    }

    /// An instance, in turn.
    pub(crate) fn engine(&self) -> &Engine {
        self.turn.set((self.turn.get() + 1) % self.instances.len());
        &self.instances[self.turn.get()]
    }

    pub(crate) fn instances(&self) -> &[Engine] {
        &self.instances
    }

    pub(crate) fn let_receivers_answer(&self, status: u16) {
        self.receivers.0.store(status, Ordering::Relaxed);
    }

    pub(crate) async fn put(&self, records: Vec<Record>) {
        let left = self.store(0).put_each(records).await.expect("the table takes them");
        assert!(left.is_empty());
    }

    /// Subscriptions of a tenant, each for an event type and at a URL of its own: number n gets events of type `t.n`. All of them get
    /// events of type `all`.
    pub(crate) async fn subscribe(&self, tenant: &Tenant, count: usize) -> Vec<Subscription> {
        let now = self.clock.now();
        let mut version = TenantVersion::new(tenant);
        version.version = 1;
        (version.subscriptions, version.urls) = (count as u64, count as u64);
        let subscriptions: Vec<Subscription> = (0..count).map(|n| subscription(tenant, n, now)).collect();
        let urls = subscriptions
            .iter()
            .map(|one| Record::Url(UrlRecord::new(tenant.clone(), one.url_id.clone(), one.url.clone(), now)));
        let records = subscriptions.iter().cloned().map(Record::Subscription).chain(urls);
        self.put(records.chain([Record::TenantVersion(version)]).collect()).await;
        subscriptions
    }

    /// Events by type, in one post.
    pub(crate) async fn post(&self, tenant: &Tenant, types: &[String]) {
        let data = r#"{"order": 4711, "status": "paid", "items": [{"sku": "a-1", "count": 2}]}"#;
        let events = types.iter().map(|one| NewEvent::new(one, data)).collect();
        self.engine().accept(tenant, events).await.expect("the post is accepted");
    }

    /// Hands everything that is ready to the instances, in batches. Returns how many messages there were.
    pub(crate) async fn deliver(&self, queue: QueueName, batch: usize, max: usize) -> usize {
        let mut handled = 0;
        while handled < max {
            let taken = self.queue.receive(queue, TAKEN.min(max - handled)).await.expect("a queue in memory");
            if taken.is_empty() {
                break;
            }
            handled += taken.len();
            let receipts: Vec<_> = taken.iter().map(|one| one.receipt.clone()).collect();
            let mut settlements = Vec::new();
            for batch in taken.chunks(batch) {
                settlements.extend(self.engine().handle(batch.to_vec(), Timestamp::MAX).await);
            }
            self.queue.settle(queue, receipts.into_iter().zip(settlements).collect()).await;
        }
        handled
    }
}

fn subscription(tenant: &Tenant, n: usize, now: Timestamp) -> Subscription {
    let url = format!("https://{tenant}-{n}.example.com/hooks/holdfast");
    let mut random = [0; 16];
    random[..8].copy_from_slice(&(n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    Subscription {
        tenant: tenant.clone(),
        id: SubscriptionId::new(random),
        url_id: UrlId::of(&url),
        url,
        event_types: vec![format!("t.{n}"), "all".to_owned()],
        filters: Vec::new(),
        filter_connector: Connector::And,
        auth_token: None,
        description: Some("Tells the shop about its orders".to_owned()),
        active: true,
        secrets: vec![Secret { value: signing::new_secret([7; 32]), until_real: None }],
        created_at: now,
    }
}
