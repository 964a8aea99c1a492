//! A folder in which something is missing that was there does not start as new.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use holdfast_core::ids::Tenant;
use holdfast_core::ports::Store;
use holdfast_core::records::{Record, TenantVersion};
use holdfast_core::time::Timestamp;
use holdfast_embedded::{Database, Embedded, OpenError, Options};
use holdfast_sim::{VirtualClock, block_on};

const DATABASE: &str = "holdfast.db";
const LOG: &str = "holdfast.db-wal";
const MARKER: &str = "holdfast.state";

fn open(dir: &Path) -> Embedded {
    Embedded::open(dir, Arc::new(VirtualClock::new(Timestamp::ZERO)), Options::default()).unwrap()
}

fn refusal(dir: &Path) -> String {
    match Database::open(dir) {
        Err(error @ OpenError::DataMissing { .. }) => error.to_string(),
        Err(error) => panic!("another refusal: {error}"),
        Ok(_) => panic!("it was opened"),
    }
}

fn store(embedded: &Embedded) {
    let record = TenantVersion { version: 1, ..TenantVersion::new(&"a".into()) };
    block_on(embedded.store.put_each(vec![Record::TenantVersion(record)])).unwrap();
}

fn has_record(dir: &Path) -> bool {
    let key = TenantVersion::key(&Tenant::from("a"));
    block_on(open(dir).store.get(&[key])).unwrap()[0].is_some()
}

/// What a kill leaves: the files of a running server with one record, which is only in the write-ahead log.
fn killed() -> tempfile::TempDir {
    let (dir, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let embedded = open(dir.path());
    store(&embedded);
    copy_files(dir.path(), copy.path());
    copy
}

fn copy_files(from: &Path, to: &Path) {
    for name in [DATABASE, LOG, MARKER] {
        fs::copy(from.join(name), to.join(name)).unwrap();
    }
}

/// What an orderly stop leaves.
fn stopped() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    store(&open(dir.path()));
    dir
}

fn remove(dir: &Path, name: &str) {
    fs::remove_file(dir.join(name)).unwrap();
}

fn empty(dir: &Path, name: &str) {
    File::create(dir.join(name)).unwrap();
}

#[test]
fn an_empty_or_missing_database_is_refused() {
    for lose in [remove, empty] {
        for dir in [killed(), stopped()] {
            lose(dir.path(), DATABASE);
            let told = refusal(dir.path());
            assert!(told.contains(DATABASE) && told.contains("restore a backup"), "{told}");
        }
    }
    // Even without the marker, a write-ahead log shows that there was a database.
    let dir = killed();
    remove(dir.path(), MARKER);
    empty(dir.path(), DATABASE);
    refusal(dir.path());
}

#[test]
fn a_lost_write_ahead_log_is_refused_after_a_kill() {
    assert!(has_record(killed().path()));
    for lose in [remove, empty] {
        let dir = killed();
        lose(dir.path(), LOG);
        for _ in 0..2 {
            let told = refusal(dir.path());
            assert!(told.contains(LOG) && told.contains("restore a backup"), "{told}");
        }
        // The operator decides to continue without what was in it.
        remove(dir.path(), MARKER);
        assert!(!has_record(dir.path()));
    }
}

#[test]
fn a_missing_write_ahead_log_is_fine_after_an_orderly_stop() {
    let dir = stopped();
    remove(dir.path(), LOG);
    assert!(has_record(dir.path()));
}

#[test]
fn a_database_beside_the_log_of_another_one_is_refused() {
    let (dir, other) = (killed(), stopped());
    fs::copy(other.path().join(DATABASE), dir.path().join(DATABASE)).unwrap();
    let told = refusal(dir.path());
    assert!(told.contains(LOG) && told.contains("empty folder"), "{told}");
    remove(dir.path(), LOG);
    assert!(has_record(dir.path()), "a complete database without a log is taken over");
}

#[test]
fn a_start_that_is_refused_leaves_the_write_ahead_log() {
    let (dir, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let embedded = open(dir.path());
    store(&embedded);
    let connection = rusqlite::Connection::open(dir.path().join(DATABASE)).unwrap();
    connection.pragma_update(None, "user_version", 77).unwrap();
    copy_files(dir.path(), copy.path());
    for _ in 0..2 {
        assert!(matches!(Database::open(copy.path()), Err(OpenError::Newer { .. })));
    }
    assert!(fs::metadata(copy.path().join(LOG)).unwrap().len() > 0);
}

#[test]
fn a_damaged_marker_is_refused() {
    let dir = stopped();
    fs::write(dir.path().join(MARKER), "opened").unwrap();
    assert!(refusal(dir.path()).contains(MARKER));
}

/// Whatever a crash during the first start left, nothing was accepted yet, and the next start succeeds.
#[test]
fn a_first_start_that_was_interrupted_is_repeated() {
    let dir = tempfile::tempdir().unwrap();
    empty(dir.path(), DATABASE);
    store(&open(dir.path()));
    assert!(has_record(dir.path()));

    // The mode was set, but no tables were made.
    let dir = tempfile::tempdir().unwrap();
    let connection = rusqlite::Connection::open(dir.path().join(DATABASE)).unwrap();
    connection.execute_batch("PRAGMA journal_mode = WAL").unwrap();
    drop(connection);
    assert!(fs::metadata(dir.path().join(DATABASE)).unwrap().len() > 0, "never an empty file beside a log");
    store(&open(dir.path()));
    assert!(has_record(dir.path()));

    // All but the marker.
    let dir = killed();
    fs::rename(dir.path().join(MARKER), dir.path().join("holdfast.new")).unwrap();
    assert!(has_record(dir.path()));
}

/// A start after a kill that is killed at once must not find its own traces suspicious.
#[test]
fn many_kills_in_a_row_lose_nothing() {
    let mut dir = killed();
    for _ in 0..3 {
        let database = Database::open(dir.path()).unwrap();
        let copy = tempfile::tempdir().unwrap();
        copy_files(dir.path(), copy.path());
        drop(database);
        dir = copy;
    }
    assert!(has_record(dir.path()));
}
