//! The end of all trouble: receivers accept everything, URLs are enabled, and everything comes to rest.

use std::time::Duration;

use anyhow::Result;

use super::cast::{KEPT_FROZEN, TENANTS};
use super::world::World;
use crate::scene::Scene;
use crate::views::{number, text};
use crate::waiting::{SOON, until};

/// The longest wait of the schedule, from retry 10 to retry 11.
const MAX_GAP: Duration = Duration::from_secs(25 * 3_600);
/// For everything that takes real time: leases, the work itself on a busy machine.
const REAL: Duration = Duration::from_secs(60);

/// Waits until nothing waits any more, and nothing is parked but at the URL that stays frozen.
pub(super) async fn settle(world: &World) -> Result<()> {
    world.receivers.calm_down();
    enable_all(world).await?;
    let mut left = Vec::new();
    let within = MAX_GAP / world.plan.speed + REAL;
    let rest = until("everything comes to rest", within, async || {
        // A busy server may refuse to answer for a moment.
        left = what_is_left(world).await.unwrap_or_else(|error| vec![format!("an error: {error:#}")]);
        Ok(left.is_empty().then_some(()))
    });
    if rest.await.is_err() {
        world.fault(format!("{within:?} after the end of all trouble there is still: {}", left.join(", ")));
    }
    // Also of the time since the last look.
    world.read_counters().await;
    Ok(())
}

async fn enable_all(world: &World) -> Result<()> {
    for tenant in 0..TENANTS {
        let host = world.host(tenant);
        for url in Scene::new(&host, "soak").list("/v1/urls", "", 100).await? {
            let id = text(&url, "id")?;
            if id != world.subscribed[KEPT_FROZEN].url_id {
                // The disk may have been full until a moment ago.
                until("a URL is enabled", SOON, async || {
                    let answer = host.post(&format!("/v1/urls/{id}/enable"), "").await?;
                    Ok((answer.status == 200).then_some(()))
                })
                .await?;
            }
        }
    }
    Ok(())
}

/// In words, with numbers.
async fn what_is_left(world: &World) -> Result<Vec<String>> {
    let mut left = Vec::new();
    let mut add = |what: String, count: u64| {
        if count > 0 {
            left.push(format!("{count} {what}"));
        }
    };
    let metrics = world.metrics().await?;
    for queue in ["first", "retry"] {
        let series = format!("holdfast_messages{{queue=\"{queue}\"}}");
        add(format!("messages in the {queue} queue"), metrics.get(&series).copied().unwrap_or(1));
    }
    let frozen = format!("/v1/urls/{}", world.subscribed[KEPT_FROZEN].url_id);
    for tenant in 0..TENANTS {
        let host = world.host(tenant);
        let overview = host.get("/v1/overview").await?.expect(200)?;
        add(format!("deliveries of tenant {tenant} waiting"), number(&overview["waiting"], "count")?);
        let mut parked = number(&overview["parked"], "count")?;
        if tenant == world.cast[KEPT_FROZEN].tenant {
            parked = parked.abs_diff(number(&host.get(&frozen).await?.expect(200)?, "parked")?);
        }
        add(format!("deliveries of tenant {tenant} parked at URLs that are enabled"), parked);
    }
    for (tenant, id) in world.replays() {
        let replay = world.host(tenant).get(&format!("/v1/replays/{id}")).await?.expect(200)?;
        add(format!("replay {id} running"), u64::from(replay["state"] != "done"));
    }
    Ok(left)
}
