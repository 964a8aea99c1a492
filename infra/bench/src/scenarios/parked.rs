//! Fresh events while a flood for a disabled URL is posted and parked, and while it is released.

use std::time::Duration;

use anyhow::{Context, Result};

use super::latency::{Latency, measure};
use super::{Bench, CONNECTIONS, FRESH, PATIENCE, arrived, fresh};
use crate::generator::{Posts, Until};
use crate::measure::{folder_bytes, now, percentile};
use crate::process::Holdfast;
use crate::receiver::{BROKEN, GOOD, OTHER, Receiver};
use crate::report::Figure;
use crate::report::Target::{AtLeast, AtMost};

const PER_SECOND: u32 = 50;
const PARKED: &str = "parked.event";
const PAYLOAD_BYTES: usize = 256;

pub(super) async fn run(bench: &Bench) -> Result<Vec<Figure>> {
    let receiver = Receiver::start().await?;
    let enabled = flood_of_an_enabled_url(bench, &receiver).await?;
    let mut holdfast = Holdfast::start(&bench.holdfast, &[]).await?;
    holdfast.subscribe(&receiver.url(GOOD), FRESH).await?;
    let url = holdfast.subscribe(&receiver.url(BROKEN), PARKED).await?;
    let alone = measure(&fresh(&holdfast, &receiver), &receiver, PER_SECOND, bench.load_time).await?;
    holdfast.call("POST", &format!("/v1/urls/{url}/disable"), None).await?;

    let started = now();
    let flood = async {
        flood(&holdfast, &receiver).flood(CONNECTIONS, Until::Events(bench.parked)).await?;
        all_parked(&holdfast).await
    };
    let while_parking = beside(flood, &holdfast, &receiver).await?;
    let parked_per_second = bench.parked as f64 / started.elapsed().as_secs_f64();
    let memory = holdfast.process.memory()?;
    let disk = folder_bytes(&holdfast.data())? as f64 / bench.parked as f64;

    let restarted = holdfast.restart()?;
    let memory_after = holdfast.process.memory()?;
    receiver.arrivals.repair();
    let started = now();
    let drain = async {
        holdfast.call("POST", &format!("/v1/urls/{url}/enable"), None).await?;
        arrived(&receiver.arrivals.repaired, bench.parked).await
    };
    let while_releasing = beside(drain, &holdfast, &receiver).await?;
    let drained = started.elapsed();
    Ok(vec![
        Figure::ratio("fresh events while parking, p50 of undisturbed", while_parking.p50 / alone.p50),
        Figure::ratio("fresh events while parking, p99 of undisturbed", while_parking.p99 / alone.p99)
            .target(AtMost(1.5)),
        Figure::ratio("posted and parked, of an enabled URL's rate", parked_per_second / enabled)
            .target(AtLeast(0.8)),
        Figure::ratio("fresh events while releasing, p50 of undisturbed", while_releasing.p50 / alone.p50)
            .target(AtMost(1.1)),
        Figure::ratio("fresh events while releasing, p99 of undisturbed", while_releasing.p99 / alone.p99)
            .target(AtMost(1.3)),
        Figure::new("parked deliveries", bench.parked as f64, ""),
        Figure::new("posted and parked", parked_per_second, "/s"),
        Figure::new("memory, peak", memory.peak, "MB").target(AtMost(150.0)),
        Figure::new("disk for each of them", disk, "bytes").target(AtMost(1_200.0)),
        Figure::new("start with them", restarted.as_secs_f64(), "s").target(AtMost(0.1)),
        Figure::new("memory after the start", memory_after.now, "MB"),
        Figure::new("released", drained.as_secs_f64(), "s").target(AtMost(900.0)),
    ])
}

fn flood(holdfast: &Holdfast, receiver: &Receiver) -> Posts {
    Posts { event_type: PARKED, events: 10, payload_bytes: PAYLOAD_BYTES, ..fresh(holdfast, receiver) }
}

/// The same flood where nothing is parked, in events a second.
async fn flood_of_an_enabled_url(bench: &Bench, receiver: &Receiver) -> Result<f64> {
    let holdfast = Holdfast::start(&bench.holdfast, &[]).await?;
    holdfast.subscribe(&receiver.url(OTHER), PARKED).await?;
    let started = now();
    let posts = flood(&holdfast, receiver);
    let accepted = posts.flood(CONNECTIONS, Until::After(2 * bench.load_time)).await?;
    arrived(&receiver.arrivals.other, accepted).await?;
    Ok(accepted as f64 / started.elapsed().as_secs_f64())
}

/// The latencies of fresh events until `work` has ended.
async fn beside(
    work: impl Future<Output = Result<()>>,
    holdfast: &Holdfast,
    receiver: &Receiver,
) -> Result<Latency> {
    receiver.arrivals.sample();
    let fresh = fresh(holdfast, receiver);
    tokio::select! {
        ended = work => ended?,
        posted = fresh.pace(PER_SECOND, PATIENCE) => {
            posted?;
        }
    }
    let mut samples = receiver.arrivals.samples_so_far();
    Ok(Latency { p50: percentile(&mut samples, 0.5), p99: percentile(&mut samples, 0.99) })
}

/// Waits until no first attempt is in the queue.
async fn all_parked(holdfast: &Holdfast) -> Result<()> {
    let mut ticks = tokio::time::interval(Duration::from_millis(50));
    let parked = async {
        loop {
            ticks.tick().await;
            // Those of the fresh events may just be on their way.
            if holdfast.first_attempts().await? <= u64::from(PER_SECOND) {
                return anyhow::Ok(());
            }
        }
    };
    tokio::time::timeout(PATIENCE, parked).await.context("not all were parked in time")?
}
