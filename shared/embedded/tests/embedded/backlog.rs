//! The counters of what waits equal a recount of the records, whatever happens to the deliveries.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use holdfast_core::engine::{
    Engine, NewEvent, NewSubscription, OverQuota, Ports, PostError, Settings, SubscriptionPatch,
};
use holdfast_core::ids::{DeliveryKey, EventKey, SubscriptionId, Tenant, UrlId};
use holdfast_core::ports::{
    AttemptRequest, AttemptResponse, AttemptResult, Backlog, BodyKey, Clock, Expect, Inbox, QueueName,
    Refused, Sender, Settlement, Store, Waiting, Write,
};
use holdfast_core::records::{DeliveryRecord, Key, NewDelivery, Record, Subscription};
use holdfast_core::rules::delivery::DeliveryState;
use holdfast_core::rules::health::OperatorAction;
use holdfast_core::rules::quota::{QuotaPatch, Quotas};
use holdfast_core::rules::schedule::Schedule;
use holdfast_core::rules::shortage::Shortage;
use holdfast_core::time::Timestamp;
use holdfast_embedded::{Embedded, Options};
use holdfast_sim::{SeededEntropy, VirtualClock, block_on, me};

const START: Timestamp = Timestamp::from_millis(1_700_000_000_000);
const DAY: Duration = Duration::from_secs(86_400);

/// Responds to every attempt with one status.
struct Receiver(AtomicU16);

#[async_trait]
impl Sender for Receiver {
    async fn send(&self, _: AttemptRequest) -> Result<AttemptResult, Shortage> {
        let status = self.0.load(Ordering::Relaxed);
        let response = AttemptResponse::Status { status, excerpt: String::new(), retry_after: None };
        Ok(AttemptResult { response, took: Duration::ZERO })
    }

    async fn check(&self, _: &Tenant, _: &str) -> Result<(), Refused> {
        Ok(())
    }
}

/// An engine on the database in a folder.
struct Host {
    embedded: Embedded,
    engine: Engine,
    clock: Arc<VirtualClock>,
    receiver: Arc<Receiver>,
    tenant: Tenant,
    file: std::path::PathBuf,
}

impl Host {
    fn open(dir: &Path) -> Host {
        let clock = Arc::new(VirtualClock::new(START));
        let embedded = Embedded::open(dir, clock.clone(), Options::default()).unwrap();
        let receiver = Arc::new(Receiver(AtomicU16::new(200)));
        let ports = Ports {
            store: embedded.store.clone(),
            queue: embedded.queue.clone(),
            backlog: embedded.backlog.clone(),
            sender: receiver.clone(),
            clock: clock.clone(),
            entropy: Arc::new(SeededEntropy::new(1)),
        };
        let engine = Engine::new(ports, Settings::default());
        Host { embedded, engine, clock, receiver, tenant: "shop".into(), file: dir.join("holdfast.db") }
    }

    fn subscribe(&self, path: &str) -> Subscription {
        let new = NewSubscription::to(&format!("https://receiver.example/{path}"), "*");
        block_on(self.engine.subscribe(&self.tenant, new, me())).unwrap()
    }

    fn respond_with(&self, status: u16) {
        self.receiver.0.store(status, Ordering::Relaxed);
    }

    fn post(&self, data: &str) {
        block_on(self.engine.accept(&self.tenant, vec![NewEvent::new("a", data)])).unwrap();
    }

    /// Handles messages until none is ready.
    fn work(&self) {
        loop {
            let mut worked = false;
            for queue in [QueueName::First, QueueName::Retry] {
                let batch = block_on(self.embedded.queue.receive(queue, 10)).unwrap();
                worked |= !batch.is_empty();
                let receipts: Vec<_> = batch.iter().map(|received| received.receipt.clone()).collect();
                let settlements = block_on(self.engine.handle(batch, Timestamp::MAX));
                assert!(settlements.iter().all(|done| *done == Settlement::Delete), "{settlements:?}");
                block_on(self.embedded.queue.settle(queue, receipts.into_iter().zip(settlements).collect()));
            }
            if !worked {
                return;
            }
        }
    }

