//! A data folder of the first schema is opened by this release.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::path::Path;
use std::sync::Arc;

use holdfast_core::ids::{DeliveryKey, EventKey, JobId, SubscriptionId, UrlId};
use holdfast_core::ports::{Backlog, Delay, Inbox, IndexQuery, Outgoing, Queue, QueueName, Store};
use holdfast_core::records::{DeliveryRecord, ListIndex, Message, NewDelivery, Record, UrlRecord};
use holdfast_core::rules::schedule::Schedule;
use holdfast_core::time::Timestamp;
use holdfast_sim::{VirtualClock, block_on};
use rusqlite::{Connection, params};

use crate::list::list_id;
use crate::{Embedded, Options, checksum, schema};

const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

fn ticket() -> Message {
    Message::Job { tenant: "a".into(), id: JobId::new([1; 16]), step: None, links: 0 }
}

/// A URL of this tenant that the sweep should look at.
fn url(tenant: &str) -> Record {
    let url = "https://example.com/";
    let mut record = UrlRecord::new(tenant.into(), UrlId::of(url), url.to_owned(), NOW);
    record.look_at = Some(NOW);
    Record::Url(record)
}

/// A parked delivery of this tenant, whose body is stored.
fn parked(tenant: &str) -> DeliveryRecord {
    let url = "https://example.com/";
    let key = DeliveryKey {
        tenant: tenant.into(),
        event_key: EventKey("1".to_owned()),
        subscription_id: SubscriptionId::new([1; 16]),
    };
    let new = NewDelivery {
        key,
        event_id: "e".to_owned(),
        event_type: "a.b".to_owned(),
        accepted_at: NOW,
        url_id: UrlId::of(url),
        url: url.to_owned(),
        trace: None,
    };
    let mut record = DeliveryRecord::new(new, &Schedule::default());
    record.progress.park();
    record
}

/// As the first schema had it: with the names of its lists.
fn insert_old_delivery(connection: &Connection, record: DeliveryRecord) {
    let record = Record::Delivery(record);
    let (key, data, entries) = (record.key(), record.encode(), record.index_entries());
    let (listed, state) = (entries.listed.unwrap(), entries.by_state.unwrap());
    let put = "INSERT INTO records (partition, sort, version, by_tenant, by_url, by_subscription, list_sort, by_state, state_sort,
                                    waiting_bytes, format, data, checksum)
               VALUES (?1, ?2, 1, ?3, ?4, ?5, ?6, ?7, ?8, 10, 1, ?9, ?10)";
    let checksum = checksum::of(&[key.partition.as_bytes(), key.sort.as_bytes()], &data);
    let lists = (listed.by_tenant, listed.by_url, listed.by_subscription);
    let values = params![
        key.partition,
        key.sort,
        lists.0,
        lists.1,
        lists.2,
        listed.sort,
        state.partition,
        state.sort,
        data,
        checksum
    ];
    connection.execute(put, values).unwrap();
}

/// A folder as the first schema left it, with a ticket that was sent twice.
fn write_old_folder(dir: &Path) {
    let mut connection = Connection::open(dir.join("holdfast.db")).unwrap();
    schema::migrate(&mut connection, &schema::MIGRATIONS[..1]).unwrap();
    let payload = ticket().encode();
    for id in 1..=2 {
        let put = "INSERT INTO messages VALUES (?1, 1, 1, 0, 0, 0, 0, ?2, ?3)";
        connection.execute(put, params![id, payload, checksum::of(&[], &payload)]).unwrap();
    }
    for (tenant, event_key, bytes) in [("a", "1", 10), ("a", "2", 20), ("b", "1", 5)] {
        let put = "INSERT INTO bodies VALUES (?1, ?2, 1, zeroblob(?3), 0)";
        connection.execute(put, params![tenant, event_key, bytes]).unwrap();
    }
    for record in ["a", "b"].map(url) {
        let (key, data) = (record.key(), record.encode());
        let put =
            "INSERT INTO records (partition, sort, version, look_shard, look_at, format, data, checksum)
                   VALUES (?1, ?2, 1, ?3, ?4, 1, ?5, ?6)";
        let checksum = checksum::of(&[key.partition.as_bytes(), key.sort.as_bytes()], &data);
        let values = params![key.partition, key.sort, key.sweep_shard(), NOW.as_millis(), data, checksum];
        connection.execute(put, values).unwrap();
    }
    insert_old_delivery(&connection, parked("a"));
}

