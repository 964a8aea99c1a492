//! A data folder of the first schema is opened by this release.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::path::Path;
use std::sync::Arc;

use holdfast_core::ids::{JobId, UrlId};
use holdfast_core::ports::{Backlog, Delay, Inbox, Outgoing, Queue, QueueName, Store};
use holdfast_core::records::{Message, Record, UrlRecord};
use holdfast_core::time::Timestamp;
use holdfast_sim::{VirtualClock, block_on};
use rusqlite::{Connection, params};

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
