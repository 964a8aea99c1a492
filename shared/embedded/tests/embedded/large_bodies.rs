//! Bodies that do not fit in memory.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use holdfast_core::ids::{DeliveryKey, EventKey, SubscriptionId, UrlId};
use holdfast_core::ports::{Backlog, BodyKey, Delay, Inbox, Outgoing, Queue, QueueName, Settlement, Store};
use holdfast_core::records::{DeliveryTicket, FirstAttempt, Message};
use holdfast_core::time::Timestamp;
use holdfast_embedded::{Embedded, Options};
use holdfast_sim::VirtualClock;

const START: Timestamp = Timestamp::from_millis(1_700_000_000_000);
const QUEUE: QueueName = QueueName::First;

fn first_attempt(url: &str, n: u8) -> Outgoing {
    let message = Message::FirstAttempt(FirstAttempt {
        key: DeliveryKey {
            tenant: "default".into(),
            event_key: EventKey::of(&n.to_string(), START),
            subscription_id: SubscriptionId::new([n; 16]),
        },
        event_id: n.to_string(),
        event_type: "a.b".into(),
        accepted_at: START,
        url_id: UrlId::of(url),
        body: Some(Bytes::from(vec![n; 10_000])),
        again: false,
        trace: None,
    });
    Outgoing { message, delay: Delay::NONE }
}

fn body_of(message: &Message) -> Bytes {
    match message {
        Message::FirstAttempt(first) => first.body.clone().expect("the body is there"),
        other => panic!("not a first attempt: {other:?}"),
    }
}

#[tokio::test]
async fn many_large_bodies_for_one_url_do_not_hold_up_another() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = Options { memory_bytes: 30_000, per_group_limit: 2, ..Options::default() };
    let clock = Arc::new(VirtualClock::new(START));
    let embedded = Embedded::open(folder.path(), clock as _, options).expect("it opens");
    let slow = (0..100).map(|n| first_attempt("http://slow/", n)).collect();
    embedded.queue.send(QUEUE, slow).await.expect("sent");
    embedded.queue.send(QUEUE, vec![first_attempt("http://other/", 200)]).await.expect("sent");
    let first = embedded.queue.receive(QUEUE, 10).await.expect("received");
    assert_eq!(first.len(), 2, "the slow URL has its share");
    let second = embedded.queue.receive(QUEUE, 10).await.expect("received");
    assert_eq!(body_of(second[0].message.as_ref().expect("readable")), vec![200; 10_000]);
}

#[tokio::test]
async fn bodies_read_from_the_file_are_intact() {
    let folder = tempfile::tempdir().expect("a folder");
    let visibility = Duration::from_secs(1_000_000);
    let options = Options { memory_bytes: 30_000, per_group_limit: 1_000, visibility, ..Options::default() };
    let clock = Arc::new(VirtualClock::new(START));
    let embedded = Embedded::open(folder.path(), clock as _, options).expect("it opens");
    let messages: Vec<Outgoing> = (0..50).map(|n| first_attempt("http://slow/", n)).collect();
    embedded.queue.send(QUEUE, messages.clone()).await.expect("sent");
    let mut received = Vec::new();
    loop {
        let batch = embedded.queue.receive(QUEUE, 7).await.expect("received");
        if batch.is_empty() {
            break;
        }
        received.extend(batch.into_iter().map(|one| one.message.expect("readable")));
    }
    assert_eq!(received, messages.into_iter().map(|one| one.message).collect::<Vec<_>>());
}

#[tokio::test]
async fn bodies_count_as_waiting_until_they_are_delivered_wherever_they_are() {
    let folder = tempfile::tempdir().expect("a folder");
    let options =
        Options { memory_messages: 20, group_messages: 1, per_group_limit: 2, ..Options::default() };
    let clock = Arc::new(VirtualClock::new(START));
    let open = || Embedded::open(folder.path(), Arc::clone(&clock) as _, options.clone()).expect("it opens");
    let waiting = async |embedded: &Embedded| {
        let waiting = embedded.backlog.of(&"default".into()).await.expect("it can be read");
        waiting.expect("it is counted").largest.map(|(url_id, bytes)| (url_id, bytes / 10_000))
    };
    let slow = UrlId::of("http://slow/");
    let embedded = open();
    let messages = (0..50).map(|n| first_attempt("http://slow/", n)).collect();
    embedded.queue.send(QUEUE, messages).await.expect("sent");
    assert_eq!(waiting(&embedded).await, Some((slow.clone(), 50)));
    drop(embedded);

    let embedded = open();
    for left in (0..50).rev() {
        let received = embedded.queue.receive(QUEUE, 1).await.expect("received").remove(0);
        embedded.queue.settle(QUEUE, vec![(received.receipt, Settlement::Delete)]).await;
        assert_eq!(waiting(&embedded).await, (left > 0).then(|| (slow.clone(), left)));
        // The writing thread has then loaded what there was room for, which it does after each commit.
        for _ in 0..2 {
            embedded.purge(Timestamp::ZERO, 1).await.expect("purged");
        }
    }
}

