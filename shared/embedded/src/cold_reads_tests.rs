//! Reads that may have to wait for the disk do not run on the caller's thread, which all tenants share.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join_all};
use holdfast_core::ids::{DeliveryKey, EventKey, SubscriptionId, Tenant, UrlId};
use holdfast_core::ports::{Backlog, BodyKey, IndexCount, IndexQuery, Query, Store};
use holdfast_core::records::{
    DeliveryRecord, EventRecord, ListIndex, Subscription, TenantVersion, UrlRecord,
};
use holdfast_core::time::Timestamp;
use holdfast_sim::{VirtualClock, block_on};
use rusqlite::Connection;

use crate::error::Failure;
use crate::lane::Lane;
use crate::{CheckCursor, Embedded, Options};

const READERS: usize = 4;
const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

fn open(dir: &std::path::Path) -> Embedded {
    let clock = Arc::new(VirtualClock::new(NOW));
    Embedded::open(dir, clock, Options { readers: READERS, ..Options::default() }).unwrap()
}

/// Reads that say when they begin, and end when this is dropped.
struct SlowReads {
    began: mpsc::Sender<()>,
    begun: mpsc::Receiver<()>,
    end: Vec<mpsc::Sender<()>>,
    /// A read whose caller does not wait any more would not be made.
    waiting: Vec<BoxFuture<'static, Result<(), Failure>>>,
}

impl SlowReads {
    fn new() -> SlowReads {
        let (began, begun) = mpsc::channel();
        SlowReads { began, begun, end: Vec::new(), waiting: Vec::new() }
    }

    fn add(&mut self, embedded: &Embedded, tenant: &'static str) {
        let (sender, ended) = mpsc::channel::<()>();
        self.end.push(sender);
        let (began, readers) = (self.began.clone(), Arc::clone(&embedded.store.readers));
        let slow = move |_: &Connection| {
            began.send(()).unwrap();
            let _ = ended.recv();
            Ok::<_, Failure>(())
        };
        let mut read = async move { readers.read(tenant, slow).await }.boxed();
        // The first poll puts it in line.
        assert!((&mut read).now_or_never().is_none());
        self.waiting.push(read);
    }

    fn next_begun(&self) {
        self.begun.recv_timeout(Duration::from_secs(30)).expect("a read begins");
    }
}

#[test]
fn a_slow_disk_keeps_no_worker_and_small_reads_of_the_hot_path_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let embedded = open(dir.path());
    let store = &embedded.store;
    let tenant: Tenant = "t".into();
    let (url, subscription_id) = (UrlId::of("https://a.test/"), SubscriptionId::new([1; 16]));
    let event_key = EventKey::of("evt_1", NOW);
    let delivery = DeliveryKey {
        tenant: tenant.clone(),
        event_key: event_key.clone(),
        subscription_id: subscription_id.clone(),
    };
    let hot = [
        UrlRecord::key(&tenant, &url),
        Subscription::key(&tenant, &subscription_id),
        TenantVersion::key(&tenant),
    ];
    assert!(block_on(store.get(&hot)).is_ok());
    let mut slow = SlowReads::new();
    for tenant in ["a", "b", "a", "b"] {
        slow.add(&embedded, tenant);
    }
    for _ in 0..READERS {
        slow.next_begun();
    }

    assert!(store.get(&hot).now_or_never().is_some(), "these were read a moment ago");
    assert!(embedded.backlog.stored_bytes(&tenant).now_or_never().is_some());

    let list = DeliveryRecord::url_list(&tenant, &url);
    let count = IndexCount { index: ListIndex::ByUrl, partition: list.clone(), from: None, limit: 10 };
    let (delivery, body) = ([DeliveryRecord::key(&delivery)], [BodyKey::new(&tenant, &event_key)]);
    // Posts of 100 ids that were used long ago kept others waiting for 16 s.
    let given_id = [TenantVersion::key(&tenant), EventRecord::key(&tenant, "order-1")];
    // 10,000 subscriptions that were not used for a while kept others waiting for a second.
    let unused = [Subscription::key(&tenant, &SubscriptionId::new([2; 16]))];
    let mut cold = [
        store.get(&unused).map(|found| found.is_ok()).boxed(),
        store.get(&given_id).map(|found| found.is_ok()).boxed(),
        store.get(&delivery).map(|found| found.is_ok()).boxed(),
        store.query(Query::of("changes#t", 10)).map(|found| found.is_ok()).boxed(),
        store.query_index(IndexQuery::of(ListIndex::ByUrl, list, 10)).map(|found| found.is_ok()).boxed(),
        store.count_index(count).map(|found| found.is_ok()).boxed(),
        store.overdue(0, NOW, 10).map(|found| found.is_ok()).boxed(),
        store.get_bodies(&body).map(|found| found.is_ok()).boxed(),
        embedded.backlog.of(&tenant).map(|found| found.is_ok()).boxed(),
        embedded.backlog.bytes(&tenant).map(|found| found.is_ok()).boxed(),
        embedded.check_step(CheckCursor::START, 10).map(|found| found.is_ok()).boxed(),
    ];
    for (n, read) in cold.iter_mut().enumerate() {
        assert_eq!(read.now_or_never(), None, "read {n} was made on this thread");
    }
    drop(slow);
    assert!(block_on(join_all(cold)).into_iter().all(|ok| ok));
}

/// Replays of old deliveries with bodies of 1 MB kept others waiting for 14 s, because the writing thread read the bodies.
#[test]
fn a_body_that_is_kept_longer_is_read_before_the_writing_thread_copies_it() {
    let dir = tempfile::tempdir().unwrap();
    let embedded = open(dir.path());
    let body = BodyKey::new(&"t".into(), &EventKey::of("evt_1", NOW));
    block_on(embedded.store.put_bodies(vec![(body.clone(), "{}".into())], NOW)).unwrap();
    let mut slow = SlowReads::new();
    for tenant in ["a", "b", "a", "b"] {
        slow.add(&embedded, tenant);
    }
    for _ in 0..READERS {
        slow.next_begun();
    }
    let mut kept = embedded.store.keep_body(&body, NOW).boxed();
    assert!((&mut kept).now_or_never().is_none());
    // The writing thread has done all it was asked to by now.
    block_on(embedded.writer.run(Lane::own(), |_| Ok(()))).unwrap();
    assert!((&mut kept).now_or_never().is_none(), "it waits for a thread that reads");
    drop(slow);
    assert!(block_on(kept).unwrap());
}

#[test]
fn a_read_that_panics_ends_no_thread_and_one_after_the_close_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let embedded = open(dir.path());
    let panicking = || embedded.store.readers.read("t", |_| -> Result<(), Failure> { panic!("damaged") });
    for _ in 0..2 * READERS {
        assert!(matches!(block_on(panicking()), Err(Failure::Closed)));
    }
    let query = || embedded.store.query(Query::of("changes#t", 10));
    assert!(block_on(query()).is_ok());
    embedded.close();
    assert!(block_on(query()).is_err());
}
