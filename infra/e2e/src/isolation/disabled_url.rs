//! Many events for a URL that is disabled: each is parked, and none is attempted.

use std::time::Duration;

use anyhow::Result;
use serde_json::json;

use super::arena::Arena;
use super::receivers;

pub(super) async fn run(arena: &mut Arena) -> Result<()> {
    let base = receivers::slow(arena.tally.clone(), Duration::ZERO).await?;
    let events = arena.size.pick(10_000, 100_000);
    let attacker = arena.attacker.clone();
    let body = json!({ "url": format!("{base}/disabled"), "event_types": ["parked"] });
    let url = attacker.subscribe(&body).await?.url_id;
    attacker.post(&format!("/v1/urls/{url}/disable"), "{}").await?.expect(200)?;
    arena.alone().await?;
    let before = attacker.post_many("parked", events / 2).await?;
    let posts = attacker.clone();
    arena.beside(async move { posts.post_many("parked", events / 2).await.map(drop) }).await?;
    let url = attacker.get(&format!("/v1/urls/{url}")).await?;
    let started = arena.tally.mark().started;
    arena.expect(url["state"] == "disabled" && started == 0, || {
        format!("the disabled URL got {started} attempts: {url}")
    });
    arena.count(format!("{before} events accepted before, parked: {}", url["parked"]));
    Ok(())
}