/// Retries of 256 bodies of 1 MB took that much memory, beside what first attempts may take.
#[tokio::test]
async fn retries_hold_no_more_bytes_of_bodies_than_first_attempts() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = Options { in_flight_bytes: 30_000, ..Options::default() };
    let clock = Arc::new(VirtualClock::new(START));
    let embedded = Embedded::open(folder.path(), clock as _, options).expect("it opens");
    for n in 0..10 {
        let Message::FirstAttempt(FirstAttempt { key, url_id, body, .. }) =
            first_attempt("http://slow/", n).message
        else {
            unreachable!("a first attempt")
        };
        let body = body.expect("a body");
        embedded.store.put_bodies(vec![(BodyKey::of(&key), body)], START).await.expect("stored");
        let ticket = DeliveryTicket { key, url_id, epoch: 0, n: 1, links: 0 };
        let message = Outgoing { message: Message::Delivery(ticket), delay: Delay::NONE };
        embedded.queue.send(QueueName::Retry, vec![message]).await.expect("sent");
    }
    let mut received = Vec::new();
    loop {
        let batch = embedded.queue.receive(QueueName::Retry, 10).await.expect("received");
        if batch.is_empty() {
            break;
        }
        received.extend(batch);
    }
    assert!((1..=4).contains(&received.len()), "{}", received.len());
    let first = received.remove(0);
    embedded.queue.settle(QueueName::Retry, vec![(first.receipt, Settlement::Delete)]).await;
    assert!(!embedded.queue.receive(QueueName::Retry, 1).await.expect("received").is_empty());
}

/// A body that came with a message was written twice: with the message, and again for the log.
#[tokio::test]
async fn a_body_that_is_kept_is_written_once_and_outlives_its_messages() {
    let folder = tempfile::tempdir().expect("a folder");
    let keep = Duration::from_secs(86_400);
    let options = Options { keep_bodies: Some(keep), per_group_limit: 1_000, ..Options::default() };
    let clock = Arc::new(VirtualClock::new(START));
    let open = || Embedded::open(folder.path(), Arc::clone(&clock) as _, options.clone()).expect("it opens");
    let embedded = open();
    let messages: Vec<Outgoing> = (0..2).map(|n| first_attempt("http://slow/", n)).collect();
    embedded.queue.send(QUEUE, messages.clone()).await.expect("sent");
    let received = embedded.queue.receive(QUEUE, 1).await.expect("received").remove(0);
    assert_eq!(received.message.as_ref(), Ok(&messages[0].message), "from memory, with its body");
    assert!(received.body_is_stored);
    embedded.queue.settle(QUEUE, vec![(received.receipt, Settlement::Delete)]).await;
    embedded.close();
    drop(embedded);

    let payloads = "SELECT sum(instr(payload, x'01010101')), (SELECT count(*) FROM bodies) FROM messages";
    let file = rusqlite::Connection::open(folder.path().join("holdfast.db")).expect("the file");
    let found = file.query_row(payloads, [], |row| Ok((row.get(0)?, row.get(1)?)));
    assert_eq!(found, Ok((0, 2)), "bodies in messages, and rows of bodies");
    drop(file);

    let embedded = open();
    let received = embedded.queue.receive(QUEUE, 1).await.expect("received").remove(0);
    let Ok(Message::FirstAttempt(FirstAttempt { body: None, key, .. })) = received.message else {
        panic!("from the file, without its body: {:?}", received.message)
    };
    let bodies = [BodyKey::of(&key)];
    let body = embedded.store.get_bodies(&bodies).await.expect("it can be read").remove(0);
    assert_eq!(body, Some(body_of(&messages[1].message)));
    clock.advance(keep + Duration::from_secs(1));
    embedded.purge(START + keep + Duration::from_secs(1), 10).await.expect("purged");
    assert_eq!(embedded.store.get_bodies(&bodies).await.expect("it can be read"), [None]);
}

/// Without room in memory, such a body is left to those who handle the message.
#[tokio::test]
async fn a_body_stored_apart_that_does_not_fit_in_memory_is_not_read_from_its_message() {
    let folder = tempfile::tempdir().expect("a folder");
    let keep_bodies = Some(Duration::from_secs(86_400));
    let options = Options { memory_bytes: 15_000, per_group_limit: 9, keep_bodies, ..Options::default() };
    let clock = Arc::new(VirtualClock::new(START));
    let embedded = Embedded::open(folder.path(), clock as _, options).expect("it opens");
    let messages = (0..3).map(|n| first_attempt("http://slow/", n)).collect();
    embedded.queue.send(QUEUE, messages).await.expect("sent");
    let received = embedded.queue.receive(QUEUE, 9).await.expect("received");
    let with_body = received
        .iter()
        .filter(|one| matches!(&one.message, Ok(Message::FirstAttempt(FirstAttempt { body: Some(_), .. }))));
    assert_eq!((with_body.count(), received.len()), (1, 3));
}