#[test]
fn the_lists_of_a_folder_of_the_first_schema_are_the_same() {
    block_on(async {
        let dir = tempfile::tempdir().unwrap();
        write_old_folder(dir.path());
        let open =
            || Embedded::open(dir.path(), Arc::new(VirtualClock::new(NOW)), Options::default()).unwrap();
        let entries = Record::Delivery(parked("a")).index_entries();
        // The second opening changes nothing any more.
        for _ in 0..2 {
            let embedded = open();
            for index in
                [ListIndex::ByTenant, ListIndex::ByUrl, ListIndex::BySubscription, ListIndex::ByState]
            {
                let (list, sort) = entries.clone().in_list(index).unwrap();
                let all = IndexQuery::of(index, list, 10);
                let just_it = IndexQuery { from: Some(NOW.sort_key()), after: None, ..all.clone() };
                // Where a page ended, in the words of the release before.
                let after_it = IndexQuery { after: Some(format!("{sort} {}", i64::MAX)), ..all.clone() };
                for (query, expected) in [(all, 1), (just_it, 1), (after_it, 0)] {
                    let found = embedded.store.query_index(query).await.unwrap().items;
                    assert_eq!(found.len(), expected, "{index:?}");
                    assert!(found.iter().all(|found| found.record == Record::Delivery(parked("a"))));
                }
            }
            let waiting = embedded.backlog.of(&"a".into()).await.unwrap().unwrap();
            assert_eq!((waiting.bytes, waiting.largest), (10, Some((parked("a").url_id, 10))));
        }
    });
}

/// Lists have numbers that are hashes of their names.
#[test]
fn a_record_of_a_list_with_the_same_number_is_not_listed() {
    block_on(async {
        let dir = tempfile::tempdir().unwrap();
        let embedded =
            Embedded::open(dir.path(), Arc::new(VirtualClock::new(NOW)), Options::default()).unwrap();
        let records = ["a", "b"].map(|tenant| Record::Delivery(parked(tenant)));
        embedded.store.put_each(records.to_vec()).await.unwrap();
        let [of_a, of_b] = ["a", "b"].map(|tenant| DeliveryRecord::tenant_list(&tenant.into()));
        let file = Connection::open(dir.path().join("holdfast.db")).unwrap();
        let (number, of_both) =
            (list_id(&of_b), "UPDATE records SET by_tenant = ?1 WHERE by_tenant NOT NULL");
        assert_eq!(file.execute(of_both, [number]).unwrap(), 2);
        for (list, expected) in [(of_a, vec![]), (of_b, vec![records[1].clone()])] {
            let query = IndexQuery::of(ListIndex::ByTenant, list, 10);
            let found = embedded.store.query_index(query).await.unwrap().items;
            assert_eq!(found.into_iter().map(|found| found.record).collect::<Vec<_>>(), expected);
        }
    });
}

#[test]
fn a_folder_of_the_first_schema_is_brought_up_to_date() {
    block_on(async {
        let dir = tempfile::tempdir().unwrap();
        write_old_folder(dir.path());
        let clock = Arc::new(VirtualClock::new(NOW));
        let embedded = Embedded::open(dir.path(), clock, Options::default()).unwrap();
        for record in ["a", "b"].map(url) {
            let overdue = embedded.store.overdue(record.key().sweep_shard(), NOW, 10).await.unwrap();
            assert!(overdue.iter().any(|found| found.record == record), "{}", record.key());
        }
        for (tenant, bytes) in [("a", 30), ("b", 5), ("c", 0)] {
            let stored = embedded.backlog.stored_bytes(&tenant.into()).await.unwrap();
            assert_eq!(stored, Some(bytes), "{tenant}");
        }
        embedded.purge(NOW, 100).await.unwrap();
        assert_eq!(embedded.backlog.stored_bytes(&"a".into()).await.unwrap(), Some(0));
        // Tickets of before are all received. Of those that are sent now, one is.
        for _ in 0..2 {
            let sent = vec![Outgoing { message: ticket(), delay: Delay::NONE }];
            embedded.queue.send(QueueName::Retry, sent).await.unwrap();
        }
        assert_eq!(embedded.queue.messages(QueueName::Retry), 3);
        assert!(!embedded.queue.receive(QueueName::Retry, 10).await.unwrap().is_empty());
    });
}
