//! Small reads keep the thread of their caller for a moment.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;

use futures_util::future::join_all;
use holdfast_core::ids::{SubscriptionId, UrlId};
use holdfast_core::ports::{Expect, Query, Store, Write};
use holdfast_core::records::{Key, Subscription};
use holdfast_core::rules::filter::Connector;
use holdfast_core::time::Timestamp;
use holdfast_embedded::{Embedded, Options};
use holdfast_sim::VirtualClock;

/// A batch that read a hundred records read all of them at once, and every other task waited.
#[tokio::test]
async fn a_task_with_many_reads_lets_others_have_their_turns() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(VirtualClock::new(Timestamp::from_millis(1_700_000_000_000)));
    let embedded = Embedded::open(folder.path(), clock as _, Options::default()).unwrap();
    let keys: Vec<Key> = (0..100).map(|n| Key::new(format!("partition {n}"), "sort")).collect();
    let mut reads = pin!(join_all(keys.iter().map(|key| embedded.store.get(std::slice::from_ref(key)))));
    let mut turns = 0;
    let read = poll_fn(|context| {
        turns += 1;
        reads.as_mut().poll(context)
    });
    assert!(read.await.into_iter().all(|found| found.is_ok()));
    assert!((6..50).contains(&turns), "{turns}");
}

fn large_subscription(n: usize) -> Subscription {
    Subscription {
        tenant: "t".into(),
        id: SubscriptionId::from(format!("sub_{n:03}").as_str()),
        url: "https://a.test/".to_owned(),
        url_id: UrlId::of("https://a.test/"),
        event_types: vec!["a".repeat(1_000); 100],
        filters: Vec::new(),
        filter_connector: Connector::And,
        auth_token: None,
        description: None,
        active: true,
        secrets: Vec::new(),
        created_at: Timestamp::from_millis(1_700_000_000_000),
    }
}

/// Sixteen records of a hundred kilobytes were decoded at once, and every other task waited.
#[tokio::test]
async fn a_task_that_reads_large_records_lets_others_have_their_turns() {
    const COUNT: usize = 32;
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(VirtualClock::new(Timestamp::from_millis(1_700_000_000_000)));
    let embedded = Embedded::open(folder.path(), clock as _, Options::default()).unwrap();
    let subscriptions: Vec<Subscription> = (0..COUNT).map(large_subscription).collect();
    let keys: Vec<Key> = subscriptions.iter().map(|one| Subscription::key(&one.tenant, &one.id)).collect();
    for subscription in subscriptions {
        embedded.store.write(vec![Write::put(subscription, Expect::Absent)]).await.unwrap();
    }
    let mut turns = 0;
    let mut get = pin!(embedded.store.get(&keys));
    let found = poll_fn(|context| {
        turns += 1;
        get.as_mut().poll(context)
    });
    assert_eq!(found.await.unwrap().into_iter().flatten().count(), COUNT);
    assert!(turns >= COUNT, "{turns}");
    let page = embedded.store.query(Query::of(Subscription::partition(&"t".into()), COUNT)).await.unwrap();
    assert_eq!((page.items.len(), page.next), (COUNT, None));
}
