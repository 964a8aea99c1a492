//! CPU by signatures: several tenants whose large events are signed with as many secrets as a subscription may have.

use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use anyhow::Result;
use futures_util::future::try_join_all;
use serde_json::json;

use super::arena::Arena;
use super::receivers;

/// The limit on the secrets of a subscription.
const SECRETS: usize = 10;
/// The limit on a post is 1,000,000 bytes.
const DATA_BYTES: usize = 900_000;

pub(super) async fn run(arena: &mut Arena) -> Result<()> {
    let base = receivers::slow(arena.tally.clone(), Duration::ZERO).await?;
    let count = arena.size.pick(3, 6);
    let tenants = arena.attackers(count).await?;
    for (number, tenant) in tenants.iter().enumerate() {
        let subscription = json!({ "url": format!("{base}/{number}"), "event_types": ["signed"] });
        let rotate = format!("/v1/subscriptions/{}/rotate-secret", tenant.subscribe(&subscription).await?.id);
        for _ in 1..SECRETS {
            tenant.post(&rotate, "").await?.expect(200)?;
        }
    }
    arena.alone().await?;
    let event = json!({ "type": "signed", "data": "x".repeat(DATA_BYTES) }).to_string();
    let accepted = AtomicUsize::new(0);
    let posters = tenants.iter().map(|tenant| tenant.post_forever(&event, &accepted));
    arena.beside(async { try_join_all(posters).await.map(drop) }).await?;
    let (accepted, started) = (accepted.into_inner(), arena.tally.mark().started);
    arena.expect(started > 0, || format!("no attempt of {accepted} accepted events was made"));
    arena.count(format!("{accepted} large events of {count} tenants accepted; {started} attempts started"));
    Ok(())
}
