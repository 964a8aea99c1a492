//! Flipped bytes in the file: what they hit is named, and the rest is served.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use holdfast_core::ids::{DeliveryKey, EventKey, SubscriptionId, UrlId};
use holdfast_core::ports::{
    BodyKey, Delay, Inbox, Outgoing, Query, Queue, QueueName, Store, StoreError, chain,
};
use holdfast_core::records::{FirstAttempt, Key, Message, Record, Unreadable, UrlRecord};
use holdfast_core::time::Timestamp;
use holdfast_embedded::{CheckCursor, Embedded, Options};
use holdfast_sim::{VirtualClock, block_on};

const START: Timestamp = Timestamp::from_millis(1_700_000_000_000);
const QUEUE: QueueName = QueueName::First;

fn open(dir: &Path, options: Options) -> Embedded {
    Embedded::open(dir, Arc::new(VirtualClock::new(START)), options).unwrap()
}

/// Each is of another tenant, and so in another partition.
fn url(n: u32) -> UrlRecord {
    let url = format!("https://example.com/mark-record-{n}");
    UrlRecord::new(format!("tenant-{n}").as_str().into(), UrlId(format!("url_{n}")), url, START)
}

fn url_key(n: u32) -> Key {
    UrlRecord::key(&url(n).tenant, &url(n).id)
}

fn body_key(n: u32) -> BodyKey {
    BodyKey::new(&"default".into(), &EventKey::of(&n.to_string(), START))
}

fn body(n: u32) -> Bytes {
    Bytes::from(format!("{} mark-body-{n} {}", "x".repeat(5_000), "y".repeat(5_000)))
}

fn message(n: u8) -> Message {
    Message::FirstAttempt(FirstAttempt {
        key: DeliveryKey {
            tenant: "default".into(),
            event_key: EventKey::of(&n.to_string(), START),
            subscription_id: SubscriptionId::new([n; 16]),
        },
        event_id: format!("mark-message-{n}"),
        event_type: "a.b".into(),
        accepted_at: START,
        url_id: UrlId::of(&format!("http://{n}/")),
        body: Some(Bytes::from_static(b"{}")),
        again: false,
        trace: None,
    })
}

/// A closed database with three of each kind.
fn filled() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let embedded = open(dir.path(), Options::default());
    block_on(async {
        embedded.store.put_each((0..3).map(|n| Record::Url(url(n))).collect()).await.unwrap();
        let bodies = (0..3).map(|n| (body_key(n), body(n))).collect();
        embedded.store.put_bodies(bodies, START).await.unwrap();
        let messages = (0..3).map(|n| Outgoing { message: message(n), delay: Delay::NONE }).collect();
        embedded.queue.send(QUEUE, messages).await.unwrap();
    });
    drop(embedded);
    dir
}

/// Flips one bit of the last byte of `mark`, so that the content stays as valid as before.
fn damage(dir: &Path, mark: &str) {
    let file = dir.join("holdfast.db");
    let mut bytes = fs::read(&file).unwrap();
    let places: Vec<usize> = bytes
        .windows(mark.len())
        .enumerate()
        .filter(|(_, part)| *part == mark.as_bytes())
        .map(|(at, _)| at)
        .collect();
    assert!(!places.is_empty(), "{mark} is not in the file");
    for at in places {
        bytes[at + mark.len() - 1] ^= 0x04;
    }
    fs::write(&file, bytes).unwrap();
}

fn is_checksum(source: &Unreadable) -> bool {
    matches!(source, Unreadable::Corrupt(why) if why.contains("checksum"))
}

