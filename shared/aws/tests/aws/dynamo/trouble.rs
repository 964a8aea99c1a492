//! Lost responses, unprocessed items, competing transactions, stale index entries and records of newer releases.

use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use bytes::Bytes;
use holdfast_aws::{DynamoStore, RequestCounter};
use holdfast_core::ids::{DeliveryKey, EventKey, SubscriptionId, UrlId};
use holdfast_core::ports::chain;
use holdfast_core::ports::{
    BodyKey, Entropy, Expect, IndexQuery, Store, StoreError, Versioned, Write, WriteError,
};
use holdfast_core::records::{
    DeliveryRecord, Key, ListIndex, NewDelivery, Record, TenantVersion, Unreadable, UrlRecord,
};
use holdfast_core::rules::health::{OperatorAction, Outcome, UrlState};
use holdfast_core::rules::schedule::Schedule;
use holdfast_core::time::{Now, Timestamp};
use holdfast_sim::SeededEntropy;

use super::Table;
use super::faults::{Fault, Faulty};

const NOW: Now = Now { schedule: Timestamp::ZERO, real: Timestamp::ZERO };
const COMPETING_TRANSACTION: Fault = Fault::Refused(
    r#"{"__type": "com.amazonaws.dynamodb.v20120810#TransactionCanceledException",
        "CancellationReasons": [{"Code": "None"}, {"Code": "TransactionConflict"}]}"#,
);
const COMPETING_WRITE: Fault = Fault::Refused(
    r#"{"__type": "com.amazonaws.dynamodb.v20120810#TransactionConflictException", "message": "ongoing"}"#,
);
const THROTTLED: Fault = Fault::Refused(
    r#"{"__type": "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException", "message": "hot"}"#,
);

fn at(secs: i64) -> Timestamp {
    Timestamp::from_millis(1_700_000_000_000 + secs * 1000)
}

fn tenant_version(name: &str, version: u64) -> Record {
    Record::TenantVersion(TenantVersion {
        version,
        subscriptions: 1,
        urls: 1,
        ..TenantVersion::new(&name.into())
    })
}

fn url() -> UrlRecord {
    UrlRecord::new("t".into(), UrlId::of("https://example.com"), "https://example.com".into(), at(0))
}

fn outcomes(count: usize, success: bool, generation: u64) -> Vec<Outcome> {
    vec![
        Outcome {
            success,
            error: None,
            is_first: true,
            retry: 0,
            is_own_event: false,
            started_at: at(1),
            ended_at: at(2),
            generation,
            recent_ms: 0
        };
        count
    ]
}

async fn count(store: &DynamoStore, outcomes: Vec<Outcome>) -> (UrlRecord, UrlRecord) {
    store.count_outcomes(&url().tenant, &url().id, outcomes, NOW).await.unwrap().unwrap()
}

async fn find(store: &DynamoStore, key: &Key) -> Option<(Record, u64)> {
    let found = store.get(std::slice::from_ref(key)).await.unwrap().remove(0);
    found.map(|found| (found.record, found.version))
}

async fn put(store: &DynamoStore, record: Record, expect: Expect) -> Result<(), WriteError> {
    store.write(vec![Write::put(record, expect)]).await
}

fn is_conflict(written: Result<(), WriteError>) -> bool {
    matches!(written, Err(WriteError::Conflict(_)))
}

#[tokio::test]
async fn a_put_whose_response_was_lost_is_not_a_conflict() {
    let table = Table::create().await;
    let other = table.store();
    let looked = Record::Url(UrlRecord { looks: 1, ..url() });
    for (operation, record, expect) in [
        ("PutItem", tenant_version("a", 1), Expect::Absent),
        ("PutItem", tenant_version("a", 2), Expect::Version(1)),
        ("PutItem", Record::Url(url()), Expect::Absent),
        ("UpdateItem", looked, Expect::Version(1)),
    ] {
        let faulty = Faulty::new(operation, Fault::ResponseLost, 1);
        put(&table.store_through(faulty.clone()), record.clone(), expect).await.unwrap();
        assert_eq!(faulty.sent(), 2);
        let version = if expect == Expect::Absent { 1 } else { 2 };
        assert_eq!(find(&other, &record.key()).await, Some((record.clone(), version)));
        // Another writer of the same record gets a conflict, also if its response is lost.
        let faulty = Faulty::new(operation, Fault::ResponseLost, 1);
        assert!(is_conflict(put(&table.store_through(faulty), record, expect).await));
    }
}

