//! At most one ticket in the file of those that ask for the same look at a record.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use holdfast_core::ids::{DeliveryKey, EventKey, SubscriptionId, UrlId};
use holdfast_core::ports::{Delay, Inbox, Outgoing, Queue, QueueName, Received, Settlement};
use holdfast_core::records::{DeliveryTicket, Message};
use holdfast_core::time::Timestamp;
use holdfast_embedded::{Embedded, Options};
use holdfast_sim::{VirtualClock, block_on};

const START: Timestamp = Timestamp::from_millis(1_700_000_000_000);
const QUEUE: QueueName = QueueName::Retry;

struct Fixture {
    clock: Arc<VirtualClock>,
    embedded: Embedded,
    dir: tempfile::TempDir,
}

fn open(dir: &Path, clock: &Arc<VirtualClock>, memory_messages: usize) -> Embedded {
    let options = Options { memory_messages, group_messages: memory_messages, ..Options::default() };
    Embedded::open(dir, Arc::clone(clock) as _, options).unwrap()
}

fn fixture(memory_messages: usize) -> Fixture {
    let (clock, dir) = (Arc::new(VirtualClock::new(START)), tempfile::tempdir().unwrap());
    Fixture { embedded: open(dir.path(), &clock, memory_messages), clock, dir }
}

/// The ticket of attempt `n` of a delivery, to this URL.
fn ticket(event: &str, n: u32, url: &str, delay_secs: u64) -> Outgoing {
    let key = DeliveryKey {
        tenant: "default".into(),
        event_key: EventKey::of(event, START),
        subscription_id: SubscriptionId::new([1; 16]),
    };
    let message = Message::Delivery(DeliveryTicket { key, url_id: UrlId::of(url), epoch: 0, n, links: 0 });
    Outgoing { message, delay: Delay::at_most(Duration::from_secs(delay_secs)) }
}

const URL: &str = "https://example.com/";

impl Fixture {
    async fn send(&self, tickets: impl IntoIterator<Item = Outgoing>) {
        self.embedded.queue.send(QUEUE, tickets.into_iter().collect()).await.unwrap();
    }

    async fn receive(&self) -> Vec<Received> {
        self.embedded.queue.receive(QUEUE, 1_000).await.unwrap()
    }

    async fn settle(&self, received: Vec<Received>, settlement: Settlement) {
        let all = received.into_iter().map(|received| (received.receipt, settlement.clone())).collect();
        self.embedded.queue.settle(QUEUE, all).await;
    }

    async fn receive_and_delete(&self) -> usize {
        let received = self.receive().await;
        let count = received.len();
        self.settle(received, Settlement::Delete).await;
        count
    }

    /// Everything that can be received now, also what has to be read from the file first.
    async fn drain(&self) -> usize {
        let mut count = 0;
        loop {
            // Returns when the writing thread has loaded what there was room for.
            for _ in 0..2 {
                self.embedded.purge(Timestamp::ZERO, 1).await.unwrap();
            }
            match self.receive_and_delete().await {
                0 => return count,
                some => count += some,
            }
        }
    }

    fn queued(&self) -> u64 {
        self.embedded.queue.messages(QUEUE)
    }
}

#[test]
fn a_ticket_that_is_sent_again_and_again_is_in_the_queue_once() {
    block_on(async {
        // With room for all of them in memory, and with nearly all of them in the file.
        for memory_messages in [1_000, 2] {
            let f = fixture(memory_messages);
            for _ in 0..5 {
                f.send((0..100).map(|n| ticket(&format!("e{n}"), 1, URL, 0))).await;
                f.clock.advance(Duration::from_secs(300));
            }
            assert_eq!(f.queued(), 100);
            // Another attempt is another ticket.
            f.send([ticket("e0", 2, URL, 0), ticket("e0", 2, URL, 0)]).await;
            assert_eq!(f.queued(), 101);
            assert_eq!(f.drain().await, 101);
            assert_eq!(f.queued(), 0);
            f.send([ticket("e0", 1, URL, 0)]).await;
            assert_eq!(f.drain().await, 1, "it can be sent again once it was handled");
        }
    });
}

#[test]
fn a_ticket_is_not_lost_to_one_that_comes_later() {
    block_on(async {
        for memory_messages in [1_000, 2] {
            let f = fixture(memory_messages);
            f.send((0..20).map(|n| ticket(&format!("e{n}"), 1, URL, 800))).await;
            f.send([ticket("e19", 1, URL, 0)]).await;
            assert_eq!(f.queued(), 20);
            assert_eq!(f.drain().await, 1, "the one that is due now");
            f.send((0..20).map(|n| ticket(&format!("e{n}"), 1, URL, 800))).await;
            f.clock.advance(Duration::from_secs(800));
            assert_eq!(f.drain().await, 20);
            assert_eq!(f.queued(), 0);
        }
    });
}

#[test]
fn a_ticket_moves_to_the_url_of_the_newest_one() {
    block_on(async {
        let f = fixture(1_000);
        f.send([ticket("e", 1, URL, 0)]).await;
        f.send([ticket("e", 1, "https://example.com/moved", 60)]).await;
        assert_eq!(f.queued(), 1);
        let received = f.receive().await;
        let Ok(Message::Delivery(ticket)) = &received[0].message else { panic!("{received:?}") };
        assert_eq!(ticket.url_id, UrlId::of("https://example.com/moved"));
    });
}

#[test]
fn a_ticket_is_sent_while_the_same_one_is_handled() {
    block_on(async {
        let f = fixture(1_000);
        f.send([ticket("e", 1, URL, 0)]).await;
        let handled = f.receive().await;
        // The handler sends the next one, as if it had to wait for the end of a lease; so does the sweep.
        f.send([ticket("e", 1, URL, 30)]).await;
        f.send([ticket("e", 1, URL, 30)]).await;
        assert_eq!(f.queued(), 2);
        f.settle(handled, Settlement::Delete).await;
        f.clock.advance(Duration::from_secs(30));
        assert_eq!(f.drain().await, 1);

        // The handler fails, and its message is received again: it does for the one that is sent meanwhile.
        f.send([ticket("e", 1, URL, 0)]).await;
        let handled = f.receive().await;
        f.settle(handled, Settlement::RetryAfter(Duration::from_secs(5))).await;
        f.send([ticket("e", 1, URL, 0)]).await;
        assert_eq!(f.queued(), 1);
        f.clock.advance(Duration::from_secs(5));
        assert_eq!(f.drain().await, 1);
    });
}

#[test]
fn a_ticket_replaces_a_later_one_of_the_same_send() {
    block_on(async {
        let f = fixture(1_000);
        f.send([ticket("e", 1, URL, 60), ticket("e", 1, URL, 0), ticket("e", 1, URL, 30)]).await;
        assert_eq!(f.queued(), 1);
        assert_eq!(f.drain().await, 1);
    });
}

#[test]
fn the_tickets_of_a_file_are_known_when_it_is_opened_again() {
    block_on(async {
        let mut f = fixture(1_000);
        f.send([ticket("e", 1, URL, 0)]).await;
        f.embedded.close();
        f.embedded = open(f.dir.path(), &f.clock, 1_000);
        f.send([ticket("e", 1, URL, 0)]).await;
        assert_eq!(f.queued(), 1);
        assert_eq!(f.drain().await, 1);
    });
}
