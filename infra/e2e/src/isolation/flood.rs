//! A flood: far more events for one slow URL than it can take, also across a restart of the server in the middle.

use std::time::Duration;

use anyhow::Result;
use serde_json::json;

use super::arena::Arena;
use super::receivers;

/// Slow enough that most of the flood is still queued when the victim is done.
const WAIT: Duration = Duration::from_millis(1_000);

pub(super) async fn run(arena: &mut Arena) -> Result<()> {
    let base = receivers::slow(arena.tally.clone(), WAIT).await?;
    let events = arena.size.pick(10_000, 300_000);
    let attacker = arena.attacker.clone();
    attacker.subscribe(&json!({ "url": format!("{base}/flood"), "event_types": ["flood"] })).await?;
    arena.alone().await?;
    // The first events are queued before the victim's, the others at the same time.
    let first = attacker.post_many("flood", events / 2).await?;
    let posts = attacker.clone();
    arena.beside(async move { posts.post_many("flood", events / 4).await.map(drop) }).await?;
    let last = attacker.post_many("flood", events / 4).await?;
    let before = arena.tally.mark().started;
    arena.restart().await?;
    arena.beside(std::future::ready(Ok(()))).await?;
    let started = arena.tally.mark().started;
    arena.expect(started > before, || "no attempt of the attacker after the restart".to_owned());
    arena.expect(first >= arena.size.pick(1_000, 10_000), || format!("only {first} events were accepted"));
    arena.count(format!("{first} and {last} events accepted before and after; {started} attempts started"));
    Ok(())
}
