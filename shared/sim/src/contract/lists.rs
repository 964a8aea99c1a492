use std::collections::BTreeMap;
use std::time::Duration;

use holdfast_core::ports::{Expect, IndexQuery, Order, Page, Query, Write};
use holdfast_core::records::{DeliveryRecord, Key, ListIndex, ParkedPointer, Record};
use holdfast_core::rules::schedule::Schedule;

use super::Harness;
use super::samples::{at, attempt, delivery, delivery_key, logged, parked, subscription, tenant, url_id};

async fn put(h: &dyn Harness, records: Vec<Record>) {
    assert!(h.store().put_each(records).await.unwrap().is_empty());
}

fn parked_at(to: u8, order: Order, limit: usize) -> Query {
    let partition = ParkedPointer::partition(&tenant(), &url_id(to));
    Query { partition, prefix: String::new(), after: None, order, limit }
}

fn of_tenant(order: Order, limit: usize) -> IndexQuery {
    let partition = DeliveryRecord::tenant_list(&tenant());
    IndexQuery { index: ListIndex::ByTenant, partition, from: None, to: None, after: None, order, limit }
}

fn keys(page: &Page) -> Vec<Key> {
    page.items.iter().map(|item| item.record.key()).collect()
}

/// How often each key of `expected` was seen.
fn each_once(seen: &[Key], expected: &[Key]) -> bool {
    let mut counts: BTreeMap<&Key, usize> = BTreeMap::new();
    for key in seen {
        *counts.entry(key).or_default() += 1;
    }
    expected.iter().all(|key| counts.get(key) == Some(&1))
}

pub async fn parked_pointers_are_ordered_by_due_time(h: &dyn Harness) {
    let pointers: Vec<Record> = [30, 10, 20, 50, 40].map(|due| Record::Parked(parked(due, 1, due))).to_vec();
    put(h, pointers).await;
    put(h, vec![Record::Parked(parked(1, 2, 0))]).await;
    for (order, dues) in [(Order::Ascending, [10, 20, 30, 40, 50]), (Order::Descending, [50, 40, 30, 20, 10])]
    {
        let mut query = parked_at(1, order, 2);
        let mut seen = Vec::new();
        loop {
            let page = h.store().query(query.clone()).await.unwrap();
            assert!(page.items.len() <= 2);
            seen.extend(keys(&page));
            match page.next {
                Some(next) => query.after = Some(next),
                None => break,
            }
        }
        assert_eq!(seen, dues.map(|due| parked(due, 1, due).key()));
    }
}

pub async fn a_query_keeps_to_its_prefix(h: &dyn Harness) {
    put(
        h,
        vec![
            Record::Delivery(delivery(1, 1)),
            Record::Logged(logged(1, 1)),
            Record::Delivery(delivery(1, 2)),
        ],
    )
    .await;
    let mut query = Query {
        partition: DeliveryRecord::partition(&tenant(), &delivery_key(1, 1).event_key),
        prefix: format!("{}#", subscription(1)),
        after: None,
        order: Order::Ascending,
        limit: 10,
    };
    let [record, log] = [Record::Delivery(delivery(1, 1)).key(), Record::Logged(logged(1, 1)).key()];
    for (order, expected) in [
        (Order::Ascending, [record.clone(), log.clone()]),
        (Order::Descending, [log.clone(), record.clone()]),
    ] {
        query.order = order;
        assert_eq!(keys(&h.store().query(query.clone()).await.unwrap()), expected);
    }
    // What is `after` may lie before the prefix, or beyond it.
    query.order = Order::Ascending;
    query.after = Some(String::new());
    assert_eq!(keys(&h.store().query(query.clone()).await.unwrap()), [record.clone(), log.clone()]);
    query.after = Some(record.sort);
    assert_eq!(keys(&h.store().query(query.clone()).await.unwrap()), std::slice::from_ref(&log));
    query.after = Some(log.sort);
    assert!(h.store().query(query).await.unwrap().items.is_empty());
}

