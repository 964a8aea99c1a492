//! Records that a newer release wrote are read as such and never written over.

use std::path::Path;
use std::sync::Arc;

use holdfast_core::ids::UrlId;
use holdfast_core::ports::{Expect, Query, Store, StoreError, Write, WriteError};
use holdfast_core::records::{Key, Record, Unreadable, UrlRecord};
use holdfast_core::time::{Now, Timestamp};
use holdfast_embedded::{Embedded, Options};
use holdfast_sim::{VirtualClock, block_on};

const START: Timestamp = Timestamp::from_millis(1_700_000_000_000);
const NEWER: &str = r#"{"v":99,"kind":"url","unknown":true}"#;

fn open(dir: &Path) -> Embedded {
    Embedded::open(dir, Arc::new(VirtualClock::new(START)), Options::default()).unwrap()
}

fn url() -> UrlRecord {
    UrlRecord::new("default".into(), UrlId("url_1".to_owned()), "https://example.com/".to_owned(), START)
}

fn key() -> Key {
    UrlRecord::key(&url().tenant, &url().id)
}

/// A database in which a newer release wrote the URL's record.
fn with_newer_record() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let embedded = open(dir.path());
    block_on(embedded.store.put_each(vec![Record::Url(url())])).unwrap();
    embedded.close();
    let connection = rusqlite::Connection::open(dir.path().join("holdfast.db")).unwrap();
    connection.execute("UPDATE records SET format = 99", []).unwrap();
    set_data(&connection, NEWER);
    dir
}

/// Writes the URL's record as a release would, with its checksum.
fn set_data(connection: &rusqlite::Connection, data: &str) {
    let Key { partition, sort } = key();
    let checksum = crc32fast::hash(format!("{partition}\0{sort}\0{data}").as_bytes());
    let values = rusqlite::params![data.as_bytes(), checksum];
    let changed = connection.execute("UPDATE records SET data = ?1, checksum = ?2", values);
    assert_eq!(changed, Ok(1));
}

fn is_newer(error: &StoreError) -> bool {
    matches!(error, StoreError::Unreadable { key: found, source: Unreadable::Newer(99) } if *found == key())
}

#[test]
fn a_newer_record_is_read_with_its_key() {
    block_on(async {
        let dir = with_newer_record();
        let embedded = open(dir.path());
        let newer = Record::Newer { key: key(), version: 99 };
        assert_eq!(embedded.store.get(&[key()]).await.unwrap()[0].as_ref().unwrap().record, newer);
        let page = embedded.store.query(Query::of(key().partition, 10)).await.unwrap();
        assert_eq!(page.items[0].record, newer);
    });
}

#[test]
fn a_newer_record_is_never_written_over() {
    block_on(async {
        let dir = with_newer_record();
        let embedded = open(dir.path());
        let store = &embedded.store;
        let now = Now { schedule: START, real: START };
        let counted = store.count_outcomes(&url().tenant, &url().id, Vec::new(), now).await;
        assert!(is_newer(&counted.unwrap_err()));
        assert_eq!(store.put_each(vec![Record::Url(url())]).await.unwrap(), [Record::Url(url())]);
        let written = store.write(vec![Write::put(url(), Expect::Any)]).await;
        assert!(matches!(written, Err(WriteError::Store(error)) if is_newer(&error)));
        embedded.close();
        let connection = rusqlite::Connection::open(dir.path().join("holdfast.db")).unwrap();
        let data: Vec<u8> = connection.query_row("SELECT data FROM records", [], |row| row.get(0)).unwrap();
        assert_eq!(data, NEWER.as_bytes());
    });
}

#[test]
fn newer_records_do_not_keep_the_sweep_from_others() {
    block_on(async {
        let dir = with_newer_record();
        let connection = rusqlite::Connection::open(dir.path().join("holdfast.db")).unwrap();
        connection.execute("UPDATE records SET look_shard = 0, look_at = 0", []).unwrap();
        drop(connection);
        assert_eq!(open(dir.path()).store.overdue(0, START, 1).await.unwrap(), []);
    });
}

#[test]
fn a_corrupt_record_is_an_error_with_its_key() {
    block_on(async {
        let dir = with_newer_record();
        let connection = rusqlite::Connection::open(dir.path().join("holdfast.db")).unwrap();
        set_data(&connection, "{");
        drop(connection);
        let error = open(dir.path()).store.get(&[key()]).await.unwrap_err();
        assert!(
            matches!(&error, StoreError::Unreadable { key: found, source: Unreadable::Corrupt(_) } if *found == key())
        );
    });
}
