//! What survives a restart, and which files are refused.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use holdfast_core::ids::{EventKey, JobId, Tenant};
use holdfast_core::ports::{
    BodyKey, Delay, Expect, Inbox, Outgoing, Queue, QueueError, QueueName, SendError, Settlement, Store,
    StoreError, Write,
};
use holdfast_core::records::{Message, Record, TenantVersion};
use holdfast_core::time::Timestamp;
use holdfast_embedded::{Database, Embedded, OpenError, Options, list_unreadable};
use holdfast_sim::{VirtualClock, block_on};

const START: Timestamp = Timestamp::from_millis(1_700_000_000_000);
const QUEUE: QueueName = QueueName::First;

fn open(dir: &Path) -> Result<Embedded, OpenError> {
    Embedded::open(dir, Arc::new(VirtualClock::new(START)), Options::default())
}

fn refusal(dir: &Path) -> OpenError {
    Database::open(dir).err().expect("it was opened")
}

fn job(n: u8) -> Message {
    Message::Job { tenant: "default".into(), id: JobId::new([n; 16]), step: None, links: 0 }
}

fn record(tenant: &str) -> Record {
    Record::TenantVersion(TenantVersion { version: 1, ..TenantVersion::new(&tenant.into()) })
}

async fn send(embedded: &Embedded, n: u8, delay: Delay) {
    embedded.queue.send(QUEUE, vec![Outgoing { message: job(n), delay }]).await.unwrap();
}

/// A copy of the files as they are now, while they are open: what a machine finds after a power failure.
fn as_after_a_crash(dir: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for name in ["holdfast.db", "holdfast.db-wal", "holdfast.state"] {
        fs::copy(dir.join(name), copy.path().join(name)).unwrap();
    }
    copy
}

#[test]
fn completed_writes_survive_a_crash() {
    block_on(async {
        let dir = tempfile::tempdir().unwrap();
        let embedded = open(dir.path()).unwrap();
        embedded.store.write(vec![Write::put(record("a"), Expect::Absent)]).await.unwrap();
        embedded.store.put_each(vec![record("b")]).await.unwrap();
        send(&embedded, 1, Delay::NONE).await;
        send(&embedded, 2, Delay::MAX).await;

        let copy = as_after_a_crash(dir.path());
        let again = open(copy.path()).unwrap();
        let keys = ["a", "b"].map(|t| TenantVersion::key(&Tenant::from(t)));
        assert!(again.store.get(&keys).await.unwrap().iter().all(Option::is_some));
        let received = again.queue.receive(QUEUE, 10).await.unwrap();
        assert_eq!(received.len(), 1, "the delayed one is still delayed");
        assert_eq!(received[0].message, Ok(job(1)));
        assert_eq!(received[0].receive_count, 2, "it may have been received before the crash");
    });
}

#[test]
fn a_receive_count_is_never_too_low_after_a_crash() {
    block_on(async {
        let mut dir = tempfile::tempdir().unwrap();
        send(&open(dir.path()).unwrap(), 1, Delay::NONE).await;
        let mut received_so_far = 0;
        for _ in 0..3 {
            let clock = Arc::new(VirtualClock::new(START));
            let options = Options::default();
            let visibility = options.visibility;
            let embedded = Embedded::open(dir.path(), Arc::clone(&clock) as _, options).unwrap();
            for _ in 0..3 {
                let received = embedded.queue.receive(QUEUE, 10).await.unwrap();
                received_so_far += 1;
                assert!(received[0].receive_count >= received_so_far);
                clock.advance(visibility);
            }
            let copy = as_after_a_crash(dir.path());
            drop(embedded);
            dir = copy;
        }
    });
}

