//! Measures how many messages a second this machine sends, receives, logs and deletes:
//! `cargo run --release -p holdfast-embedded --example throughput [tasks] [folder]`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use holdfast_core::ids::{DeliveryKey, EventKey, SubscriptionId, UrlId};
use holdfast_core::ports::{Delay, Inbox, Outgoing, Queue, QueueName, Settlement, Store};
use holdfast_core::records::{Attempt, FirstAttempt, LoggedDelivery, Message, NewDelivery, Record};
use holdfast_core::rules::delivery::AttemptOutcome;
use holdfast_core::time::Timestamp;
use holdfast_embedded::{Embedded, Options};
use holdfast_sim::VirtualClock;
use tokio::time::Instant;

const RUN_FOR: Duration = Duration::from_secs(5);
const BODY_BYTES: usize = 300;

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let temporary = tempfile::tempdir()?;
    let tasks = std::env::args().nth(1).map_or(Ok(64), |tasks| tasks.parse::<u64>())?;
    let dir = std::env::args_os().nth(2).map_or_else(|| temporary.path().to_owned(), PathBuf::from);
    let clock = Arc::new(VirtualClock::new(Timestamp::from_millis(1_700_000_000_000)));
    let embedded = Arc::new(Embedded::open(&dir, clock, Options::default())?);
    let started = Instant::now();
    let running: Vec<_> = (0..tasks).map(|n| tokio::spawn(work(Arc::clone(&embedded), n, started))).collect();
    let mut messages = 0;
    for task in running {
        messages += task.await??;
    }
    let secs = started.elapsed().as_secs_f64();
    println!("{tasks} tasks: {messages} messages in {secs:.1} s: {:.0} a second", messages as f64 / secs);
    embedded.close();
    Ok(())
}

async fn work(embedded: Arc<Embedded>, task: u64, started: Instant) -> Result<u64, Failure> {
    let mut done = 0;
    while started.elapsed() < RUN_FOR {
        let message = first_attempt(&format!("evt_{task}_{done}"), task);
        let outgoing = Outgoing { message, delay: Delay::NONE };
        embedded.queue.send(QueueName::First, vec![outgoing]).await?;
        for received in embedded.queue.receive(QueueName::First, 1).await? {
            if let Message::FirstAttempt(first) = received.message? {
                embedded.store.put_each(vec![Record::Logged(logged(first))]).await?;
            }
            embedded.queue.settle(QueueName::First, vec![(received.receipt, Settlement::Delete)]).await;
            done += 1;
        }
    }
    Ok(done)
}

fn first_attempt(event_id: &str, url: u64) -> Message {
    let accepted_at = Timestamp::from_millis(1_700_000_000_000);
    Message::FirstAttempt(FirstAttempt {
        key: DeliveryKey {
            tenant: "default".into(),
            event_key: EventKey::of(event_id, accepted_at),
            subscription_id: SubscriptionId::new([url as u8; 16]),
        },
        event_id: event_id.to_owned(),
        event_type: "order.created".to_owned(),
        accepted_at,
        url_id: UrlId::of(&format!("https://example.com/{url}")),
        body: Some(Bytes::from(vec![b'x'; BODY_BYTES])),
        again: false,
        trace: None,
    })
}

fn logged(first: FirstAttempt) -> LoggedDelivery {
    let attempt = Attempt {
        key: first.key.clone(),
        epoch: 0,
        n: 0,
        at: first.accepted_at,
        outcome: AttemptOutcome::Success,
        status: Some(200),
        error: None,
        ms: 12,
        excerpt: Some("ok".to_owned()),
        remove_at: first.accepted_at + Duration::from_secs(86_400),
    };
    let delivery = NewDelivery {
        key: first.key,
        event_id: first.event_id,
        event_type: first.event_type,
        accepted_at: first.accepted_at,
        url_id: first.url_id,
        url: "https://example.com/".to_owned(),
        trace: None,
    };
    LoggedDelivery { delivery, attempt }
}
