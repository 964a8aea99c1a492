use std::fs;
use std::sync::Arc;

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

#[test]
fn the_log_does_not_grow_beyond_its_limit_while_writes_go_on() {
    block_on(async {
        let dir = tempfile::tempdir().unwrap();
        let clock = Arc::new(VirtualClock::new(Timestamp::ZERO));
        let embedded = Embedded::open(dir.path(), clock, Options::default()).unwrap();
        let length = |name| fs::metadata(dir.path().join(name)).unwrap().len();
        for n in 0..BODIES {
            let event_key = EventKey::of(&n.to_string(), Timestamp::ZERO);
            let body =
                (BodyKey { tenant: "default".into(), event_key }, Bytes::from(vec![n as u8; BODY_BYTES]));
            embedded.store.put_bodies(vec![body], Timestamp::ZERO).await.unwrap();
            assert!(length("holdfast.db-wal") < MAX_LOG_BYTES);
        }
        let written = u64::from(BODIES) * BODY_BYTES as u64;
        assert!(length("holdfast.db") > written - MAX_LOG_BYTES, "the rest is in the file already");
        embedded.close();
        assert!(length("holdfast.db") > written);
        assert_eq!(length("holdfast.db-wal"), 0);
    });
}
