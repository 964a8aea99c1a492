//! Messages that cannot be read: they are sent again or set aside.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use holdfast_core::ports::{Delay, Inbox, QueueName, Received, Settlement};
use holdfast_core::time::Timestamp;
use holdfast_embedded::{Embedded, Options};
use holdfast_sim::{VirtualClock, block_on};

const QUEUE: QueueName = QueueName::Retry;
const NEWER: &[u8] = br#"{"v":99,"kind":"unheard_of"}"#;

struct Fixture {
    clock: Arc<VirtualClock>,
    embedded: Embedded,
}

fn open(dir: &Path) -> Fixture {
    let clock = Arc::new(VirtualClock::new(Timestamp::from_millis(1_700_000_000_000)));
    let embedded = Embedded::open(dir, Arc::clone(&clock) as _, Options::default()).unwrap();
    Fixture { clock, embedded }
}

impl Fixture {
    async fn receive(&self) -> Vec<Received> {
        self.embedded.queue.receive(QUEUE, 10).await.unwrap()
    }

    async fn receive_one(&self) -> Received {
        let mut received = self.receive().await;
        assert_eq!(received.len(), 1);
        received.remove(0)
    }

    async fn settle(&self, received: &Received, settlement: Settlement) {
        let results = self.embedded.queue.settle(QUEUE, vec![(received.receipt.clone(), settlement)]).await;
        assert!(matches!(results[..], [Ok(())]), "{results:?}");
    }
}

fn resend(received: &Received) -> Settlement {
    let message = received.message.clone().unwrap_err();
    Settlement::Resend { message, delay: Delay::new(Duration::from_secs(300)).unwrap() }
}

#[test]
fn a_message_that_is_sent_again_is_as_good_as_new() {
    block_on(async {
        let dir = tempfile::tempdir().unwrap();
        let f = open(dir.path());
        f.embedded.queue.send_raw(QUEUE, NEWER.to_vec()).await.unwrap();
        let first = f.receive_one().await;
        f.settle(&first, resend(&first)).await;
        f.clock.advance(Duration::from_secs(299));
        assert!(f.receive().await.is_empty());
        f.clock.advance(Duration::from_secs(1));
        let second = f.receive_one().await;
        assert_eq!((second.receive_count, &second.message), (1, &first.message));
        // Its old receipt does not name it.
        for settlement in [resend(&first), Settlement::Delete] {
            f.settle(&first, settlement).await;
        }
        f.settle(&second, Settlement::RetryAfter(Duration::ZERO)).await;
        assert_eq!(f.receive_one().await.receive_count, 2);
    });
}

#[test]
fn a_message_that_is_sent_again_survives_a_restart() {
    block_on(async {
        let dir = tempfile::tempdir().unwrap();
        let f = open(dir.path());
        f.embedded.queue.send_raw(QUEUE, NEWER.to_vec()).await.unwrap();
        let first = f.receive_one().await;
        f.settle(&first, resend(&first)).await;
        drop(f);
        let f = open(dir.path());
        assert!(f.receive().await.is_empty(), "it is still delayed");
        f.clock.advance(Duration::from_secs(300));
        assert_eq!(f.receive_one().await.message.unwrap_err().payload, NEWER);
    });
}

#[test]
fn a_dead_letter_is_kept_and_received_again_after_an_hour() {
    block_on(async {
        let dir = tempfile::tempdir().unwrap();
        let f = open(dir.path());
        f.embedded.queue.send_raw(QUEUE, b"no message".to_vec()).await.unwrap();
        let first = f.receive_one().await;
        f.settle(&first, Settlement::DeadLetter(first.message.clone().unwrap_err())).await;
        f.clock.advance(Duration::from_secs(3_599));
        assert!(f.receive().await.is_empty());
        f.clock.advance(Duration::from_secs(1));
        assert_eq!(f.receive_one().await.message, first.message);
    });
}
