//! Turns: dozens of tenants that want everything at the same time. Each posts batches of events, and each event goes to many URLs.

use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use anyhow::Result;
use futures_util::future::try_join_all;
use serde_json::{Value, json};

use super::arena::Arena;
use super::receivers;
use super::tenant::in_lanes;

/// A batch has as many events as a post may have.
const EVENTS: usize = 100;
const ANSWER_AFTER: Duration = Duration::ZERO;

pub(super) async fn run(arena: &mut Arena) -> Result<()> {
    let base = receivers::slow(arena.tally.clone(), ANSWER_AFTER).await?;
    let (count, urls) = arena.size.pick((12, 5), (40, 100));
    let tenants = arena.attackers(count).await?;
    in_lanes(4, tenants.iter().enumerate().collect(), async |(number, tenant)| {
        for url in 0..urls {
            let url = format!("{base}/{number}/{url}");
            tenant.subscribe(&json!({ "url": url, "event_types": ["many"] })).await?;
        }
        Ok(())
    })
    .await?;
    arena.alone().await?;
    let event = json!({ "type": "many", "data": { "text": "x".repeat(100) } });
    let batch = Value::from(vec![event; EVENTS]).to_string();
    let accepted = AtomicUsize::new(0);
    let posters = tenants.iter().map(|tenant| tenant.post_forever(&batch, &accepted));
    arena.beside(async { try_join_all(posters).await.map(drop) }).await?;
    let (accepted, started) = (accepted.into_inner(), arena.tally.mark().started);
    arena.expect(accepted >= count, || format!("only {accepted} batches of {count} tenants were accepted"));
    arena.count(format!("{accepted} batches of {count} tenants accepted; {started} attempts started"));
    Ok(())
}