pub async fn a_partition_of_many_comes_in_order(h: &dyn Harness) {
    // All of one event, one delivery for each of 200 subscriptions, with its attempt.
    let of_one = |to| [Record::Delivery(delivery(1, to)), Record::Attempt(attempt(1, to))];
    put(h, (0..200).flat_map(of_one).collect()).await;
    put(h, (0..200).map(|to| Record::Delivery(delivery(2, to))).collect()).await;
    let mut expected: Vec<Key> = (0..200).flat_map(of_one).map(|record| record.key()).collect();
    expected.sort();
    let partition = DeliveryRecord::partition(&tenant(), &delivery_key(1, 0).event_key);
    for (order, limit) in [(Order::Ascending, 1_000), (Order::Ascending, 33), (Order::Descending, 150)] {
        let mut query =
            Query { partition: partition.clone(), prefix: String::new(), after: None, order, limit };
        let mut seen = Vec::new();
        loop {
            let page = h.store().query(query.clone()).await.unwrap();
            assert!(
                page.items.len() == limit || page.next.is_none(),
                "a page that is not the last one is full"
            );
            seen.extend(keys(&page));
            match page.next {
                Some(next) => query.after = Some(next),
                None => break,
            }
        }
        if order == Order::Descending {
            seen.reverse();
        }
        assert_eq!(seen, expected, "{order:?} by {limit}");
    }
}

pub async fn a_page_says_whether_it_is_the_last(h: &dyn Harness) {
    put(h, (0..4).map(|n| Record::Parked(parked(n, 1, n))).collect()).await;
    put(h, (0..4).map(|n| Record::Logged(logged(n, 1))).collect()).await;
    assert_eq!(h.store().query(parked_at(1, Order::Ascending, 4)).await.unwrap().next, None);
    assert!(h.store().query(parked_at(1, Order::Ascending, 3)).await.unwrap().next.is_some());
    assert_eq!(h.store().query(parked_at(9, Order::Ascending, 3)).await.unwrap().next, None);
    assert_eq!(h.store().query_index(of_tenant(Order::Descending, 4)).await.unwrap().next, None);
    assert!(h.store().query_index(of_tenant(Order::Descending, 3)).await.unwrap().next.is_some());
}

pub async fn a_query_misses_nothing_while_items_are_added(h: &dyn Harness) {
    for order in [Order::Ascending, Order::Descending] {
        let to = if order == Order::Ascending { 1 } else { 2 };
        let present: Vec<Record> = (0..50).map(|n| Record::Parked(parked(n, to, n * 10))).collect();
        put(h, present.clone()).await;
        let mut query = parked_at(to, order, 7);
        let mut seen = Vec::new();
        for round in 0.. {
            let page = h.store().query(query.clone()).await.unwrap();
            seen.extend(keys(&page));
            put(h, (0..5).map(|n| Record::Parked(parked(1000 + round, to, n * 100 + 5))).collect()).await;
            match page.next {
                Some(next) => query.after = Some(next),
                None => break,
            }
        }
        assert!(each_once(&seen, &present.iter().map(Record::key).collect::<Vec<_>>()));
    }
}

pub async fn deliveries_are_listed_by_tenant_url_and_subscription(h: &dyn Harness) {
    put(
        h,
        vec![
            Record::Delivery(delivery(1, 1)),
            Record::Logged(logged(2, 2)),
            Record::Delivery(delivery(3, 1)),
        ],
    )
    .await;
    let (one, two, three) = (
        DeliveryRecord::key(&delivery_key(1, 1)),
        Record::Logged(logged(2, 2)).key(),
        DeliveryRecord::key(&delivery_key(3, 1)),
    );
    let lists = [
        (
            ListIndex::ByTenant,
            DeliveryRecord::tenant_list(&tenant()),
            vec![one.clone(), two.clone(), three.clone()],
        ),
        (ListIndex::ByUrl, DeliveryRecord::url_list(&tenant(), &url_id(1)), vec![one, three]),
        (
            ListIndex::BySubscription,
            DeliveryRecord::subscription_list(&tenant(), &subscription(2)),
            vec![two],
        ),
        (ListIndex::ByTenant, DeliveryRecord::tenant_list(&"other".into()), vec![]),
    ];
    for (index, partition, expected) in lists {
        let query = IndexQuery { index, partition, ..of_tenant(Order::Ascending, 10) };
        assert_eq!(keys(&h.store().query_index(query).await.unwrap()), expected);
    }
    // A record that is deleted leaves the lists.
    h.store()
        .write(vec![Write::Delete { key: DeliveryRecord::key(&delivery_key(1, 1)), expect: Expect::Any }])
        .await
        .unwrap();
    assert_eq!(h.store().query_index(of_tenant(Order::Ascending, 10)).await.unwrap().items.len(), 2);
}

