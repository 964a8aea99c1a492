//! Slots: many URLs of one tenant whose receivers answer shortly before the attempt would time out.

use std::time::Duration;

use anyhow::Result;
use serde_json::json;

use super::arena::Arena;
use super::receivers;
use super::tenant::in_lanes;

/// Shortly before the timeout of an attempt, 5 s.
const WAIT: Duration = Duration::from_millis(4_500);
/// Each goes to all URLs.
const EVENTS: usize = 10;

pub(super) async fn run(arena: &mut Arena) -> Result<()> {
    let base = receivers::slow(arena.tally.clone(), WAIT).await?;
    let urls = arena.size.pick(400, 2_000);
    let attacker = arena.attacker.clone();
    in_lanes(4, (0..urls).collect(), async |url| {
        let body = json!({ "url": format!("{base}/{url}"), "event_types": ["slow"] });
        attacker.subscribe(&body).await.map(drop)
    })
    .await?;
    arena.alone().await?;
    for _ in 0..EVENTS {
        attacker.post_event(&json!({ "type": "slow", "data": {} })).await?;
    }
    // An attacker alone has a little less than half of the slots.
    arena.started(arena.server.settings().slots as u64 / 3).await?;
    arena.beside(std::future::ready(Ok(()))).await?;
    arena.count(format!("{} of {} attempts started", arena.tally.mark().started, urls * EVENTS));
    Ok(())
}
