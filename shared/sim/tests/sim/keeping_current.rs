//! What a change among many subscriptions costs the next post, counted in what is read from the store.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use holdfast_core::engine::{Engine, NewEvent, NewSubscription, Ports, Settings, SubscriptionPatch};
use holdfast_core::ids::{Tenant, UrlId};
use holdfast_core::ports::{
    AttemptRequest, AttemptResult, BodyKey, Count, IndexCount, IndexQuery, NotCounted, Page, Query, Sender,
    Store, StoreError, Versioned, Write, WriteError,
};
use holdfast_core::records::{Key, Record, Subscription, UrlRecord};
use holdfast_core::rules::filter::{Connector, Filter, Op};
use holdfast_core::rules::health::Outcome;
use holdfast_core::rules::shortage::Shortage;
use holdfast_core::time::Now;
use holdfast_core::time::Timestamp;
use holdfast_sim::{MemoryQueue, MemoryStore, SeededEntropy, VirtualClock, block_on, me};
use serde_json::json;
use serde_json::value::RawValue;

const MANY: usize = 10_000;

/// Counts the records that are asked for or answered.
#[derive(Default)]
struct Counting {
    store: MemoryStore,
    records: AtomicUsize,
}

impl Counting {
    fn count(&self, records: usize) {
        self.records.fetch_add(records, Ordering::Relaxed);
    }
}

#[async_trait]
impl Store for Counting {
    async fn get(&self, keys: &[Key]) -> Result<Vec<Option<Versioned>>, StoreError> {
        self.count(keys.len());
        self.store.get(keys).await
    }
    async fn query(&self, query: Query) -> Result<Page, StoreError> {
        let page = self.store.query(query).await?;
        self.count(page.items.len());
        Ok(page)
    }
    async fn query_index(&self, query: IndexQuery) -> Result<Page, StoreError> {
        self.store.query_index(query).await
    }
    async fn count_index(&self, count: IndexCount) -> Result<Count, StoreError> {
        self.store.count_index(count).await
    }
    async fn overdue(&self, shard: u8, until: Timestamp, limit: usize) -> Result<Vec<Versioned>, StoreError> {
        self.store.overdue(shard, until, limit).await
    }
    async fn write(&self, writes: Vec<Write>) -> Result<(), WriteError> {
        self.store.write(writes).await
    }
    async fn put_each(&self, records: Vec<Record>) -> Result<Vec<Record>, StoreError> {
        self.store.put_each(records).await
    }
    async fn count_outcomes(
        &self,
        tenant: &Tenant,
        url: &UrlId,
        outcomes: Vec<Outcome>,
        now: Now,
    ) -> Result<Option<(UrlRecord, UrlRecord)>, StoreError> {
        self.store.count_outcomes(tenant, url, outcomes, now).await
    }
    async fn put_bodies(
        &self,
        bodies: Vec<(BodyKey, Bytes)>,
        remove_at: Timestamp,
    ) -> Result<(), StoreError> {
        self.store.put_bodies(bodies, remove_at).await
    }
    async fn get_bodies(&self, keys: &[BodyKey]) -> Result<Vec<Option<Bytes>>, StoreError> {
        self.store.get_bodies(keys).await
    }
    async fn keep_body(&self, key: &BodyKey, remove_at: Timestamp) -> Result<bool, StoreError> {
        self.store.keep_body(key, remove_at).await
    }
    async fn remove_body(&self, key: &BodyKey) -> Result<(), StoreError> {
        self.store.remove_body(key).await
    }
}

struct NoReceiver;

#[async_trait]
impl Sender for NoReceiver {
    async fn send(&self, _: AttemptRequest) -> Result<AttemptResult, Shortage> {
        unreachable!("nothing is attempted here")
    }
}

struct Scene {
    store: Arc<Counting>,
    clock: Arc<VirtualClock>,
    /// The engine that changes subscriptions is not the one that takes events.
    admin: Engine,
    ingest: Engine,
    tenant: Tenant,
}

impl Scene {
    fn new() -> Scene {
        let clock = Arc::new(VirtualClock::new(Timestamp::from_millis(1_700_000_000_000)));
        let store = Arc::new(Counting::default());
        let (admin, ingest) = (engine(&store, &clock, 1), engine(&store, &clock, 2));
        Scene { admin, ingest, tenant: "default".into(), store, clock }
    }

    /// Another process takes the events from now on.
    fn restart_ingest(&mut self) {
        self.ingest = engine(&self.store, &self.clock, 3);
    }

    fn subscribe(&self, customer: usize) -> Subscription {
        let new = NewSubscription {
            url: "https://receiver.example/".to_owned(),
            event_types: vec!["order.created".to_owned()],
            filters: customer_is(customer),
            filter_connector: Connector::And,
            auth_token: None,
            description: None,
            active: true,
            secret: None,
        };
        block_on(self.admin.subscribe(&self.tenant, new, me())).unwrap()
    }

