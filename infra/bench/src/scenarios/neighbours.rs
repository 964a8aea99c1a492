//! A healthy URL beside one that hangs and one that fails.

use anyhow::Result;

use super::latency::measure;
use super::{Bench, FRESH, fresh};
use crate::generator::Posts;
use crate::process::Holdfast;
use crate::receiver::{FAILING, GOOD, HANGING, Receiver};
use crate::report::Figure;
use crate::report::Target::AtMost;

const PER_SECOND: u32 = 60;
const BAD: &str = "bad.event";

pub(super) async fn run(bench: &Bench) -> Result<Vec<Figure>> {
    let receiver = Receiver::start().await?;
    let holdfast = Holdfast::start(&bench.holdfast, &[]).await?;
    holdfast.subscribe(&receiver.url(GOOD), FRESH).await?;
    let fresh = fresh(&holdfast, &receiver);
    let alone = measure(&fresh, &receiver, PER_SECOND, bench.load_time).await?;
    for path in [HANGING, FAILING] {
        holdfast.subscribe(&receiver.url(path), BAD).await?;
    }
    let bad = Posts { event_type: BAD, ..fresh.clone() };
    // The bad ones begin before and end after those that are measured.
    let time = bench.load_time + bench.load_time / 4;
    let beside = measure(&fresh, &receiver, PER_SECOND, bench.load_time);
    let (beside, _) = tokio::try_join!(beside, bad.pace(PER_SECOND, time))?;
    Ok(vec![
        Figure::ratio("p50, of undisturbed", beside.p50 / alone.p50).target(AtMost(1.1)),
        Figure::ratio("p99, of undisturbed", beside.p99 / alone.p99).target(AtMost(1.3)),
        Figure::new("undisturbed, p50", alone.p50, "ms"),
        Figure::new("undisturbed, p99", alone.p99, "ms"),
        Figure::new("p50", beside.p50, "ms"),
        Figure::new("p99", beside.p99, "ms"),
    ])
}
