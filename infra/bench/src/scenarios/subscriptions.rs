//! Many subscriptions of several tenants: what they take, and the first post of each tenant after a start, which reads its subscriptions: one by
//! one if they were made since the start before, else from what that start has left together.

use anyhow::Result;
use serde_json::json;

use super::{Bench, FRESH, fresh};
use crate::generator::{Posts, Until};
use crate::measure::{median, now};
use crate::process::Holdfast;
use crate::receiver::{GOOD, Receiver};
use crate::report::Figure;
use crate::report::Target::AtMost;

const TENANTS: u64 = 10;

pub(super) async fn run(bench: &Bench) -> Result<Vec<Figure>> {
    let receiver = Receiver::start().await?;
    let mut holdfast = Holdfast::start(&bench.holdfast, &[]).await?;
    let mut keys = Vec::new();
    for tenant in 0..TENANTS {
        let key = holdfast.new_key(&format!("tenant-{tenant}")).await?;
        let subscription = |n| {
            let event_type = if n == 0 { FRESH.to_owned() } else { format!("other.event-{n}") };
            json!({ "url": receiver.url(&format!("{GOOD}/{n}")), "event_types": [event_type] })
        };
        holdfast.subscribe_all(&key, bench.subscriptions / TENANTS, subscription).await?;
        keys.push(key);
    }
    let restarted = holdfast.restart()?;
    let after_making_them = first_posts(&holdfast, &receiver, &keys).await?;
    let memory = holdfast.process.memory()?.now;
    holdfast.restart()?;
    let first_posts = first_posts(&holdfast, &receiver, &keys).await?;
    Ok(vec![
        Figure::new("subscriptions", bench.subscriptions as f64, ""),
        Figure::new("start with them", restarted.as_secs_f64(), "s").target(AtMost(0.2)),
        Figure::new("first post of a tenant", first_posts, "ms").target(AtMost(30.0)),
        Figure::new("first post of a tenant that has just made them", after_making_them, "ms"),
        Figure::new("memory when all are in use", memory, "MB").target(AtMost(150.0)),
    ])
}

/// How long the first post of a tenant takes, in milliseconds.
async fn first_posts(holdfast: &Holdfast, receiver: &Receiver, keys: &[String]) -> Result<f64> {
    let mut took = Vec::new();
    for key in keys {
        let post = Posts { key: key.clone(), ..fresh(holdfast, receiver) };
        let started = now();
        post.flood(1, Until::Events(1)).await?;
        took.push(started.elapsed().as_secs_f64() * 1_000.0);
    }
    Ok(median(&took))
}
