//! From the post to the arrival, with little load.

use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::Result;

use super::{Bench, FRESH, arrived, fresh, posts};
use crate::generator::Posts;
use crate::measure::{percentile, sync_ms};
use crate::process::{Holdfast, Process};
use crate::receiver::{GOOD, Receiver};
use crate::report::Figure;
use crate::report::Target::AtMost;

const PER_SECOND: u32 = 50;

/// In milliseconds.
pub(super) struct Latency {
    pub(super) p50: f64,
    pub(super) p99: f64,
}

pub(super) async fn run(bench: &Bench) -> Result<Vec<Figure>> {
    let receiver = Receiver::start().await?;
    let relay = {
        let process = Process::relay(&receiver.url(GOOD))?;
        measure(&posts(&process, "", &receiver, 1), &receiver, PER_SECOND, bench.load_time).await?
    };
    let holdfast = Holdfast::start(&bench.holdfast, &[]).await?;
    holdfast.subscribe(&receiver.url(GOOD), FRESH).await?;
    let own = measure(&fresh(&holdfast, &receiver), &receiver, PER_SECOND, bench.load_time).await?;
    let sync = sync_ms(&holdfast.data())?;
    let allowed = relay.p50 + 2.0 * sync;
    Ok(vec![
        Figure::ratio("p50, of the relay's and two fdatasyncs", own.p50 / allowed).target(AtMost(1.0)),
        Figure::new("p50", own.p50, "ms"),
        Figure::new("p99", own.p99, "ms"),
        Figure::new("relay, p50", relay.p50, "ms"),
        Figure::new("relay, p99", relay.p99, "ms"),
        Figure::new("fdatasync of 4 KiB", sync, "ms"),
    ])
}

/// From post to arrival at the good receiver, of so many posts a second.
pub(super) async fn measure(
    posts: &Posts,
    receiver: &Receiver,
    per_second: u32,
    time: Duration,
) -> Result<Latency> {
    let good = &receiver.arrivals.good;
    let before = good.load(Ordering::Relaxed);
    let warm = posts.pace(per_second, time / 5).await?;
    arrived(good, before + warm).await?;
    receiver.arrivals.sample();
    let accepted = posts.pace(per_second, time).await?;
    arrived(good, before + warm + accepted).await?;
    let mut samples = receiver.arrivals.samples_so_far();
    Ok(Latency { p50: percentile(&mut samples, 0.5), p99: percentile(&mut samples, 0.99) })
}
