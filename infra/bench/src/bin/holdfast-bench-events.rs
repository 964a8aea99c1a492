//! Accepts and delivers events over ports in memory, on one thread: what scenario g counts the instructions of.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use async_trait::async_trait;
use holdfast_core::engine::{Engine, NewEvent, NewSubscription, Ports, Settings};
use holdfast_core::ports::{AttemptRequest, AttemptResponse, AttemptResult, Inbox, QueueName, Sender};
use holdfast_core::rules::shortage::Shortage;
use holdfast_core::time::Timestamp;
use holdfast_sim::{Memory, block_on, me};

/// As many as one batch has on AWS.
const BATCH: usize = 10;
const PAYLOAD_BYTES: usize = 1_000;

/// A receiver that responds at once.
struct Responds;

#[async_trait]
impl Sender for Responds {
    async fn send(&self, _request: AttemptRequest) -> Result<AttemptResult, Shortage> {
        let response = AttemptResponse::Status { status: 200, excerpt: String::new(), retry_after: None };
        Ok(AttemptResult { response, took: Duration::from_millis(1) })
    }
}

/// The arguments: `accept` or `deliver`, and how many events.
fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let what = args.next().context("say what to do: accept or deliver")?;
    let count: usize = args.next().context("say how many events")?.parse()?;
    let memory = Memory::new();
    let ports = Ports { sender: Arc::new(Responds), ..memory.ports() };
    let engine = Engine::new(ports, Settings { http_allowed: true, ..Settings::default() });
    let to = NewSubscription::to("http://receiver.test/hook", "order.created");
    block_on(engine.subscribe(&memory.tenant, to, me()))?;
    let data = format!(r#"{{"text":"{}"}}"#, "x".repeat(PAYLOAD_BYTES));
    for _ in 0..count {
        let event = NewEvent::new("order.created", &data);
        ensure!(block_on(engine.accept(&memory.tenant, vec![event]))?[0].deliveries == 1);
    }
    let mut delivered = 0;
    while what == "deliver" && delivered < count {
        let batch = block_on(memory.queue.receive(QueueName::First, BATCH))?;
        ensure!(!batch.is_empty(), "only {delivered} of {count} events are in the queue");
        let receipts: Vec<_> = batch.iter().map(|received| received.receipt.clone()).collect();
        delivered += receipts.len();
        let settled = block_on(engine.handle(batch, Timestamp::MAX));
        let settlements = receipts.into_iter().zip(settled).collect();
        for settled in block_on(memory.queue.settle(QueueName::First, settlements)) {
            settled?;
        }
    }
    Ok(())
}