    fn sweep_and_work(&self) {
        assert_eq!(block_on(self.engine.sweep()).unwrap().failed, 0);
        self.work();
    }

    fn change_url(&self, subscription: &Subscription, action: OperatorAction) {
        let changed =
            self.engine.change_url_state(&self.tenant, &subscription.url_id, action, None, false, me());
        block_on(changed).unwrap();
        self.work();
    }

    /// What waits by the counters, after comparing them with a recount.
    #[track_caller]
    fn waiting(&self) -> Waiting {
        let counted = counters(&self.file);
        assert_eq!(counted, self.recount());
        assert!(counted.values().all(|bytes| *bytes > 0), "a URL without a backlog has no row");
        let waiting = block_on(self.embedded.backlog.of(&self.tenant)).unwrap().unwrap();
        assert_eq!(waiting.bytes, counted.values().sum::<u64>());
        waiting
    }

    /// All that have a record, in the order in which they got it.
    fn deliveries(&self) -> Vec<DeliveryRecord> {
        let connection = rusqlite::Connection::open(&self.file).unwrap();
        let mut statement = connection
            .prepare("SELECT partition, sort FROM records WHERE partition LIKE 'deliveries#%' ORDER BY id")
            .unwrap();
        let keys =
            statement.query_map([], |row| Ok(Key { partition: row.get(0)?, sort: row.get(1)? })).unwrap();
        let of_delivery = |key: rusqlite::Result<Key>| {
            let found = block_on(self.embedded.store.get(&[key.unwrap()])).unwrap().remove(0);
            match found.unwrap().record {
                Record::Delivery(delivery) => Some(delivery),
                _ => None,
            }
        };
        keys.filter_map(of_delivery).collect()
    }

    /// The bytes of the bodies that wait, by the list of their URL.
    fn recount(&self) -> ByUrl {
        let mut by_url = ByUrl::new();
        let is_waiting = |delivery: &DeliveryRecord| delivery.progress.state.is_live();
        for delivery in self.deliveries().into_iter().filter(is_waiting) {
            let body =
                block_on(self.embedded.store.get_bodies(&[BodyKey::of(&delivery.key)])).unwrap().remove(0);
            let list = DeliveryRecord::url_list(&delivery.key.tenant, &delivery.url_id);
            // A body that is gone has no bytes.
            if let Some(body) = body {
                *by_url.entry(list).or_default() += body.len() as u64;
            }
        }
        by_url
    }

    fn states(&self) -> Vec<DeliveryState> {
        self.deliveries().into_iter().map(|delivery| delivery.progress.state).collect()
    }
}

type ByUrl = BTreeMap<String, u64>;

fn counters(file: &Path) -> ByUrl {
    let connection = rusqlite::Connection::open(file).unwrap();
    let mut statement = connection.prepare("SELECT list, bytes FROM backlog").unwrap();
    let rows =
        statement.query_map([], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?.unsigned_abs()))).unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

const NOTHING: Waiting = Waiting { bytes: 0, largest: None };

#[test]
fn a_retry_that_succeeds_no_longer_waits() {
    let dir = tempfile::tempdir().unwrap();
    let host = Host::open(dir.path());
    let subscription = host.subscribe("a");
    host.post("1");
    host.work();
    assert_eq!(host.waiting(), NOTHING, "a first attempt that succeeds never waits");
    host.respond_with(500);
    host.post("2");
    host.work();
    let one = host.waiting();
    assert!(one.bytes > 50);
    assert_eq!(one.largest, Some((subscription.url_id, one.bytes)));
    host.post(&format!("{:?}", "x".repeat(1_000)));
    host.work();
    assert_eq!(host.waiting().bytes, 2 * one.bytes + 1_001);
    host.clock.advance(Duration::from_secs(90));
    host.sweep_and_work();
    assert_eq!(host.waiting().bytes, 2 * one.bytes + 1_001, "another failure changes nothing");
    host.respond_with(200);
    host.clock.advance(Duration::from_secs(3_600));
    host.sweep_and_work();
    assert_eq!(host.waiting(), NOTHING);
}