#[test]
fn a_closed_database_can_be_opened_again() {
    block_on(async {
        let dir = tempfile::tempdir().unwrap();
        let embedded = open(dir.path()).unwrap();
        send(&embedded, 1, Delay::NONE).await;
        send(&embedded, 2, Delay::NONE).await;
        let receipt = embedded.queue.receive(QUEUE, 1).await.unwrap().remove(0).receipt;
        embedded.queue.settle(QUEUE, vec![(receipt, Settlement::Delete)]).await;
        embedded.close();
        assert!(matches!(embedded.store.put_each(vec![record("a")]).await, Err(StoreError::Closed)));
        let sent = embedded.queue.send(QUEUE, vec![Outgoing { message: job(3), delay: Delay::NONE }]).await;
        assert!(matches!(sent, Err(SendError { source: QueueError::Closed, .. })));
        drop(embedded);
        let again = open(dir.path()).unwrap();
        let received = again.queue.receive(QUEUE, 10).await.unwrap();
        assert_eq!(received.into_iter().map(|r| r.message).collect::<Vec<_>>(), [Ok(job(2))]);
    });
}

#[test]
fn a_restart_adds_no_receive_to_a_queued_message() {
    block_on(async {
        let dir = tempfile::tempdir().unwrap();
        let embedded = open(dir.path()).unwrap();
        for n in 1..=2 {
            send(&embedded, n, Delay::NONE).await;
        }
        // The first message is in flight whenever the server is stopped, the second one never is.
        let count_first = async |embedded: &Embedded| {
            let received = embedded.queue.receive(QUEUE, 1).await.unwrap().remove(0);
            assert_eq!(received.message, Ok(job(1)));
            received.receive_count
        };
        assert_eq!(count_first(&embedded).await, 1);
        embedded.close();
        drop(embedded);
        for expected in 2..=4 {
            let embedded = open(dir.path()).unwrap();
            assert_eq!(count_first(&embedded).await, expected);
            embedded.close();
            assert!(embedded.queue.receive(QUEUE, 10).await.unwrap().is_empty(), "counts are final");
        }
        let embedded = open(dir.path()).unwrap();
        let received = embedded.queue.receive(QUEUE, 10).await.unwrap();
        let counts: Vec<_> = received.into_iter().map(|one| (one.message, one.receive_count)).collect();
        assert_eq!(counts, [(Ok(job(1)), 5), (Ok(job(2)), 1)]);
        let crashed = open(as_after_a_crash(dir.path()).path()).unwrap();
        let received = crashed.queue.receive(QUEUE, 10).await.unwrap();
        let counts: Vec<_> = received.into_iter().map(|one| one.receive_count).collect();
        assert_eq!(counts, [6, 2], "after a crash, each may have been received once more");
    });
}

#[test]
fn unreadable_messages_are_kept_as_they_are() {
    block_on(async {
        let dir = tempfile::tempdir().unwrap();
        let embedded = open(dir.path()).unwrap();
        embedded.queue.send_raw(QUEUE, b"no message".to_vec()).await.unwrap();
        let received = embedded.queue.receive(QUEUE, 10).await.unwrap().remove(0);
        assert_eq!(received.message.as_ref().unwrap_err().payload, "no message");
        drop(embedded);
        let listed = list_unreadable(dir.path(), 10).unwrap();
        let listed: Vec<_> = listed.into_iter().map(|row| (row.queue, row.bytes, row.why)).collect();
        assert_eq!(listed, [(QUEUE, 10, received.message.as_ref().unwrap_err().why.clone())]);
        assert!(list_unreadable(&dir.path().join("other"), 10).is_err());
        let again = open(dir.path()).unwrap();
        assert_eq!(again.queue.receive(QUEUE, 10).await.unwrap()[0].message, received.message);
    });
}

#[test]
fn small_values_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let database = Database::open(&dir.path().join("new").join("folder")).unwrap();
    assert_eq!(database.meta("anchor").unwrap(), None);
    database.set_meta("anchor", "1").unwrap();
    database.set_meta("anchor", "2").unwrap();
    drop(database);
    let database = Database::open(&dir.path().join("new").join("folder")).unwrap();
    assert_eq!(database.meta("anchor").unwrap().as_deref(), Some("2"));
}