pub async fn live_deliveries_of_a_subscription_stand_apart(h: &dyn Harness) {
    let finished = |n| {
        let mut record = delivery(n, 1);
        record.progress.succeed(at(n), Duration::from_secs(60));
        record
    };
    let mut parked = delivery(3, 1);
    parked.progress.park();
    put(h, (4..40).map(|n| Record::Delivery(finished(n))).collect()).await;
    put(h, vec![Record::Logged(logged(1, 1)), Record::Delivery(delivery(2, 1))]).await;
    put(h, vec![Record::Delivery(parked), Record::Delivery(delivery(1, 2))]).await;
    let listed = async |partition: String| {
        let query = IndexQuery::of(ListIndex::BySubscription, partition, 100);
        keys(&h.store().query_index(query).await.unwrap())
    };
    let live = DeliveryRecord::live_subscription_list(&tenant(), &subscription(1));
    let over = DeliveryRecord::subscription_list(&tenant(), &subscription(1));
    let key = |n| DeliveryRecord::key(&delivery_key(n, 1));
    assert_eq!(listed(live.clone()).await, [key(2), key(3)]);
    assert_eq!(listed(over.clone()).await.len(), 37);
    // A delivery that ends changes its list, and one that is replayed changes back.
    put(h, vec![Record::Delivery(finished(2))]).await;
    assert_eq!(listed(live.clone()).await, [key(3)]);
    let mut replayed = finished(9);
    replayed.progress.replay(&Schedule::default(), at(50));
    put(h, vec![Record::Delivery(replayed)]).await;
    assert_eq!(listed(live).await, [key(3), key(9)]);
    assert_eq!(listed(over).await.len(), 37);
}

pub async fn a_list_has_bounds(h: &dyn Harness) {
    put(h, (0..10).map(|n| Record::Delivery(delivery(n, 1))).collect()).await;
    let from_to = IndexQuery {
        from: Some(at(3).sort_key()),
        to: Some(at(7).sort_key()),
        ..of_tenant(Order::Descending, 10)
    };
    let page = h.store().query_index(from_to.clone()).await.unwrap();
    assert_eq!(keys(&page), [6, 5, 4, 3].map(|n| DeliveryRecord::key(&delivery_key(n, 1))));
    let first = h.store().query_index(IndexQuery { limit: 3, ..from_to.clone() }).await.unwrap();
    let rest = h.store().query_index(IndexQuery { after: first.next, ..from_to }).await.unwrap();
    assert_eq!(keys(&rest), [DeliveryRecord::key(&delivery_key(3, 1))]);
}

/// Who reads a list takes what comes one after the other for one delivery.
pub async fn records_of_one_delivery_are_neighbours_in_a_list(h: &dyn Harness) {
    let deliveries =
        (0..20).map(|n| Record::Delivery(DeliveryRecord { accepted_at: at(5), ..delivery(n, 1) }));
    let logs = (0..20).map(|n| {
        let mut logged = logged(n, 1);
        logged.delivery.accepted_at = at(5);
        Record::Logged(logged)
    });
    put(h, deliveries.collect()).await;
    put(h, logs.collect()).await;
    for order in [Order::Ascending, Order::Descending] {
        let page = h.store().query_index(of_tenant(order, 100)).await.unwrap();
        let partitions: Vec<String> = keys(&page).into_iter().map(|key| key.partition).collect();
        assert_eq!(partitions.len(), 40);
        assert!(partitions.chunks(2).all(|pair| pair[0] == pair[1]), "{partitions:?}");
    }
}