#[test]
fn parked_deliveries_wait_until_they_are_released() {
    let dir = tempfile::tempdir().unwrap();
    let host = Host::open(dir.path());
    let (a, b) = (host.subscribe("a"), host.subscribe("b"));
    host.change_url(&a, OperatorAction::Freeze);
    host.change_url(&b, OperatorAction::Freeze);
    host.post("1");
    host.work();
    let waiting = host.waiting();
    let (_, half) = waiting.largest.clone().unwrap();
    assert_eq!(waiting.bytes, half * 2, "each delivery counts its body");
    host.change_url(&a, OperatorAction::Enable);
    host.clock.advance(Duration::from_secs(60));
    host.sweep_and_work();
    assert_eq!(host.waiting(), Waiting { bytes: half, largest: Some((b.url_id.clone(), half)) });
    host.change_url(&b, OperatorAction::Enable);
    host.clock.advance(Duration::from_secs(60));
    host.sweep_and_work();
    assert_eq!(host.waiting(), NOTHING);
}

#[test]
fn what_dies_no_longer_waits_and_a_replay_waits_again() {
    let dir = tempfile::tempdir().unwrap();
    let host = Host::open(dir.path());
    let a = host.subscribe("a");
    host.change_url(&a, OperatorAction::Freeze);
    host.post("1");
    host.work();
    let one = host.waiting().bytes;
    host.clock.advance(3 * DAY);
    host.sweep_and_work();
    assert_eq!(host.states(), [DeliveryState::Dead]);
    assert_eq!(host.waiting(), NOTHING);
    block_on(host.engine.replay(&host.deliveries()[0].key, me())).unwrap();
    host.work();
    host.clock.advance(Duration::from_secs(60));
    host.sweep_and_work();
    assert_eq!(host.states(), [DeliveryState::Parked], "the URL is still frozen");
    assert_eq!(host.waiting().bytes, one);
    block_on(host.engine.delete_subscription(&host.tenant, &a.id, me())).unwrap();
    host.work();
    assert_eq!(host.states(), [DeliveryState::Dead]);
    assert_eq!(host.waiting(), NOTHING);
    block_on(host.embedded.purge(host.clock.now() + 60 * DAY, 1_000)).unwrap();
    assert_eq!(host.states(), []);
    assert_eq!(host.waiting(), NOTHING);
}

#[test]
fn a_subscription_that_moves_takes_its_backlog_along() {
    let dir = tempfile::tempdir().unwrap();
    let host = Host::open(dir.path());
    let a = host.subscribe("a");
    host.respond_with(500);
    host.post("1");
    host.work();
    let one = host.waiting();
    assert_eq!(one.largest, Some((a.url_id.clone(), one.bytes)));
    let patch = SubscriptionPatch {
        url: Some("https://receiver.example/b".to_owned()),
        ..SubscriptionPatch::default()
    };
    let b = block_on(host.engine.update_subscription(&host.tenant, &a.id, patch, me())).unwrap();
    host.work();
    host.clock.advance(Duration::from_secs(90));
    host.sweep_and_work();
    assert_eq!(host.waiting(), Waiting { bytes: one.bytes, largest: Some((b.url_id, one.bytes)) });
}

fn delivery(tenant: &str, event: u8, url: u8) -> DeliveryRecord {
    let new = NewDelivery {
        key: DeliveryKey {
            tenant: tenant.into(),
            event_key: EventKey::of(&event.to_string(), START),
            subscription_id: SubscriptionId::new([1; 16]),
        },
        event_id: event.to_string(),
        event_type: "a".to_owned(),
        accepted_at: START,
        url_id: UrlId::of(&url.to_string()),
        url: String::new(),
        trace: None,
    };
    DeliveryRecord::new(new, &Schedule::default())
}