#[test]
fn a_newer_schema_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    drop(Database::open(dir.path()).unwrap());
    let connection = rusqlite::Connection::open(dir.path().join("holdfast.db")).unwrap();
    connection.pragma_update(None, "user_version", 77).unwrap();
    drop(connection);
    let refused = refusal(dir.path());
    assert!(matches!(refused, OpenError::Newer { found: 77, known: 10, .. }), "{refused}");
    assert!(refused.to_string().contains("version 77"));
}

#[test]
fn a_schema_from_before_the_first_release_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    drop(Database::open(dir.path()).unwrap());
    let connection = rusqlite::Connection::open(dir.path().join("holdfast.db")).unwrap();
    connection.pragma_update(None, "user_version", 2).unwrap();
    drop(connection);
    let refused = refusal(dir.path());
    assert!(matches!(refused, OpenError::Older { found: 2, .. }), "{refused}");
}

#[test]
fn a_file_that_is_no_database_is_refused_and_left_alone() {
    for garbage in
        [&b"SQLite"[..], b"this is a text and no database", &[0; 5000], b"SQLite format 3\0 and no more"]
    {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("holdfast.db");
        fs::write(&file, garbage).unwrap();
        let refused = refusal(dir.path());
        assert!(matches!(refused, OpenError::Corrupt { .. }), "{refused}");
        assert_eq!(fs::read(&file).unwrap(), garbage);
    }
}

#[test]
fn another_programs_database_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let connection = rusqlite::Connection::open(dir.path().join("holdfast.db")).unwrap();
    connection.execute_batch("CREATE TABLE theirs (x)").unwrap();
    drop(connection);
    assert!(matches!(refusal(dir.path()), OpenError::Corrupt { .. }));
}

#[test]
fn a_cut_off_file_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let embedded = open(dir.path()).unwrap();
    block_on(embedded.store.put_each((0..500).map(|n| record(&format!("t{n}"))).collect())).unwrap();
    embedded.close();
    drop(embedded);
    let file = dir.path().join("holdfast.db");
    let whole = fs::read(&file).unwrap();
    for left in [whole.len() - 4096, whole.len() / 2, 4096, 1000, 50] {
        fs::write(&file, &whole[..left]).unwrap();
        let refused = refusal(dir.path());
        assert!(matches!(refused, OpenError::Corrupt { .. }), "{left} bytes: {refused}");
    }
}

#[test]
fn a_damaged_page_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    drop(Database::open(dir.path()).unwrap());
    let file = dir.path().join("holdfast.db");
    let mut bytes = fs::read(&file).unwrap();
    bytes[4096..8192].fill(0xff);
    fs::write(&file, bytes).unwrap();
    assert!(matches!(refusal(dir.path()), OpenError::Corrupt { .. }));
}

#[test]
fn a_folder_that_cannot_be_created_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), "").unwrap();
    let refused = refusal(&dir.path().join("file").join("folder"));
    assert!(matches!(refused, OpenError::NotWritable { .. }), "{refused}");
}

#[test]
fn expired_records_and_bodies_are_purged_in_steps() {
    block_on(async {
        let dir = tempfile::tempdir().unwrap();
        let embedded = open(dir.path()).unwrap();
        for n in 0..5 {
            let key = BodyKey::new(&"default".into(), &EventKey::of(&n.to_string(), START));
            let remove_at = START + Duration::from_secs(n);
            embedded.store.put_bodies(vec![(key, bytes::Bytes::from_static(b"x"))], remove_at).await.unwrap();
        }
        embedded.store.put_each(vec![record("kept")]).await.unwrap();
        let now = START + Duration::from_secs(3);
        assert_eq!(embedded.purge(now, 3).await.unwrap(), 3);
        assert_eq!(embedded.purge(now, 3).await.unwrap(), 1);
        assert_eq!(embedded.purge(now, 3).await.unwrap(), 0);
        let key = TenantVersion::key(&Tenant::from("kept"));
        assert!(embedded.store.get(&[key]).await.unwrap()[0].is_some());
    });
}
