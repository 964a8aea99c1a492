#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use holdfast_core::ids::{EventKey, JobId};
use holdfast_core::ports::{
    BodyKey, Delay, Inbox, Outgoing, Queue, QueueError, QueueName, SendError, Settlement, Store,
};
use holdfast_core::records::Message;
use holdfast_core::time::Timestamp;
use holdfast_sim::{VirtualClock, block_on};

use crate::lane::Lane;
use crate::{Embedded, Options};

const QUEUE: QueueName = QueueName::First;

fn body_key(n: u32) -> BodyKey {
    BodyKey { tenant: "default".into(), event_key: EventKey::of(&n.to_string(), Timestamp::ZERO) }
}

fn outgoing(step: u64) -> Outgoing {
    let id = JobId::new([1; 16]);
    Outgoing {
        message: Message::Job { tenant: "default".into(), id, step: Some(step), links: 0 },
        delay: Delay::NONE,
    }
}

/// Limits the size of the file, as a full disk would.
async fn limit_pages(embedded: &Embedded, pages: u32) {
    let limit = move |connection: &rusqlite::Connection| {
        connection.pragma_update_and_check(None, "max_page_count", pages, |row| row.get::<_, u32>(0))
    };
    embedded.writer.run(Lane::own(), limit).await.unwrap();
}

#[test]
fn a_full_disk_fails_only_the_writes_that_do_not_fit() {
    block_on(async {
        let dir = tempfile::tempdir().unwrap();
        let clock = Arc::new(VirtualClock::new(Timestamp::ZERO));
        let embedded = Embedded::open(dir.path(), clock, Options::default()).unwrap();
        limit_pages(&embedded, 100).await;
        // One large body that does not fit, among small ones that do, all at once.
        let sizes = (0..20_u32).map(|n| if n == 7 { 1_000_000 } else { 10 });
        let store = &embedded.store;
        let puts = (0..).zip(sizes).map(async |(n, size)| {
            store.put_bodies(vec![(body_key(n), Bytes::from(vec![0; size]))], Timestamp::ZERO).await.is_ok()
        });
        let stored = join_all(puts).await;
        for (n, stored) in (0..).zip(stored) {
            assert_eq!(stored, n != 7);
            assert_eq!(embedded.store.get_bodies(&[body_key(n)]).await.unwrap()[0].is_some(), stored);
        }

        limit_pages(&embedded, 1).await;
        let mut step = 0;
        while let Ok(()) = embedded.queue.send(QUEUE, vec![outgoing(step)]).await {
            step += 1;
        }
        let Err(SendError { unsent, source }) = embedded.queue.send(QUEUE, vec![outgoing(step)]).await else {
            panic!("it was sent");
        };
        assert_eq!(unsent, [outgoing(step)]);
        assert!(matches!(source, QueueError::Failed(_)), "{source}");

        // With room again, messages are sent.
        limit_pages(&embedded, 1_000_000).await;
        embedded.queue.send(QUEUE, vec![outgoing(step)]).await.unwrap();
        assert!(!embedded.queue.receive(QUEUE, 10).await.unwrap().is_empty());
    });
}

#[test]
fn a_receive_that_fails_frees_its_slots() {
    block_on(async {
        let dir = tempfile::tempdir().unwrap();
        let clock = Arc::new(VirtualClock::new(Timestamp::ZERO));
        let options = Options { first_concurrency: 2, ..Options::default() };
        let embedded = Embedded::open(dir.path(), Arc::clone(&clock) as _, options).unwrap();
        embedded.queue.send(QUEUE, vec![outgoing(0)]).await.unwrap();
        let execute = async |sql: &'static str| {
            let execute = move |connection: &rusqlite::Connection| connection.execute_batch(sql);
            embedded.writer.run(Lane::own(), execute).await.unwrap();
        };
        let receipt = embedded.queue.receive(QUEUE, 1).await.unwrap().remove(0).receipt;
        let now = Settlement::RetryAfter(Duration::ZERO);
        embedded.queue.settle(QUEUE, vec![(receipt, now)]).await;
        // The count of its second receipt cannot be stored.
        execute("CREATE TRIGGER refuse BEFORE UPDATE ON messages BEGIN SELECT raise(FAIL, 'refused'); END")
            .await;
        embedded.queue.receive(QUEUE, 1).await.unwrap_err();
        execute("DROP TRIGGER refuse").await;
        clock.advance(Duration::from_secs(2));
        assert_eq!(embedded.queue.receive(QUEUE, 1).await.unwrap().len(), 1);
    });
}