/// Any order of writes, by both ways of writing, on three URLs; some deliveries have no body.
#[test]
fn the_counters_equal_a_recount_after_any_writes() {
    let dir = tempfile::tempdir().unwrap();
    let host = Host::open(dir.path());
    let store = &host.embedded.store;
    let bodies = (0..15_u8).map(|event| {
        let key = BodyKey::new(&host.tenant, &EventKey::of(&event.to_string(), START));
        (key, Bytes::from(vec![b'x'; 10 + usize::from(event)]))
    });
    block_on(store.put_bodies(bodies.collect(), START + DAY)).unwrap();
    let mut seed = 7_u64;
    let mut random = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((seed >> 33) % below) as u8
    };
    let mut largest = 0;
    for _ in 0..300 {
        let mut record = delivery("shop", random(20), random(3));
        record.progress.state = match random(4) {
            0 => DeliveryState::Waiting,
            1 => DeliveryState::Parked,
            2 => DeliveryState::Delivered,
            _ => DeliveryState::Dead,
        };
        match random(3) {
            0 => assert_eq!(block_on(store.put_each(vec![Record::Delivery(record)])).unwrap(), []),
            1 => block_on(store.write(vec![Write::put(record, Expect::Any)])).unwrap(),
            _ => {
                let delete = Write::delete(DeliveryRecord::key(&record.key), Expect::Any);
                block_on(store.write(vec![delete])).unwrap();
            }
        }
        largest = host.waiting().bytes.max(largest);
    }
    assert!(largest > 50, "something waited");
    for event in 0..20 {
        let delete = Write::delete(DeliveryRecord::key(&delivery("shop", event, 0).key), Expect::Any);
        block_on(store.write(vec![delete])).unwrap();
    }
    assert_eq!(host.waiting(), NOTHING);
}

#[test]
fn each_tenant_has_a_backlog_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let host = Host::open(dir.path());
    let names = ["shop", "shop-1", "shop1", "sho", "s"];
    for (n, name) in names.iter().enumerate() {
        let record = delivery(name, 1, 1);
        let body = (BodyKey::of(&record.key), Bytes::from(vec![b'x'; n + 1]));
        block_on(host.embedded.store.put_bodies(vec![body], START + DAY)).unwrap();
        block_on(host.embedded.store.put_each(vec![Record::Delivery(record)])).unwrap();
    }
    for (n, name) in names.iter().enumerate() {
        let waiting = block_on(host.embedded.backlog.of(&(*name).into())).unwrap().unwrap();
        assert_eq!(waiting.bytes, n as u64 + 1, "{name}");
    }
}

#[test]
fn stored_bytes_are_those_of_all_bodies_until_they_are_removed() {
    let dir = tempfile::tempdir().unwrap();
    let host = Host::open(dir.path());
    let put = |tenant: &str, event: u8, bytes: usize| {
        let key = BodyKey::of(&delivery(tenant, event, 1).key);
        let body = vec![(key, Bytes::from(vec![b'x'; bytes]))];
        block_on(host.embedded.store.put_bodies(body, START + DAY * u32::from(event))).unwrap();
    };
    let stored = |tenant: &str| block_on(host.embedded.backlog.stored_bytes(&tenant.into())).unwrap();
    put("shop", 1, 10);
    put("shop", 2, 200_000);
    // It is stored already, and only kept for longer.
    put("shop", 2, 200_000);
    put("shop-1", 3, 5);
    assert_eq!((stored("shop"), stored("shop-1"), stored("sho")), (Some(200_010), Some(5), Some(0)));
    for (days, left) in [(1, 200_000), (2, 0), (3, 0)] {
        block_on(host.embedded.purge(START + DAY * days, 100)).unwrap();
        assert_eq!(stored("shop"), Some(left), "after {days} days");
    }
    assert_eq!(stored("shop-1"), Some(0));
}

