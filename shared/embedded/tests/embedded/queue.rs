//! What the embedded queue does beyond the port: limits of memory and of groups, and waking receivers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use holdfast_core::ids::{Tenant, UrlId};
use holdfast_core::ports::{Clock, Delay, Inbox, Outgoing, Queue, QueueName, Receipt, Settlement};
use holdfast_core::records::Message;
use holdfast_core::time::Timestamp;
use holdfast_embedded::{Embedded, Options};
use holdfast_sim::{SeededEntropy, VirtualClock, block_on};
use tokio::time::Instant;

const START: Timestamp = Timestamp::from_millis(1_700_000_000_000);
const QUEUE: QueueName = QueueName::Retry;

/// Message `step` of the group `url`.
fn release(url: u64, step: u64) -> Message {
    let url_id = UrlId::of(&format!("https://example.com/{url}"));
    Message::Release { tenant: Tenant::from("default"), url_id, step, links: 0 }
}

fn outgoing(url: u64, step: u64, delay_secs: u64) -> Outgoing {
    Outgoing { message: release(url, step), delay: Delay::new(Duration::from_secs(delay_secs)).unwrap() }
}

fn step_of(message: &Message) -> u64 {
    match message {
        Message::Release { step, .. } => *step,
        other => panic!("not a release: {other:?}"),
    }
}

struct Fixture {
    clock: Arc<VirtualClock>,
    embedded: Embedded,
    _dir: tempfile::TempDir,
}

fn fixture(options: Options) -> Fixture {
    let clock = Arc::new(VirtualClock::new(START));
    let dir = tempfile::tempdir().unwrap();
    let embedded = Embedded::open(dir.path(), Arc::clone(&clock) as _, options).unwrap();
    Fixture { clock, embedded, _dir: dir }
}

impl Fixture {
    async fn receive(&self, max: usize) -> Vec<(u64, Receipt)> {
        let received = self.embedded.queue.receive(QUEUE, max).await.unwrap();
        received.into_iter().map(|r| (step_of(&r.message.unwrap()), r.receipt)).collect()
    }

    async fn delete(&self, receipts: Vec<Receipt>) {
        let deletes = receipts.into_iter().map(|receipt| (receipt, Settlement::Delete)).collect();
        self.embedded.queue.settle(QUEUE, deletes).await;
    }

    /// Returns when the writing thread has done everything so far and loaded what there was room for, which it does after each commit.
    async fn flush(&self) {
        for _ in 0..2 {
            self.embedded.purge(Timestamp::ZERO, 1).await.unwrap();
        }
    }
}

/// Sends and receives at random with room for few messages in memory, and counts what arrives.
async fn nothing_is_lost_or_doubled(seed: u64, memory_messages: usize, memory_bytes: usize) {
    // So long that no message becomes visible again.
    let visibility = Duration::from_secs(1_000_000);
    let options =
        Options { visibility, memory_messages, memory_bytes, per_group_limit: 3, ..Options::default() };
    let f = fixture(options);
    let random = SeededEntropy::new(seed);
    let mut seen: BTreeMap<u64, usize> = BTreeMap::new();
    let mut held = Vec::new();
    let mut sent = 0;
    let mut idle = 0;
    while idle < 60 {
        if sent < 150 {
            let delay_secs = [0, 0, 5, 60, 900][(random.next_u64() % 5) as usize];
            let batch = 1 + random.next_u64() % 4;
            let messages =
                (0..batch).map(|n| outgoing(random.next_u64() % 4, sent + n, delay_secs)).collect();
            f.embedded.queue.send(QUEUE, messages).await.unwrap();
            sent += batch;
        }
        let received = f.receive((random.next_u64() % 4) as usize).await;
        idle = if received.is_empty() && sent >= 150 { idle + 1 } else { 0 };
        for (step, receipt) in received {
            *seen.entry(step).or_default() += 1;
            held.push(receipt);
        }
        if random.next_u64().is_multiple_of(3) {
            f.delete(std::mem::take(&mut held)).await;
        }
        f.flush().await;
        f.clock.advance(Duration::from_secs(random.next_u64() % 60));
    }
    assert_eq!(seen.len() as u64, sent, "seed {seed}");
    assert!(seen.values().all(|count| *count == 1), "seed {seed}: {seen:?}");
}

#[test]
fn messages_that_do_not_fit_in_memory_are_neither_lost_nor_doubled() {
    for seed in 0..2 {
        block_on(nothing_is_lost_or_doubled(seed, 1, usize::MAX));
        block_on(nothing_is_lost_or_doubled(seed, 5, usize::MAX));
        block_on(nothing_is_lost_or_doubled(seed, 50, 4000));
    }
}

#[test]
fn delayed_messages_make_room_for_messages_that_are_due() {
    block_on(async {
        let f = fixture(Options { memory_messages: 10, ..Options::default() });
        f.embedded.queue.send(QUEUE, (0..50).map(|n| outgoing(1, n, 900)).collect()).await.unwrap();
        f.embedded.queue.send(QUEUE, vec![outgoing(2, 99, 0)]).await.unwrap();
        assert_eq!(f.receive(10).await[0].0, 99);
    });
}

