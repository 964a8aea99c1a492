//! A program that freezes and enables a URL in a loop, while many subscriptions ask to hear of it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Result;
use futures_util::future::try_join_all;
use serde_json::json;
use tokio::time::Instant;

use super::arena::Arena;
use super::receivers;
use super::tenant::{Tenant, in_lanes};

/// How many requests are under way at a time.
const LANES: usize = 8;
/// Changes that are announced at once, and how long it takes until one more is.
const AT_ONCE: u64 = 10;
const INTERVAL: Duration = Duration::from_secs(6);

pub(super) async fn run(arena: &mut Arena) -> Result<()> {
    let base = receivers::slow(arena.tally.clone(), Duration::ZERO).await?;
    let attacker = arena.attacker.clone();
    let listeners: Vec<usize> = (0..arena.size.pick(20, 100)).collect();
    let count = listeners.len() as u64;
    in_lanes(4, listeners, async |number| {
        let body = json!({ "url": format!("{base}/{number}"), "event_types": ["holdfast.url.*"] });
        attacker.subscribe(&body).await.map(drop)
    })
    .await?;
    let body = json!({ "url": format!("{base}/changed"), "event_types": ["changed"] });
    let url = attacker.subscribe(&body).await?.url_id;
    arena.alone().await?;
    let (requests, started) = (AtomicUsize::new(0), Instant::now());
    let lanes = (0..LANES).map(|_| change_forever(&attacker, &url, &requests));
    arena.beside(async { try_join_all(lanes).await.map(drop) }).await?;
    let requests = requests.into_inner();
    let announced = arena.tally.mark().started / count;
    let most = AT_ONCE + 1 + started.elapsed().as_secs() / INTERVAL.as_secs();
    arena.expect(requests > 50, || format!("the attacker made only {requests} requests"));
    arena.expect(announced > 0 && announced <= most, || {
        format!("{announced} changes by {requests} requests were announced; expected 1 to {most}")
    });
    arena.count(format!("{requests} requests, {announced} changes announced to {count} subscriptions"));
    Ok(())
}

/// Until the caller drops it. Any answer is fine: most are refused, because a URL is changed by hand only so often.
async fn change_forever(attacker: &Tenant, url: &str, requests: &AtomicUsize) -> Result<()> {
    loop {
        for action in ["freeze", "enable"] {
            attacker.post(&format!("/v1/urls/{url}/{action}"), "{}").await?;
            requests.fetch_add(1, Ordering::Relaxed);
        }
    }
}
