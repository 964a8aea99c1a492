use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use bytes::Bytes;
use holdfast_core::ids::EventKey;
use holdfast_core::ports::{BodyKey, Store};
use holdfast_core::time::Timestamp;
use holdfast_embedded::{Embedded, Options};
use holdfast_sim::{VirtualClock, block_on};

const BODY_BYTES: usize = 256 << 10;
const BODIES: u32 = 640;
/// Its limit is 64 MB, and each commit here adds less than 1 MB.
const MAX_LOG_BYTES: u64 = 66 << 20;

fn open(dir: &tempfile::TempDir) -> Embedded {
    let clock = Arc::new(VirtualClock::new(Timestamp::ZERO));
    Embedded::open(dir.path(), clock, Options::default()).unwrap()
}

fn key(n: u32) -> BodyKey {
    BodyKey { tenant: "default".into(), event_key: EventKey::of(&n.to_string(), Timestamp::ZERO) }
}

async fn put(embedded: &Embedded, n: u32) {
    let body = (key(n), Bytes::from(vec![n as u8; BODY_BYTES]));
    embedded.store.put_bodies(vec![body], Timestamp::ZERO).await.unwrap();
}

#[test]
fn reads_all_the_time_do_not_keep_the_log_from_starting_anew() {
    let dir = tempfile::tempdir().unwrap();
    let embedded = open(&dir);
    let is_over = AtomicBool::new(false);
    let read_all_the_time = || {
        let keys: Vec<BodyKey> = (0..8).map(key).collect();
        while !is_over.load(Ordering::Relaxed) {
            block_on(embedded.store.get_bodies(&keys)).unwrap();
        }
    };
    let mut max_bytes = 0;
    thread::scope(|threads| {
        for _ in 0..3 {
            threads.spawn(read_all_the_time);
        }
        for n in 0..BODIES {
            block_on(put(&embedded, n));
            max_bytes = max_bytes.max(fs::metadata(dir.path().join("holdfast.db-wal")).unwrap().len());
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert!(max_bytes < MAX_LOG_BYTES, "{max_bytes}");
}

#[test]
fn the_log_does_not_grow_beyond_its_limit_while_writes_go_on() {
    block_on(async {
        let dir = tempfile::tempdir().unwrap();
        let embedded = open(&dir);
        let length = |name| fs::metadata(dir.path().join(name)).unwrap().len();
        for n in 0..BODIES {
            put(&embedded, n).await;
            assert!(length("holdfast.db-wal") < MAX_LOG_BYTES);
        }
        let written = u64::from(BODIES) * BODY_BYTES as u64;
        assert!(length("holdfast.db") > written - MAX_LOG_BYTES, "the rest is in the file already");
        embedded.close();
        assert!(length("holdfast.db") > written);
        assert_eq!(length("holdfast.db-wal"), 0);
    });
}