#[test]
fn a_damaged_record_is_named_and_the_others_are_served() {
    block_on(async {
        let dir = filled();
        damage(dir.path(), "mark-record-1");
        let store = Arc::clone(&open(dir.path(), Options::default()).store);
        for n in [0, 2] {
            assert_eq!(
                store.get(&[url_key(n)]).await.unwrap()[0].as_ref().unwrap().record,
                Record::Url(url(n))
            );
            assert_eq!(store.query(Query::of(url_key(n).partition, 10)).await.unwrap().items.len(), 1);
        }
        let got = store.get(&[url_key(1)]).await.unwrap_err();
        // A list without it would not be true.
        let listed = store.query(Query::of(url_key(1).partition, 10)).await.unwrap_err();
        for error in [got, listed] {
            let StoreError::Unreadable { key, source } = error else { panic!("{error:?}") };
            assert_eq!(key, url_key(1));
            assert!(is_checksum(&source), "{source}");
        }
    });
}

#[test]
fn a_damaged_record_can_be_written_over() {
    block_on(async {
        let dir = filled();
        damage(dir.path(), "mark-record-1");
        let embedded = open(dir.path(), Options::default());
        embedded.store.put_each(vec![Record::Url(url(1))]).await.unwrap();
        assert!(embedded.store.get(&[url_key(1)]).await.unwrap()[0].is_some());
    });
}

#[test]
fn a_damaged_body_is_named_and_the_others_are_served() {
    block_on(async {
        let dir = filled();
        damage(dir.path(), "mark-body-1");
        let embedded = open(dir.path(), Options::default());
        for n in [0, 2] {
            assert_eq!(embedded.store.get_bodies(&[body_key(n)]).await.unwrap(), [Some(body(n))]);
        }
        let error = embedded.store.get_bodies(&[body_key(1)]).await.unwrap_err();
        assert!(chain(&error).contains(body_key(1).event_key.as_str()), "{}", chain(&error));
        assert!(matches!(&error, StoreError::Unreadable { source, .. } if is_checksum(source)), "{error:?}");
    });
}

#[test]
fn a_damaged_message_is_unreadable_and_the_others_are_received() {
    // With room in memory the messages are checked when they are loaded, without when they are received.
    for memory_bytes in [Options::default().memory_bytes, 0] {
        block_on(async {
            let dir = filled();
            damage(dir.path(), "mark-message-1");
            let embedded = open(dir.path(), Options { memory_bytes, ..Options::default() });
            let (mut good, mut bad) = (Vec::new(), Vec::new());
            for _ in 0..3 {
                for received in embedded.queue.receive(QUEUE, 10).await.unwrap() {
                    match received.message {
                        Ok(message) => good.push(message),
                        Err(unreadable) => bad.push(unreadable),
                    }
                }
            }
            assert_eq!(good, [message(0), message(2)]);
            assert!(bad.len() == 1 && is_checksum(&bad[0].why), "{bad:?}");
            assert!(!bad[0].payload.is_empty(), "as the queue had it");
        });
    }
}

/// The whole check in steps of one row.
fn check(embedded: &Embedded) -> (usize, Vec<String>) {
    let (mut rows, mut damaged) = (0, Vec::new());
    let mut cursor = Some(CheckCursor::START);
    while let Some(after) = cursor {
        let step = block_on(embedded.check_step(after, 1)).unwrap();
        assert!(step.rows <= 1);
        rows += step.rows;
        damaged.extend(step.damaged);
        cursor = step.next;
    }
    (rows, damaged)
}

#[test]
fn the_background_check_reads_everything_and_names_what_is_damaged() {
    let dir = filled();
    assert_eq!(check(&open(dir.path(), Options::default())), (9, Vec::new()));
    for mark in ["mark-record-1", "mark-body-2", "mark-message-0"] {
        damage(dir.path(), mark);
    }
    let (rows, damaged) = check(&open(dir.path(), Options::default()));
    assert_eq!((rows, damaged.len()), (9, 3), "{damaged:?}");
    assert!(damaged[0].contains(&url_key(1).to_string()), "{damaged:?}");
    assert!(damaged[1].contains(body_key(2).event_key.as_str()), "{damaged:?}");
    assert!(damaged[2].contains("message"), "{damaged:?}");
}