#[test]
fn delivered_events_count_until_their_bodies_are_removed() {
    let dir = tempfile::tempdir().unwrap();
    let host = Host::open(dir.path());
    host.subscribe("a");
    let patch = QuotaPatch { stored_bytes: Some(Some(400_000)), ..QuotaPatch::default() };
    block_on(host.engine.set_quotas(&host.tenant, patch, me())).unwrap();
    let post = || {
        let large = format!("\"{}\"", "x".repeat(190_000));
        let posted = block_on(host.engine.post(&host.tenant, &[NewEvent::new("a", &large)]));
        host.work();
        posted
    };
    assert!(post().unwrap().warnings.is_empty());
    assert!(post().unwrap().warnings.is_empty(), "the one that is posted does not count yet");
    let warnings = post().unwrap().warnings;
    assert!(warnings[0].to_string().starts_with("stored_bytes is at 95 %"), "{warnings:?}");
    let Err(PostError::OverQuota(refused @ OverQuota::Stored { limit: 400_000, .. })) = post() else {
        panic!("it was accepted")
    };
    assert_eq!(refused.retry_after(), Duration::from_secs(60));
    let view = block_on(host.engine.view_tenant(&host.tenant)).unwrap();
    assert_eq!(view.waiting_bytes, Some(0), "all were delivered");
    assert!(view.stored_bytes.unwrap() > 400_000, "{view:?}");
    host.clock.advance(DAY * 18);
    block_on(host.embedded.purge(host.clock.now(), 100)).unwrap();
    post().unwrap();
}

/// Each change of the URL or of `active` starts the job that moves deliveries.
#[test]
fn many_changes_of_a_subscription_leave_one_job_and_one_ticket() {
    let dir = tempfile::tempdir().unwrap();
    let host = Host::open(dir.path());
    let subscription = host.subscribe("a");
    for n in 0..40 {
        let url = Some(format!("https://receiver.example/{n}"));
        for patch in [
            SubscriptionPatch { url, ..SubscriptionPatch::default() },
            SubscriptionPatch { active: Some(n % 2 == 1), ..SubscriptionPatch::default() },
        ] {
            block_on(host.engine.update_subscription(&host.tenant, &subscription.id, patch, me())).unwrap();
        }
    }
    let file = rusqlite::Connection::open(&host.file).unwrap();
    let count = |sql: &str| file.query_row(sql, [], |row| row.get::<_, u32>(0)).unwrap();
    assert_eq!(count("SELECT count(*) FROM records WHERE partition LIKE 'job#%'"), 1);
    assert_eq!(count("SELECT count(*) FROM messages"), 1);
}

#[test]
fn a_restart_keeps_quotas_and_what_waits() {
    let dir = tempfile::tempdir().unwrap();
    let quotas = Quotas {
        events_per_second: Some(100),
        subscriptions: Some(1),
        waiting_bytes: Some(60),
        stored_bytes: Some(1_000_000),
    };
    let host = Host::open(dir.path());
    let a = host.subscribe("a");
    host.respond_with(500);
    host.post("1");
    host.work();
    let patch = QuotaPatch {
        events_per_second: Some(quotas.events_per_second),
        subscriptions: Some(quotas.subscriptions),
        waiting_bytes: Some(quotas.waiting_bytes),
        stored_bytes: Some(quotas.stored_bytes),
    };
    let before = block_on(host.engine.set_quotas(&host.tenant, patch, me())).unwrap();
    host.embedded.close();
    drop(host);
    let host = Host::open(dir.path());
    let after = block_on(host.engine.view_tenant(&host.tenant)).unwrap();
    assert_eq!((after.quotas, &after), (quotas, &before));
    let refused = block_on(host.engine.post(&host.tenant, &[NewEvent::new("a", "1")]));
    let Err(PostError::OverQuota(OverQuota::Waiting { bytes, largest, .. })) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(largest, Some((a.url_id, "https://receiver.example".to_owned(), bytes)));
}
