//! For hosts that count what waits.

use bytes::Bytes;
use holdfast_core::ids::Tenant;
use holdfast_core::ports::{BodyKey, Expect, QueueName, Waiting, Write};
use holdfast_core::records::{
    Attempt, DeliveryRecord, EventRecord, FirstAttempt, LoggedDelivery, Message, Record,
};
use holdfast_core::rules::delivery::{AttemptOutcome, DeliveryState};

use super::Harness;
use super::samples::{at, delivery, event, now, tenant, url_id};

async fn store_body(h: &dyn Harness, record: &DeliveryRecord, bytes: usize) {
    let body = (BodyKey::of(&record.key), Bytes::from(vec![b'x'; bytes]));
    h.store().put_bodies(vec![body], at(1_000_000)).await.unwrap();
}

async fn put(h: &dyn Harness, record: &DeliveryRecord, state: DeliveryState) {
    let mut record = record.clone();
    record.progress.state = state;
    h.store().write(vec![Write::put(record, Expect::Any)]).await.unwrap();
}

async fn waiting(h: &dyn Harness) -> Waiting {
    h.backlog().of(&tenant()).await.unwrap().unwrap()
}

fn sum(of: &[(u8, u64)]) -> Waiting {
    Waiting::sum(of.iter().map(|(to, bytes)| (url_id(*to), *bytes)))
}

pub async fn deliveries_count_their_body_while_they_wait_or_are_parked(h: &dyn Harness) {
    let (first, second) = (delivery(1, 1), delivery(2, 2));
    store_body(h, &first, 10).await;
    store_body(h, &second, 25).await;
    assert_eq!(waiting(h).await, Waiting::default(), "a body alone does not wait");
    put(h, &first, DeliveryState::Waiting).await;
    assert_eq!(waiting(h).await, sum(&[(1, 10)]));
    put(h, &second, DeliveryState::Parked).await;
    assert_eq!(waiting(h).await, Waiting { bytes: 35, largest: Some((url_id(2), 25)) });
    put(h, &first, DeliveryState::Parked).await;
    assert_eq!(waiting(h).await.bytes, 35, "each is counted once");
    put(h, &second, DeliveryState::Delivered).await;
    assert_eq!(waiting(h).await, sum(&[(1, 10)]));
    put(h, &first, DeliveryState::Dead).await;
    assert_eq!(waiting(h).await, Waiting::default());
    put(h, &first, DeliveryState::Waiting).await;
    assert_eq!(waiting(h).await, sum(&[(1, 10)]), "it was replayed");
    let delete = Write::delete(DeliveryRecord::key(&first.key), Expect::Any);
    h.store().write(vec![delete]).await.unwrap();
    assert_eq!(waiting(h).await, Waiting::default());
}

pub async fn deliveries_of_one_event_count_its_body_each(h: &dyn Harness) {
    let (first, second) = (delivery(1, 1), delivery(1, 2));
    store_body(h, &first, 10).await;
    let records = [&first, &second].map(|record| Record::Delivery(record.clone())).to_vec();
    assert_eq!(h.store().put_each(records).await.unwrap(), []);
    assert_eq!(waiting(h).await.bytes, 20);
}

pub async fn a_delivery_that_moves_takes_its_bytes_along(h: &dyn Harness) {
    let mut record = delivery(1, 1);
    store_body(h, &record, 10).await;
    put(h, &record, DeliveryState::Waiting).await;
    record.url_id = url_id(2);
    put(h, &record, DeliveryState::Waiting).await;
    assert_eq!(waiting(h).await, sum(&[(2, 10)]));
}

pub async fn tenants_wait_for_themselves(h: &dyn Harness) {
    for (n, name) in ["shop", "shop-1", "shop1", "sho"].into_iter().enumerate() {
        let mut record = delivery(1, 1);
        record.key.tenant = name.into();
        store_body(h, &record, n + 1).await;
        put(h, &record, DeliveryState::Waiting).await;
        let waiting = h.backlog().of(&Tenant::from(name)).await.unwrap().unwrap();
        assert_eq!(waiting.bytes, n as u64 + 1, "{name}");
    }
}

/// An event with many recipients has many records. Receivers decide how long their responses are, and producers how long ids and subjects are.
pub async fn records_count_as_stored_while_they_are_kept(h: &dyn Harness) {
    let record = delivery(1, 1);
    let attempt = |bytes: usize| Attempt {
        key: record.key.clone(),
        epoch: 0,
        n: 0,
        at: record.accepted_at,
        outcome: AttemptOutcome::Success,
        status: Some(200),
        error: None,
        ms: 1,
        excerpt: (bytes > 0).then(|| "x".repeat(bytes)),
        remove_at: at(1_000_000),
    };
    let stored = async || h.backlog().stored_bytes(&tenant()).await.unwrap().unwrap();
    let put = async |record: Record| assert_eq!(h.store().put_each(vec![record]).await.unwrap(), []);
    let bytes_of = |record: &Record| record.counted_bytes(record.encode().len());
    store_body(h, &record, 10).await;
    let logged = Record::Logged(LoggedDelivery::new(&record, attempt(1_000)));
    put(logged.clone()).await;
    assert_eq!(stored().await, 10 + bytes_of(&logged));
    assert!(bytes_of(&logged) > logged.encode().len() as u64, "its key and its entries in lists count too");
    // Written again, with other lengths.
    for excerpt in [4_096, 4_096, 2_000, 100, 0, 3_000] {
        let attempt = Record::Attempt(attempt(excerpt));
        let counted = bytes_of(&attempt);
        put(attempt).await;
        assert_eq!(stored().await, 10 + bytes_of(&logged) + counted, "{excerpt}");
    }
    for key in [attempt(0).key(), LoggedDelivery::key(&record.key)] {
        h.store().write(vec![Write::delete(key, Expect::Any)]).await.unwrap();
    }
    assert_eq!(stored().await, 10);
    let large = Record::Event(EventRecord { subject: Some("s".repeat(2_000)), ..event() });
    put(large.clone()).await;
    assert_eq!(stored().await, 10 + bytes_of(&large));
    assert_eq!(h.backlog().stored_bytes(&"other".into()).await.unwrap(), Some(0));
}

pub async fn first_attempts_count_while_they_are_queued(h: &dyn Harness) {
    let (record, other) = (delivery(1, 1), delivery(2, 1));
    let message = |record: &DeliveryRecord, body| {
        now(Message::FirstAttempt(FirstAttempt {
            key: record.key.clone(),
            event_id: record.event_id.clone(),
            event_type: record.event_type.clone(),
            accepted_at: record.accepted_at,
            url_id: record.url_id.clone(),
            body,
            again: false,
            trace: None,
        }))
    };
    let inline = message(&record, Some(Bytes::from_static(b"0123456789")));
    h.queue().send(QueueName::First, vec![inline]).await.unwrap();
    assert_eq!(waiting(h).await, sum(&[(1, 10)]));
    // A fan-out stores the body once, apart from its messages.
    let body = (BodyKey::of(&other.key), Bytes::from_static(b"01234"));
    h.store().put_bodies(vec![body], at(1_000_000)).await.unwrap();
    h.queue().send(QueueName::First, vec![message(&other, None)]).await.unwrap();
    assert_eq!(waiting(h).await, sum(&[(1, 15)]));
    assert_eq!(h.backlog().bytes(&record.key.tenant).await.unwrap(), Some(15));
}