#[tokio::test]
async fn a_batch_whose_response_was_lost_is_counted_once() {
    let table = Table::create().await;
    put(&table.store(), Record::Url(url()), Expect::Absent).await.unwrap();
    let faulty = Faulty::new("UpdateItem", Fault::ResponseLost, 1);
    let (_, after) = count(&table.store_through(faulty.clone()), outcomes(60, false, 0)).await;
    assert_eq!((faulty.sent(), after.health.window_attempts), (2, 60));
    // Over the threshold, which is a transaction.
    let faulty = Faulty::new("TransactWriteItems", Fault::ResponseLost, 1);
    let (before, after) = count(&table.store_through(faulty.clone()), outcomes(60, false, 0)).await;
    assert_eq!((faulty.sent(), before.health.window_attempts), (2, 60));
    assert_eq!((after.health.state, after.health.window_attempts), (UrlState::Disabled, 101));
    // A failed probe changes no state, so it is a single put.
    let faulty = Faulty::new("PutItem", Fault::ResponseLost, 1);
    let (before, after) = count(&table.store_through(faulty.clone()), outcomes(1, false, 1)).await;
    assert_eq!((faulty.sent(), before.health.window_attempts, after.health.window_attempts), (2, 101, 102));
    let key = Record::Url(url()).key();
    assert_eq!(find(&table.store(), &key).await.unwrap().0, Record::Url(after));
}

#[tokio::test]
async fn unprocessed_items_are_requested_again() {
    let table = Table::create().await;
    let records: Vec<Record> = (0..3).map(|n| tenant_version(&format!("t{n}"), n)).collect();
    let keys: Vec<Key> = records.iter().map(Record::key).collect();
    let faulty = Faulty::new("BatchWriteItem", Fault::Unprocessed, 2);
    assert!(table.store_through(faulty.clone()).put_each(records.clone()).await.unwrap().is_empty());
    assert_eq!(faulty.sent(), 3);
    let faulty = Faulty::new("BatchGetItem", Fault::Unprocessed, 2);
    let found = table.store_through(faulty.clone()).get(&keys).await.unwrap();
    assert_eq!(faulty.sent(), 3);
    let found: Vec<Record> = found.into_iter().map(|found| found.unwrap().record).collect();
    assert_eq!(found, records);
}

#[tokio::test]
async fn items_that_stay_unprocessed_are_an_error() {
    let table = Table::create().await;
    let store = table.store_through(Faulty::always("BatchWriteItem", Fault::Unprocessed));
    let records = vec![tenant_version("a", 1), tenant_version("b", 2)];
    let mut left = store.put_each(records.clone()).await.unwrap();
    left.sort_by_key(Record::key);
    assert_eq!(left, records);
    let body = BodyKey::new(&"t".into(), &"e".into());
    assert!(store.put_bodies(vec![(body, Bytes::from_static(b"it"))], at(1)).await.is_err());
    let store = table.store_through(Faulty::always("BatchGetItem", Fault::Unprocessed));
    let error = store.get(&[records[0].key(), records[1].key()]).await.unwrap_err();
    assert!(matches!(error, StoreError::Throttled(_)), "{error:?}");
    assert!(chain(&error).contains("BatchGetItem left 2 items unprocessed"));
}

