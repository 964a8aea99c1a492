//! Backups of an open database, and what they restore.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use holdfast_core::ids::{JobId, Tenant};
use holdfast_core::ports::{Delay, Inbox, Outgoing, Queue, QueueName, Store};
use holdfast_core::records::{Message, Record, TenantVersion};
use holdfast_core::time::Timestamp;
use holdfast_embedded::{Database, Embedded, OpenError, Options, backup};
use holdfast_sim::{VirtualClock, block_on};

const QUEUE: QueueName = QueueName::First;

fn open(dir: &Path) -> Embedded {
    Embedded::open(dir, Arc::new(VirtualClock::new(Timestamp::ZERO)), Options::default()).unwrap()
}

fn tenant(n: u64) -> Tenant {
    Tenant::from(format!("t{n}").as_str())
}

async fn put(embedded: &Embedded, n: u64) {
    let record = TenantVersion { version: 1, ..TenantVersion::new(&tenant(n)) };
    embedded.store.put_each(vec![Record::TenantVersion(record)]).await.unwrap();
}

async fn has(embedded: &Embedded, n: u64) -> bool {
    embedded.store.get(&[TenantVersion::key(&tenant(n))]).await.unwrap()[0].is_some()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_while_writes_go_on_has_everything_acknowledged_before_it() {
    let (dir, parent) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let embedded = Arc::new(open(dir.path()));
    let message = Message::Job { tenant: "a".into(), id: JobId::new([1; 16]), step: None, links: 0 };
    embedded.queue.send(QUEUE, vec![Outgoing { message, delay: Delay::NONE }]).await.unwrap();
    let written = Arc::new(AtomicU64::new(0));
    let writing = tokio::spawn({
        let (embedded, written) = (Arc::clone(&embedded), Arc::clone(&written));
        async move {
            for n in 0.. {
                put(&embedded, n).await;
                written.store(n + 1, Ordering::SeqCst);
            }
        }
    });
    for round in 0..3 {
        let wanted = (round + 1) * 100;
        while written.load(Ordering::SeqCst) < wanted {
            tokio::task::yield_now().await;
        }
        let acknowledged = written.load(Ordering::SeqCst);
        let to = parent.path().join(round.to_string());
        let damaged = backup(dir.path(), &to, &[]).unwrap();
        assert_eq!(damaged, Vec::<String>::new());
        let restored = open(&to);
        for n in 0..acknowledged {
            assert!(has(&restored, n).await, "{n} of {acknowledged} is missing");
        }
        assert_eq!(restored.queue.receive(QUEUE, 10).await.unwrap().len(), 1);
    }
    writing.abort();
    assert!(writing.await.unwrap_err().is_cancelled(), "the writes went on");
}

#[test]
fn a_backup_is_for_its_owner_only_and_has_the_other_files() {
    let (dir, parent) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    drop(Database::open(dir.path()).unwrap());
    fs::write(dir.path().join("key"), "hf_1").unwrap();
    let to = parent.path().join("backup");
    backup(dir.path(), &to, &["key", "operator-key"]).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&to), 0o700);
    let mut names: Vec<_> = fs::read_dir(&to).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["holdfast.db", "holdfast.state", "key"]);
    for name in names {
        assert_eq!(mode(&to.join(&name)), 0o600, "{}", name.display());
    }
    assert_eq!(fs::read_to_string(to.join("key")).unwrap(), "hf_1");
}

#[test]
fn a_backup_after_a_kill_has_everything_and_leaves_the_folder_as_it_is() {
    block_on(async {
        let (dir, killed, parent) =
            (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let embedded = open(dir.path());
        put(&embedded, 1).await;
        for name in ["holdfast.db", "holdfast.db-wal", "holdfast.state"] {
            fs::copy(dir.path().join(name), killed.path().join(name)).unwrap();
        }
        let to = parent.path().join("backup");
        backup(killed.path(), &to, &[]).unwrap();
        assert!(has(&open(&to), 1).await);
        assert!(has(&open(killed.path()), 1).await);
    });
}

#[test]
fn an_interrupted_backup_does_not_start_as_new() {
    let (dir, parent) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let to = parent.path().join("backup");
    let embedded = open(dir.path());
    // What is no text cannot be copied: as good as an interruption at the last moment.
    fs::write(dir.path().join("key"), [0xff]).unwrap();
    backup(dir.path(), &to, &["key"]).unwrap_err();
    assert!(matches!(Database::open(&to), Err(OpenError::DataMissing { .. })));
    drop(embedded);
}

#[test]
fn a_backup_overwrites_nothing() {
    let (dir, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    drop(Database::open(dir.path()).unwrap());
    fs::write(to.path().join("holdfast.db"), "precious").unwrap();
    let refused = backup(dir.path(), to.path(), &[]).unwrap_err();
    assert!(refused.to_string().contains("already contains files"), "{refused}");
    assert_eq!(fs::read_to_string(to.path().join("holdfast.db")).unwrap(), "precious");
}

#[test]
fn there_is_no_backup_of_nothing() {
    let (dir, parent) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let to = parent.path().join("backup");
    assert!(matches!(backup(dir.path(), &to, &[]), Err(OpenError::DataMissing { .. })));
    assert!(!to.exists());
}

#[test]
fn a_backup_over_the_database_of_a_killed_server_is_refused() {
    block_on(async {
        let (dir, killed, parent) =
            (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let embedded = open(dir.path());
        let to = parent.path().join("backup");
        backup(dir.path(), &to, &[]).unwrap();
        put(&embedded, 1).await;
        for name in ["holdfast.db-wal", "holdfast.state"] {
            fs::copy(dir.path().join(name), killed.path().join(name)).unwrap();
        }
        fs::copy(to.join("holdfast.db"), killed.path().join("holdfast.db")).unwrap();
        // SQLite would mix the old database with the newer log.
        assert!(matches!(Database::open(killed.path()), Err(OpenError::DataMissing { .. })));
    });
}