    /// To how many it goes, and how many records were read for that.
    fn post(&self, customer: usize) -> (u64, usize) {
        let event = NewEvent {
            id: None,
            event_type: "order.created".to_owned(),
            subject: None,
            data: RawValue::from_string(json!({ "customer": customer }).to_string()).unwrap(),
            trace: None,
        };
        self.store.records.store(0, Ordering::Relaxed);
        let accepted = block_on(self.ingest.accept(&self.tenant, vec![event])).unwrap();
        (accepted[0].deliveries, self.store.records.load(Ordering::Relaxed))
    }

    fn change(&self, subscription: &Subscription, customer: usize) {
        let patch =
            SubscriptionPatch { filters: Some(customer_is(customer)), ..SubscriptionPatch::default() };
        block_on(self.admin.update_subscription(&self.tenant, &subscription.id, patch, me())).unwrap();
    }
}

fn engine(store: &Arc<Counting>, clock: &Arc<VirtualClock>, seed: u64) -> Engine {
    let ports = Ports {
        store: Arc::clone(store) as _,
        queue: Arc::new(MemoryQueue::new(Arc::clone(clock) as _, Duration::from_secs(180))),
        backlog: Arc::new(NotCounted),
        sender: Arc::new(NoReceiver),
        clock: Arc::clone(clock) as _,
        entropy: Arc::new(SeededEntropy::new(seed)),
    };
    Engine::new(ports, Settings::default())
}

fn customer_is(customer: usize) -> Vec<Filter> {
    vec![Filter { field: "data.customer".to_owned(), op: Op::Eq, value: Some(json!(customer)) }]
}

#[test]
fn a_change_among_ten_thousand_is_read_alone() {
    let scene = Scene::new();
    let subscriptions: Vec<_> = (0..MANY - 1).map(|customer| scene.subscribe(customer)).collect();
    let (deliveries, read) = scene.post(7);
    assert!(deliveries == 1 && read >= MANY - 1, "the first post loads them all: {read}");
    assert_eq!(scene.post(7), (1, 1), "the version alone, as long as nothing changes");

    let newest = scene.subscribe(MANY);
    // The version, the change and the subscription.
    assert_eq!(scene.post(MANY), (1, 3));
    scene.change(&newest, MANY + 1);
    assert_eq!((scene.post(MANY), scene.post(MANY + 1)), ((0, 3), (1, 1)));
    assert!(block_on(scene.admin.delete_subscription(&scene.tenant, &newest.id, me())).unwrap());
    assert_eq!((scene.post(MANY + 1), scene.post(7)), ((0, 3), (1, 1)));

    // A hundred changes of one are a hundred changes and one subscription.
    for customer in 0..100 {
        scene.change(&subscriptions[7], MANY + customer);
    }
    assert_eq!(scene.post(MANY + 99), (1, 102));
    // A cache that is too far behind, or too old, reads everything.
    for customer in 0..201 {
        scene.change(&subscriptions[7], MANY + customer);
    }
    let (deliveries, read) = scene.post(MANY + 200);
    assert!(deliveries == 1 && read >= MANY - 1, "{read}");
    scene.change(&subscriptions[7], 7);
    scene.clock.advance(Duration::from_secs(86_401));
    scene.store.store.purge(Timestamp::from_millis(1_700_000_000_000) + Duration::from_secs(86_401));
    scene.change(&subscriptions[8], MANY);
    let (deliveries, read) = scene.post(MANY);
    assert!(deliveries == 1 && read >= MANY - 1, "{read}");
    assert_eq!(scene.post(7).0, 1);
}

#[test]
fn a_process_that_starts_reads_a_snapshot_and_what_changed_since() {
    const SOME: usize = 600;
    let mut scene = Scene::new();
    let subscriptions: Vec<_> = (0..SOME).map(|customer| scene.subscribe(customer)).collect();
    let (deliveries, read) = scene.post(7);
    assert!(deliveries == 1 && read >= SOME, "without a snapshot all are read: {read}");
    scene.restart_ingest();
    assert_eq!(scene.post(7), (1, 1), "the version alone");

    scene.subscribe(1_000);
    scene.change(&subscriptions[7], 1_001);
    assert!(block_on(scene.admin.delete_subscription(&scene.tenant, &subscriptions[8].id, me())).unwrap());
    scene.restart_ingest();
    // The version, three changes and what they changed.
    assert_eq!(scene.post(1_000), (1, 7));
    let deliveries = [7, 1_001, 8, 9].map(|customer| scene.post(customer).0);
    assert_eq!(deliveries, [0, 1, 0, 1]);

    // After too many changes all are read, for the next snapshot; but not for one every minute.
    for customer in 0..201 {
        scene.change(&subscriptions[7], 2_000 + customer);
    }
    for wait in [59 * 60, 60] {
        scene.clock.advance(Duration::from_secs(wait));
        scene.restart_ingest();
        let (deliveries, read) = scene.post(2_200);
        assert!(deliveries == 1 && read >= SOME, "{read}");
    }
    scene.restart_ingest();
    assert_eq!(scene.post(2_200), (1, 1));

    // A snapshot that is gone is no error.
    scene.store.store.purge(Timestamp::from_millis(1_700_000_000_000) + Duration::from_secs(8 * 86_400));
    scene.restart_ingest();
    let (deliveries, read) = scene.post(2_200);
    assert!(deliveries == 1 && read >= SOME, "{read}");
}