#[tokio::test]
async fn a_competing_transaction_is_waited_for_and_then_an_error() {
    let table = Table::create().await;
    let two = || ["a", "b"].map(|name| Write::put(tenant_version(name, 1), Expect::Absent)).to_vec();
    let always = Faulty::always("TransactWriteItems", COMPETING_TRANSACTION);
    match table.store_through(always.clone()).write(two()).await {
        // Not a conflict, which would say that the records are there.
        Err(WriteError::Store(_)) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(always.sent(), 6);
    let twice = Faulty::new("TransactWriteItems", COMPETING_TRANSACTION, 2);
    table.store_through(twice.clone()).write(two()).await.unwrap();
    assert_eq!(twice.sent(), 3);
    let twice = Faulty::new("PutItem", COMPETING_WRITE, 2);
    put(&table.store_through(twice.clone()), tenant_version("c", 1), Expect::Any).await.unwrap();
    assert_eq!(twice.sent(), 3);
    put(&table.store(), Record::Url(url()), Expect::Absent).await.unwrap();
    let twice = Faulty::new("UpdateItem", COMPETING_WRITE, 2);
    let (_, after) = count(&table.store_through(twice.clone()), outcomes(1, false, 0)).await;
    assert_eq!((twice.sent(), after.health.window_attempts), (3, 1));
}

#[tokio::test]
async fn a_throttled_request_of_any_kind_is_made_in_the_end() {
    // More often than the SDK repeats a request.
    const TIMES: usize = 6;
    let table = Table::create().await;
    let through = |operation| {
        let faulty = Faulty::new(operation, THROTTLED, TIMES);
        (table.store_through(faulty.clone()), faulty)
    };
    let (store, puts) = through("PutItem");
    put(&store, tenant_version("a", 1), Expect::Absent).await.unwrap();
    put(&table.store(), Record::Url(url()), Expect::Absent).await.unwrap();
    let (store, updates) = through("UpdateItem");
    assert_eq!(count(&store, outcomes(1, false, 0)).await.1.health.window_attempts, 1);
    let (store, transactions) = through("TransactWriteItems");
    let two = ["b", "c"].map(|name| Write::put(tenant_version(name, 1), Expect::Absent)).to_vec();
    store.write(two).await.unwrap();
    let (store, batches) = through("BatchWriteItem");
    let unwritten = store.put_each(vec![tenant_version("d", 1), tenant_version("e", 1)]).await.unwrap();
    assert!(unwritten.is_empty());
    let (store, reads) = through("BatchGetItem");
    let found = store.get(&["a", "e"].map(|name| tenant_version(name, 1).key())).await.unwrap();
    assert!(found.iter().all(Option::is_some));
    for faulty in [puts, updates, transactions, batches, reads] {
        assert_eq!(faulty.sent(), TIMES + 1, "{faulty:?}");
    }
}

#[tokio::test]
async fn a_write_that_stays_throttled_is_an_error_that_says_so() {
    let table = Table::create().await;
    let store = table.store_through(Faulty::always("PutItem", THROTTLED));
    match put(&store, tenant_version("a", 1), Expect::Absent).await {
        Err(WriteError::Store(StoreError::Throttled(_))) => {}
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn counting_has_a_timeout() {
    let table = Table::create().await;
    put(&table.store(), Record::Url(url()), Expect::Absent).await.unwrap();
    let store = table.store().with_count_timeout(Duration::ZERO);
    let counted = store.count_outcomes(&url().tenant, &url().id, outcomes(1, false, 0), NOW).await;
    assert!(matches!(counted, Err(StoreError::TimedOut(_))), "{counted:?}");
}

#[tokio::test]
async fn counting_is_one_request_and_conflicts_with_no_other_write() {
    let table = Table::create().await;
    let counter = RequestCounter::new();
    let store = table.store_through(counter.clone());
    put(&table.store(), Record::Url(url()), Expect::Absent).await.unwrap();
    // Fewer failures than trouble begins with, which is another write.
    for success in [false, true] {
        count(&store, outcomes(9, success, 0)).await;
    }
    assert_eq!(counter.take(), [("DynamoDB.UpdateItem".to_owned(), 2)].into());
    let (record, version) = find(&store, &Record::Url(url()).key()).await.unwrap();
    assert_eq!(version, 1);
    let Record::Url(mut frozen) = record else { panic!("not a URL") };
    frozen.apply_action(OperatorAction::Freeze, "why", "me", NOW).unwrap();
    count(&table.store(), outcomes(1, true, 0)).await;
    counter.take();
    put(&store, Record::Url(frozen), Expect::Version(version)).await.unwrap();
    assert_eq!(counter.take(), [("DynamoDB.PutItem".to_owned(), 1)].into());
    // A store without a hint needs a second try, in a transaction too.
    let (Record::Url(mut enabled), version) = find(&table.store(), &Record::Url(url()).key()).await.unwrap()
    else {
        panic!("not a URL")
    };
    let history = enabled.apply_action(OperatorAction::Enable, "why", "me", NOW).unwrap().unwrap();
    let writes = vec![
        Write::put(Record::Url(enabled.clone()), Expect::Version(version)),
        Write::put(Record::History(history), Expect::Absent),
    ];
    let fresh = RequestCounter::new();
    table.store_through(fresh.clone()).write(writes).await.unwrap();
    assert_eq!(fresh.take(), [("DynamoDB.TransactWriteItems".to_owned(), 2)].into());
    assert_eq!(find(&store, &Record::Url(url()).key()).await, Some((Record::Url(enabled), version + 1)));
}

fn delivery(event: i64) -> Record {
    let key = DeliveryKey {
        tenant: "t".into(),
        event_key: EventKey::of(&format!("evt_{event}"), at(event)),
        subscription_id: SubscriptionId::new([1; 16]),
    };
    let new = NewDelivery {
        key,
        event_id: format!("evt_{event}"),
        event_type: "t".into(),
        accepted_at: at(event),
        url_id: url().id,
        url: url().url,
        trace: None,
    };
    Record::Delivery(DeliveryRecord::new(new, &Schedule::default()))
}

/// The `pk` under which the record is stored: its partition may be spread over several.
async fn stored_pk(table: &Table, record: &Record) -> AttributeValue {
    let key = record.key();
    let request = table.client.scan().table_name(&table.name).consistent_read(true);
    let found = request.send().await.unwrap().items.unwrap();
    let text = |value: &AttributeValue| value.as_s().unwrap().clone();
    let is_it = |pk: &str, sk: &str| pk.starts_with(&key.partition) && sk == key.sort;
    let mut found = found.iter().filter(|item| is_it(&text(&item["pk"]), &text(&item["sk"])));
    found.next().unwrap()["pk"].clone()
}

/// Makes an index entry stale: it differs from its record.
async fn make_stale(table: &Table, record: &Record, attribute: &str, value: AttributeValue) {
    let request = table.client.update_item().table_name(&table.name);
    let request = request.key("pk", stored_pk(table, record).await);
    let request = request.key("sk", AttributeValue::S(record.key().sort));
    let request = request.update_expression("SET #a = :a").expression_attribute_names("#a", attribute);
    request.expression_attribute_values(":a", value).send().await.unwrap();
}

#[tokio::test]
async fn stale_index_entries_are_neither_listed_nor_end_a_page() {
    let table = Table::create().await;
    let store = table.store();
    let records: Vec<Record> = (0..40).map(delivery).collect();
    store.put_each(records.clone()).await.unwrap();
    for (n, record) in records.iter().enumerate().filter(|(n, _)| n % 4 != 3) {
        let listed = AttributeValue::S(format!("{}#elsewhere", at(n as i64).sort_key()));
        make_stale(&table, record, "listed", listed).await;
    }
    let query = IndexQuery::of(ListIndex::ByTenant, DeliveryRecord::tenant_list(&"t".into()), 4);
    let page = store.query_index(query.clone()).await.unwrap();
    let keys =
        |items: Vec<Versioned>| -> Vec<Key> { items.into_iter().map(|item| item.record.key()).collect() };
    assert_eq!(keys(page.items), [3, 7, 11, 15].map(|n| delivery(n).key()));
    let rest = store.query_index(IndexQuery { after: page.next, limit: 6, ..query }).await.unwrap();
    assert_eq!(keys(rest.items), [19, 23, 27, 31, 35, 39].map(|n| delivery(n).key()));
    assert_eq!(rest.next, None);
}

#[tokio::test]
async fn stale_entries_do_not_hide_overdue_records() {
    let table = Table::create().await;
    let store = table.store();
    let shard = delivery(0).key().sweep_shard();
    let records: Vec<Record> = (0..2_000).map(delivery).filter(|r| r.key().sweep_shard() == shard).collect();
    store.put_each(records.clone()).await.unwrap();
    let (stale, last) = records.split_at(records.len() - 2);
    let until = last[1].index_entries().look_at.unwrap();
    for record in stale {
        let mut moved = record.clone();
        let Record::Delivery(delivery) = &mut moved else { panic!("not a delivery") };
        delivery.progress.look_at = Some(until + Duration::from_secs(1));
        store.put_each(vec![moved.clone()]).await.unwrap();
        make_stale(&table, &moved, "look_at", AttributeValue::N("5".to_owned())).await;
    }
    let found = store.overdue(shard, until, 2).await.unwrap();
    let found: Vec<Key> = found.into_iter().map(|found| found.record.key()).collect();
    assert_eq!(found, [last[0].key(), last[1].key()]);
}

/// The `ttl` of every part of the body `key`.
async fn ttls(table: &Table, key: &BodyKey) -> Vec<String> {
    let pk = AttributeValue::S(format!("body#{}#{}", key.tenant, key.event_key));
    let request = table.client.query().table_name(&table.name).key_condition_expression("pk = :pk");
    let found = request.expression_attribute_values(":pk", pk).send().await.unwrap();
    found.items().iter().map(|item| item["ttl"].as_n().unwrap().clone()).collect()
}

#[tokio::test]
async fn all_parts_of_a_body_are_kept_and_never_shorter() {
    let table = Table::create().await;
    let store = table.store();
    let key = BodyKey::new(&"t".into(), &"e".into());
    let mut noise = vec![0; 1_000_000];
    SeededEntropy::new(1).fill(&mut noise);
    store.put_bodies(vec![(key.clone(), noise.into())], at(10)).await.unwrap();
    for (keep_until, kept_until) in [(at(5), at(10)), (at(50), at(50)), (at(20), at(50))] {
        assert!(store.keep_body(&key, keep_until).await.unwrap());
        assert_eq!(ttls(&table, &key).await, vec![kept_until.as_secs().to_string(); 3]);
    }
}

#[tokio::test]
async fn an_error_names_the_operation_and_the_code() {
    let table = Table::create().await;
    let store = DynamoStore::new(table.client.clone(), "no-such-table", Arc::new(SeededEntropy::new(1)));
    let error = chain(&store.get(&[tenant_version("a", 1).key()]).await.unwrap_err());
    assert!(error.starts_with("the store failed: GetItem failed: ResourceNotFoundException"), "{error}");
}

/// As if a newer release had written the URL.
async fn make_newer(table: &Table) {
    let key = Record::Url(url()).key();
    let request = table.client.update_item().table_name(&table.name);
    let request = request.key("pk", AttributeValue::S(key.partition)).key("sk", AttributeValue::S(key.sort));
    let request =
        request.update_expression("SET #record.#v = :v").expression_attribute_names("#record", "record");
    let request = request.expression_attribute_names("#v", "v");
    request.expression_attribute_values(":v", AttributeValue::N("99".to_owned())).send().await.unwrap();
}

#[tokio::test]
async fn outcomes_are_not_counted_on_a_record_of_a_newer_release() {
    let table = Table::create().await;
    let warm = table.store();
    put(&warm, Record::Url(url()), Expect::Absent).await.unwrap();
    make_newer(&table).await;
    let key = Record::Url(url()).key();
    // Without a hint, with one, and across a threshold.
    for (store, count) in [(&table.store(), 1), (&warm, 1), (&warm, 200)] {
        let counted = store.count_outcomes(&url().tenant, &url().id, outcomes(count, false, 0), NOW).await;
        let Err(StoreError::Unreadable { key: found, source }) = counted else { panic!("{counted:?}") };
        assert_eq!((found, source), (key.clone(), Unreadable::Newer(99)));
    }
    assert_eq!(find(&table.store(), &key).await, Some((Record::Newer { key: key.clone(), version: 99 }, 1)));
    let request = table.client.get_item().table_name(&table.name).consistent_read(true);
    let request = request.key("pk", AttributeValue::S(key.partition)).key("sk", AttributeValue::S(key.sort));
    let item = request.send().await.unwrap().item.unwrap();
    assert_eq!(item["window_attempts"].as_n().unwrap(), "0");
}
