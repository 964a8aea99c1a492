//! One event for many subscriptions, and many subscriptions whose filters refuse it.

use std::sync::atomic::Ordering;

use anyhow::Result;
use serde_json::{Value, json};

use super::{Bench, FRESH, arrived, fresh};
use crate::generator::{Posts, Until};
use crate::measure::{median, now};
use crate::process::Holdfast;
use crate::receiver::{GOOD, Receiver};
use crate::report::Figure;
use crate::report::Target::AtMost;

const FILTERED: u64 = 10_000;
const POSTS: u64 = 50;

pub(super) async fn run(bench: &Bench) -> Result<Vec<Figure>> {
    let receiver = Receiver::start().await?;
    let mut figures = Vec::new();
    for (count, most) in [(1_000, None), (5_000, Some(0.5))] {
        let holdfast = Holdfast::start(&bench.holdfast, &[]).await?;
        let url = |n| receiver.url(&format!("{GOOD}/{n}"));
        holdfast
            .subscribe_all(&holdfast.key, count, |n| json!({ "url": url(n), "event_types": [FRESH] }))
            .await?;
        // The first post reads the subscriptions.
        let mut seconds = 0.0;
        for _ in 0..2 {
            let before = receiver.arrivals.good.load(Ordering::Relaxed);
            let started = now();
            fresh(&holdfast, &receiver).flood(1, Until::Events(1)).await?;
            arrived(&receiver.arrivals.good, before + count).await?;
            seconds = started.elapsed().as_secs_f64();
        }
        let figure = Figure::new(format!("one event to {count} subscriptions"), seconds, "s");
        figures.push(match most {
            Some(most) => figure.target(AtMost(most)),
            None => figure,
        });
    }
    let filters = [
        ("eq", json!({ "field": "data.text", "op": "eq", "value": "other" })),
        ("contains", json!({ "field": "data.text", "op": "contains", "value": "other" })),
        ("gt", json!({ "field": "data.at", "op": "gt", "value": 1e30 })),
        ("changed", json!({ "field": "status", "op": "changed" })),
    ];
    for (name, filter) in filters {
        let per_subscription = matching(bench, &receiver, &filter).await?;
        let name = format!("matching with `{name}`, for each of {FILTERED} subscriptions");
        figures.push(Figure::new(name, per_subscription, "µs").target(AtMost(2.0)));
    }
    Ok(figures)
}

/// How much longer a post takes with so many subscriptions that do not want it, for each of them, in microseconds.
async fn matching(bench: &Bench, receiver: &Receiver, filter: &Value) -> Result<f64> {
    let holdfast = Holdfast::start(&bench.holdfast, &[]).await?;
    let posts = fresh(&holdfast, receiver);
    let without = post_seconds(&posts).await?;
    let subscription = |n| {
        let url = receiver.url(&format!("{GOOD}/{n}"));
        json!({ "url": url, "event_types": [FRESH], "filters": [filter] })
    };
    holdfast.subscribe_all(&holdfast.key, FILTERED, subscription).await?;
    let with = post_seconds(&posts).await?;
    Ok((with - without) * 1e6 / FILTERED as f64)
}

async fn post_seconds(posts: &Posts) -> Result<f64> {
    let mut times = Vec::new();
    for _ in 0..POSTS {
        let started = now();
        posts.flood(1, Until::Events(1)).await?;
        times.push(started.elapsed().as_secs_f64());
    }
    Ok(median(&times))
}
