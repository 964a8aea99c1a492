//! One file for each scenario. Each runs once per round and returns its figures.

mod cold_start;
mod fan_out;
mod instructions;
mod latency;
mod neighbours;
mod parked;
mod stored;
mod subscriptions;
mod throughput;

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::generator::Posts;
use crate::process::{Holdfast, Process};
use crate::receiver::Receiver;
use crate::report::Figure;

/// Of all scenarios with a full load.
const CONNECTIONS: usize = 32;
const PAYLOAD_BYTES: usize = 1_000;
const FRESH: &str = "fresh.event";
/// How long a scenario waits for what should happen in seconds.
const PATIENCE: Duration = Duration::from_secs(1_800);

/// What the scenarios need to know.
pub(crate) struct Bench {
    /// The `holdfast` program.
    pub(crate) holdfast: PathBuf,
    /// The folder of the functions' programs.
    pub(crate) functions: Option<PathBuf>,
    /// How long each load lasts.
    pub(crate) load_time: Duration,
    /// How many deliveries are parked.
    pub(crate) parked: u64,
    /// How many delivered events are stored.
    pub(crate) stored: u64,
    /// How many subscriptions ten tenants have together.
    pub(crate) subscriptions: u64,
}

type Running<'a> = Pin<Box<dyn Future<Output = Result<Vec<Figure>>> + 'a>>;

pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    /// Scenarios that take minutes run once, whatever the number of rounds.
    pub(crate) is_long: bool,
    pub(crate) run: for<'a> fn(&'a Bench) -> Running<'a>,
}

pub(crate) fn all() -> Vec<Scenario> {
    vec![
        Scenario { name: "a throughput", is_long: false, run: |bench| Box::pin(throughput::run(bench)) },
        Scenario { name: "b latency", is_long: false, run: |bench| Box::pin(latency::run(bench)) },
        Scenario { name: "c neighbours", is_long: false, run: |bench| Box::pin(neighbours::run(bench)) },
        Scenario { name: "d parked", is_long: true, run: |bench| Box::pin(parked::run(bench)) },
        Scenario { name: "e fan-out", is_long: true, run: |bench| Box::pin(fan_out::run(bench)) },
        Scenario { name: "f cold start", is_long: true, run: |bench| Box::pin(cold_start::run(bench)) },
        Scenario { name: "g instructions", is_long: true, run: |bench| Box::pin(instructions::run(bench)) },
        Scenario { name: "h stored", is_long: true, run: |bench| Box::pin(stored::run(bench)) },
        Scenario { name: "i subscriptions", is_long: true, run: |bench| Box::pin(subscriptions::run(bench)) },
    ]
}

fn posts(process: &Process, key: &str, receiver: &Receiver, events: usize) -> Posts {
    Posts {
        address: process.address.clone(),
        key: key.to_owned(),
        event_type: FRESH,
        events,
        payload_bytes: PAYLOAD_BYTES,
        origin: receiver.origin,
    }
}

/// Fresh events, one in a post.
fn fresh(holdfast: &Holdfast, receiver: &Receiver) -> Posts {
    posts(&holdfast.process, &holdfast.key, receiver, 1)
}

/// Waits until so many have arrived.
async fn arrived(count: &AtomicU64, expected: u64) -> Result<()> {
    let all = async {
        let mut ticks = tokio::time::interval(Duration::from_millis(1));
        while count.load(Ordering::Relaxed) < expected {
            ticks.tick().await;
        }
    };
    let ended = tokio::time::timeout(PATIENCE, all).await;
    ensure!(ended.is_ok(), "only {} of {expected} arrived", count.load(Ordering::Relaxed));
    Ok(())
}
