//! Reads keep the thread of their caller for a moment.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;

use futures_util::future::join_all;
use holdfast_core::ports::{Query, Store};
use holdfast_core::time::Timestamp;
use holdfast_embedded::{Embedded, Options};
use holdfast_sim::VirtualClock;

/// A list of a hundred deliveries read all of them at once, and every other task waited.
#[tokio::test]
async fn a_task_with_many_reads_lets_others_have_their_turns() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(VirtualClock::new(Timestamp::from_millis(1_700_000_000_000)));
    let embedded = Embedded::open(folder.path(), clock as _, Options::default()).unwrap();
    let query = |n: usize| embedded.store.query(Query::of(format!("partition {n}"), 10));
    let mut reads = pin!(join_all((0..100).map(query)));
    let mut turns = 0;
    let read = poll_fn(|context| {
        turns += 1;
        reads.as_mut().poll(context)
    });
    assert!(read.await.into_iter().all(|page| page.is_ok()));
    assert!((6..50).contains(&turns), "{turns}");
}