#[test]
fn a_reopened_queue_has_all_messages_even_if_they_do_not_fit_in_memory() {
    block_on(async {
        let dir = tempfile::tempdir().unwrap();
        let clock = Arc::new(VirtualClock::new(START));
        let options = Options { memory_messages: 7, per_group_limit: 1000, ..Options::default() };
        let open = || Embedded::open(dir.path(), Arc::clone(&clock) as _, options.clone()).unwrap();
        let embedded = open();
        embedded.queue.send(QUEUE, (0..100).map(|n| outgoing(n % 3, n, n % 2)).collect()).await.unwrap();
        drop(embedded);
        clock.advance(Duration::from_secs(1));
        let f = Fixture { clock: Arc::clone(&clock), embedded: open(), _dir: tempfile::tempdir().unwrap() };
        let mut steps = Vec::new();
        while steps.len() < 100 {
            let received = f.receive(10).await;
            assert!(!received.is_empty(), "after {}", steps.len());
            let (new, receipts): (Vec<u64>, Vec<Receipt>) = received.into_iter().unzip();
            steps.extend(new);
            f.delete(receipts).await;
            f.flush().await;
        }
        steps.sort_unstable();
        assert_eq!(steps, (0..100).collect::<Vec<u64>>());
    });
}

#[test]
fn a_group_has_no_more_in_flight_than_its_limit() {
    block_on(async {
        let f = fixture(Options { per_group_limit: 3, ..Options::default() });
        f.embedded.queue.send(QUEUE, (0..10).map(|n| outgoing(1, n, 0)).collect()).await.unwrap();
        f.embedded.queue.send(QUEUE, vec![outgoing(2, 99, 0)]).await.unwrap();
        let mut in_flight = f.receive(10).await;
        assert_eq!(in_flight.iter().map(|(step, _)| *step).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(f.receive(10).await[0].0, 99, "the other group is served");
        assert!(f.receive(10).await.is_empty());

        f.delete(vec![in_flight.remove(0).1]).await;
        assert_eq!(f.receive(10).await[0].0, 3, "deleting one makes room for one");
        let later = Settlement::RetryAfter(Duration::from_secs(60));
        f.embedded.queue.settle(QUEUE, vec![(in_flight.remove(0).1, later)]).await;
        assert_eq!(f.receive(10).await[0].0, 4, "postponing one makes room for one");
        assert!(f.receive(10).await.is_empty());
        f.clock.advance(Options::default().visibility);
        assert_eq!(f.receive(10).await.len(), 3, "those that became visible again make room");
    });
}

#[test]
fn groups_take_turns() {
    block_on(async {
        let f = fixture(Options::default());
        f.embedded.queue.send(QUEUE, (0..30).map(|n| outgoing(n % 3, n, 0)).collect()).await.unwrap();
        let mut served = Vec::new();
        for _ in 0..6 {
            let received = f.receive(2).await;
            assert!(received.iter().all(|(step, _)| step % 3 == received[0].0 % 3), "one group at a time");
            served.push(received[0].0 % 3);
        }
        assert_eq!(served, [0, 1, 2, 0, 1, 2]);
    });
}

/// The runtime's paused clock, which advances when all tasks wait: waiting takes no time.
struct PausedClock {
    started: Instant,
    speed: u32,
}

impl Clock for PausedClock {
    fn now(&self) -> Timestamp {
        START + self.started.elapsed() * self.speed
    }

    fn now_real(&self) -> Timestamp {
        START + self.started.elapsed()
    }

    fn to_schedule(&self, real: Duration) -> Duration {
        real * self.speed
    }
}

fn paused(speed: u32, options: Options) -> (Arc<Embedded>, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(PausedClock { started: Instant::now(), speed });
    (Arc::new(Embedded::open(dir.path(), clock, options).unwrap()), dir)
}

#[tokio::test(start_paused = true)]
async fn a_delayed_message_wakes_waiting_receivers() {
    for speed in [1, 60] {
        let (embedded, _dir) = paused(speed, Options::default());
        embedded.queue.send(QUEUE, vec![outgoing(1, 1, 120)]).await.unwrap();
        let asked = Instant::now();
        embedded.queue.ready(QUEUE).await;
        let waited = asked.elapsed();
        let expected = Duration::from_secs(120) / speed;
        assert!(waited <= expected + Duration::from_millis(10), "{waited:?}");
        assert_eq!(embedded.queue.receive(QUEUE, 10).await.unwrap().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_that_becomes_visible_wakes_waiting_receivers() {
    let (embedded, _dir) = paused(60, Options::default());
    embedded.queue.send(QUEUE, vec![outgoing(1, 1, 0)]).await.unwrap();
    embedded.queue.ready(QUEUE).await;
    let receipt = embedded.queue.receive(QUEUE, 10).await.unwrap().remove(0).receipt;
    let later = Settlement::RetryAfter(Duration::from_secs(7));
    embedded.queue.settle(QUEUE, vec![(receipt, later)]).await;
    let asked = Instant::now();
    embedded.queue.ready(QUEUE).await;
    assert!(asked.elapsed() >= Duration::from_secs(7));
    assert_eq!(embedded.queue.receive(QUEUE, 10).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_new_message_and_a_freed_group_wake_waiting_receivers() {
    let (embedded, _dir) = paused(1, Options { per_group_limit: 1, ..Options::default() });
    let wait = || {
        let embedded = Arc::clone(&embedded);
        tokio::spawn(async move { embedded.queue.ready(QUEUE).await })
    };
    let waiting = wait();
    embedded.queue.send(QUEUE, vec![outgoing(1, 1, 0), outgoing(1, 2, 0)]).await.unwrap();
    waiting.await.unwrap();
    let receipt = embedded.queue.receive(QUEUE, 10).await.unwrap().remove(0).receipt;
    let waiting = wait();
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished(), "its group is at the limit");
    embedded.queue.settle(QUEUE, vec![(receipt, Settlement::Delete)]).await;
    waiting.await.unwrap();
}
