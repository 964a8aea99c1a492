//! Functions are killed in the middle of their batches, and every accepted event still arrives.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::Cloud;
use crate::receiver::Reply;
use crate::scene::{Scene, Subscription};
use crate::views::text;
use crate::waiting::until;

const SLOW: Reply = Reply::Slow(Duration::from_millis(200));
const EVENTS: usize = 300;
/// Too few failures to disable the URL.
const RETRIED: usize = 90;
const KILLS: usize = 4;
/// Long enough for messages to become visible again after every kill.
const WITHIN: Duration = Duration::from_secs(240);

pub(super) async fn run(scene: Scene<'_>, cloud: &Cloud) -> Result<()> {
    // Where messages arrive twice, copies of the poison of an earlier scenario are left.
    let dead_before = cloud.queues.dead_letters().await?;
    let fresh = scene.subscribe("fresh", SLOW).await?;
    let retried = scene.subscribe("retried", Reply::Status(500)).await?;
    let posted = scene.post_many("fresh", EVENTS).await?;
    kill_along(&scene, cloud, "first", &fresh.path, (0, EVENTS)).await?;
    all_arrive(&scene, &fresh, &posted).await?;

    let posted = scene.post_many("retried", RETRIED).await?;
    scene.arrivals(&retried.path, RETRIED, scene.soon()).await?;
    scene.receiver().switch(&retried.path, SLOW);
    let so_far = scene.receiver().count(&retried.path);
    kill_along(&scene, cloud, "retry", &retried.path, (so_far, RETRIED)).await?;
    all_arrive(&scene, &retried, &posted).await?;

    let mut dead = cloud.queues.dead_letters().await?;
    dead.retain(|id, _| !dead_before.contains_key(id));
    ensure!(dead.is_empty(), "{} messages became dead letters: {dead:?}", dead.len());
    Ok(())
}

/// Kills all functions with this trigger several times, while requests still arrive.
async fn kill_along(
    scene: &Scene<'_>,
    cloud: &Cloud,
    trigger: &str,
    path: &str,
    (so_far, expected): (usize, usize),
) -> Result<()> {
    let mut last_kill = so_far;
    for kill in 1..=KILLS {
        // Requests have arrived since the last kill, so attempts are in flight again.
        let arrived = (so_far + kill * expected / (2 * KILLS)).max(last_kill + 1);
        scene.arrivals(path, arrived, WITHIN).await.with_context(|| format!("before kill {kill}"))?;
        // The emulator takes a moment to start new processes.
        until("there is a process to kill", WITHIN, async || {
            Ok((cloud.kill_functions(trigger)? > 0).then_some(()))
        })
        .await?;
        last_kill = scene.receiver().count(path);
    }
    Ok(())
}

/// Each event was received with success and is shown as delivered.
async fn all_arrive(scene: &Scene<'_>, subscription: &Subscription, posted: &[String]) -> Result<()> {
    let mut missing = BTreeSet::new();
    let arrived = until("everything arrives", WITHIN, async || {
        let arrivals = scene.receiver().arrivals(&subscription.path);
        missing = posted.iter().cloned().collect();
        for arrival in arrivals.iter().filter(|arrival| arrival.accepted()) {
            let body: Value = serde_json::from_slice(&arrival.body)?;
            missing.remove(text(&body, "id")?);
        }
        Ok(missing.is_empty().then_some(()))
    });
    arrived.await.with_context(|| format!("{} of {} are lost: {missing:?}", missing.len(), posted.len()))?;
    let query = format!("url={}&state=delivered", subscription.url_id);
    until("all are seen as delivered", WITHIN, async || {
        Ok((scene.deliveries(&query).await?.len() == posted.len()).then_some(()))
    })
    .await
}
