//! Files that are removed or replaced while the database is open.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use holdfast_core::ids::{JobId, Tenant};
use holdfast_core::ports::{
    Delay, Expect, Inbox, Outgoing, Queue, QueueError, QueueName, SendError, Store, StoreError, Write,
    WriteError, chain,
};
use holdfast_core::records::{Message, Record, TenantVersion};
use holdfast_core::time::Timestamp;
use holdfast_embedded::{Embedded, OpenError, Options};
use holdfast_sim::{VirtualClock, block_on};

const QUEUE: QueueName = QueueName::First;

fn open(dir: &Path) -> Result<Embedded, OpenError> {
    Embedded::open(dir, Arc::new(VirtualClock::new(Timestamp::ZERO)), Options::default())
}

fn record() -> TenantVersion {
    TenantVersion { version: 1, ..TenantVersion::new(&"a".into()) }
}

fn message() -> Outgoing {
    Outgoing {
        message: Message::Job { tenant: "a".into(), id: JobId::new([1; 16]), step: None, links: 0 },
        delay: Delay::NONE,
    }
}

/// Every kind of call fails, and says what happened to which file.
async fn assert_refused(embedded: &Embedded, name: &str, what: &str) {
    let store = &embedded.store;
    let key = TenantVersion::key(&Tenant::from("a"));
    let Err(WriteError::Store(written)) = store.write(vec![Write::put(record(), Expect::Any)]).await else {
        panic!("it was written although {name} was {what}");
    };
    let put = store.put_each(vec![Record::TenantVersion(record())]).await.unwrap_err();
    let read = store.get(&[key]).await.unwrap_err();
    for error in [written, put, read] {
        assert!(matches!(error, StoreError::Failed(_)), "{error:?}");
        let told = chain(&error);
        assert!(told.contains(name) && told.contains(what) && told.contains("restore a backup"), "{told}");
    }
    let Err(SendError { source, .. }) = embedded.queue.send(QUEUE, vec![message()]).await else {
        panic!("it was sent although {name} was {what}");
    };
    assert!(matches!(source, QueueError::Failed(_)), "{source:?}");
    assert!(embedded.queue.receive(QUEUE, 1).await.is_err());
}

#[test]
fn nothing_is_acknowledged_once_a_file_was_removed() {
    for name in ["holdfast.db", "holdfast.db-wal", "holdfast.db-shm"] {
        block_on(async {
            let dir = tempfile::tempdir().unwrap();
            let embedded = open(dir.path()).unwrap();
            embedded.queue.send(QUEUE, vec![message()]).await.unwrap();
            fs::remove_file(dir.path().join(name)).unwrap();
            assert_refused(&embedded, name, "removed").await;
        });
    }
}

#[test]
fn nothing_is_acknowledged_once_a_file_was_replaced() {
    for name in ["holdfast.db", "holdfast.db-wal"] {
        block_on(async {
            let dir = tempfile::tempdir().unwrap();
            let embedded = open(dir.path()).unwrap();
            let (file, copy) = (dir.path().join(name), dir.path().join("copy"));
            fs::copy(&file, &copy).unwrap();
            fs::rename(&copy, &file).unwrap();
            let before = fs::read(&file).unwrap();
            assert_refused(&embedded, name, "replaced").await;
            drop(embedded);
            assert_eq!(fs::read(&file).unwrap(), before, "the other file is left alone");
            let marker = fs::read_to_string(dir.path().join("holdfast.state")).unwrap();
            assert!(marker.starts_with("open"), "it was not closed in order: {marker}");
        });
    }
}

#[test]
fn a_file_that_is_put_back_does_not_make_up_for_what_was_lost() {
    block_on(async {
        let dir = tempfile::tempdir().unwrap();
        let embedded = open(dir.path()).unwrap();
        let (file, aside) = (dir.path().join("holdfast.db"), dir.path().join("aside"));
        fs::rename(&file, &aside).unwrap();
        assert_refused(&embedded, "holdfast.db", "removed").await;
        fs::rename(&aside, &file).unwrap();
        assert_refused(&embedded, "holdfast.db", "removed").await;
    });
}

#[tokio::test]
async fn an_idle_database_notices_a_removed_file_within_seconds() {
    let dir = tempfile::tempdir().unwrap();
    let embedded = open(dir.path()).unwrap();
    fs::remove_file(dir.path().join("holdfast.db")).unwrap();
    let key = [TenantVersion::key(&Tenant::from("a"))];
    let noticed = async {
        // Only reads, which do not look at the files themselves.
        while embedded.store.get(&key).await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), noticed).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn receivers_do_not_spin_once_the_database_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let embedded = open(dir.path()).unwrap();
    embedded.queue.send(QUEUE, vec![message()]).await.unwrap();
    embedded.queue.ready(QUEUE).await;
    fs::remove_file(dir.path().join("holdfast.db")).unwrap();
    assert_refused(&embedded, "holdfast.db", "removed").await;
    let ready = tokio::time::timeout(Duration::from_secs(3600), embedded.queue.ready(QUEUE));
    assert!(ready.await.is_err(), "there is nothing that could be received");
}