pub async fn records_at_the_same_place_of_a_list_are_all_listed(h: &dyn Harness) {
    let both = |n| [Record::Delivery(delivery(n, 1)), Record::Logged(logged(n, 1))];
    let present: Vec<Record> = (0..15).flat_map(both).collect();
    put(h, present.clone()).await;
    let expected: Vec<Key> = present.iter().map(Record::key).collect();
    for order in [Order::Ascending, Order::Descending] {
        for limit in [1, 7] {
            let mut query = of_tenant(order, limit);
            let mut seen = Vec::new();
            loop {
                let page = h.store().query_index(query.clone()).await.unwrap();
                seen.extend(keys(&page));
                match page.next {
                    Some(next) => query.after = Some(next),
                    None => break,
                }
            }
            assert_eq!(seen.len(), expected.len());
            assert!(each_once(&seen, &expected));
        }
    }
}

pub async fn a_list_misses_nothing_while_items_are_added(h: &dyn Harness) {
    let present: Vec<Record> = (0..50).map(|n| Record::Delivery(delivery(n * 10, 1))).collect();
    put(h, present.clone()).await;
    for (order, offset) in [(Order::Ascending, 1), (Order::Descending, 5)] {
        let mut query = of_tenant(order, 7);
        let mut seen = Vec::new();
        for round in 0_i64.. {
            let page = h.store().query_index(query.clone()).await.unwrap();
            seen.extend(keys(&page));
            // New ones at several places, and the old ones written again.
            put(h, (0..5).map(|n| Record::Logged(logged(n * 100 + offset + round % 4, 1))).collect()).await;
            put(h, present[..10].to_vec()).await;
            match page.next {
                Some(next) => query.after = Some(next),
                None => break,
            }
        }
        assert!(each_once(&seen, &present.iter().map(Record::key).collect::<Vec<_>>()));
    }
}

pub async fn an_unknown_cursor_is_refused(h: &dyn Harness) {
    let query = IndexQuery { after: Some("?".to_owned()), ..of_tenant(Order::Ascending, 7) };
    assert!(h.store().query_index(query).await.is_err());
}

pub async fn a_page_of_large_records_is_whole(h: &dyn Harness) {
    let large = |n: i64| {
        let mut attempt = attempt(1, 1);
        attempt.at = at(n);
        attempt.excerpt = Some("x".repeat(150_000));
        Record::Attempt(attempt)
    };
    let records: Vec<Record> = (0..15).map(large).collect();
    put(h, records.clone()).await;
    let partition = DeliveryRecord::partition(&tenant(), &delivery_key(1, 1).event_key);
    let query = Query { partition, prefix: String::new(), after: None, order: Order::Ascending, limit: 14 };
    let page = h.store().query(query.clone()).await.unwrap();
    assert_eq!(keys(&page), records[..14].iter().map(Record::key).collect::<Vec<_>>());
    let rest = h.store().query(Query { after: page.next, ..query }).await.unwrap();
    assert_eq!((keys(&rest), rest.next), (vec![records[14].key()], None));
}

pub async fn a_long_list_comes_in_one_page(h: &dyn Harness) {
    put(h, (0..350).map(|n| Record::Delivery(delivery(n * 79 % 350, 1))).collect()).await;
    let expected: Vec<Key> = (0..350).map(|n| DeliveryRecord::key(&delivery_key(n, 1))).collect();
    let page = h.store().query_index(of_tenant(Order::Ascending, 500)).await.unwrap();
    assert_eq!((keys(&page), page.next), (expected.clone(), None));
    let page = h.store().query_index(of_tenant(Order::Ascending, 320)).await.unwrap();
    assert_eq!(keys(&page), expected[..320]);
    assert!(page.next.is_some());
}
