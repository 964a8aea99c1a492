//! Whether it stays as fast when many delivered events are stored, and what each of them takes.

use std::sync::atomic::Ordering;

use anyhow::Result;

use super::throughput::load;
use super::{Bench, CONNECTIONS, FRESH, arrived, posts};
use crate::generator::Until;
use crate::measure::folder_bytes;
use crate::process::Holdfast;
use crate::receiver::{GOOD, Receiver};
use crate::report::Figure;
use crate::report::Target::{AtLeast, AtMost};

pub(super) async fn run(bench: &Bench) -> Result<Vec<Figure>> {
    let receiver = Receiver::start().await?;
    let holdfast = Holdfast::start(&bench.holdfast, &[]).await?;
    holdfast.subscribe(&receiver.url(GOOD), FRESH).await?;
    let single_posts = || load(bench, &holdfast.process, &holdfast.key, &receiver, 1);
    let first = single_posts().await?;
    let before = receiver.arrivals.good.load(Ordering::Relaxed);
    let batches = posts(&holdfast.process, &holdfast.key, &receiver, 10);
    let accepted = batches.flood(CONNECTIONS, Until::Events(bench.stored)).await?;
    arrived(&receiver.arrivals.good, before + accepted).await?;
    let then = single_posts().await?;
    let stored = receiver.arrivals.good.load(Ordering::Relaxed) as f64;
    Ok(vec![
        Figure::ratio("single posts beside them, of those at the start", then.per_second / first.per_second)
            .target(AtLeast(0.9)),
        Figure::new("stored events", stored, ""),
        Figure::new("disk for each of them", folder_bytes(&holdfast.data())? as f64 / stored, "bytes")
            .target(AtMost(2_000.0)),
        Figure::new("memory, peak", holdfast.process.memory()?.peak, "MB"),
    ])
}
