//! A disabled URL gets one probe in ten minutes, no matter how many tickets ask for one and how many functions read them at once.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use holdfast_aws::queue::to_text;
use holdfast_core::records::Message;

use super::Cloud;
use crate::receiver::Reply;
use crate::scene::{Scene, Subscription};
use crate::views::time_ms;
use crate::waiting::until;

const EVENTS: usize = 40;
const PROBES: usize = 4;
const PROBE_INTERVAL: Duration = Duration::from_secs(600);
/// How many tickets are kept in the queue: not many more, because the next scenario uses the queue too.
const TICKETS: usize = 100;

pub(super) async fn run(scene: Scene<'_>, cloud: &Cloud) -> Result<()> {
    let subscription = scene.subscribe("one", Reply::Status(500)).await?;
    scene.change_url_state(&subscription.url_id, "disable", "to be probed").await?;
    scene.post_many("one", EVENTS).await?;
    until("all are parked", scene.soon(), async || {
        Ok((scene.url(&subscription.url_id).await?["parked"] == EVENTS).then_some(()))
    })
    .await?;
    let flooded = flood(&scene, cloud, &subscription).await;
    let checked = match flooded {
        Ok(()) => check(&scene, &subscription).await,
        Err(error) => Err(error),
    };
    // Tickets that are left end at once at a frozen URL. At a disabled one, each of them looks for a delivery in vain.
    scene.change_url_state(&subscription.url_id, "freeze", "no more probes").await?;
    scene.unsubscribe(&subscription).await?;
    checked
}

/// Sends probe tickets until there were enough probes.
async fn flood(scene: &Scene<'_>, cloud: &Cloud, subscription: &Subscription) -> Result<()> {
    let ticket = Message::Probe {
        tenant: scene.host.tenant.as_str().into(),
        url_id: subscription.url_id.as_str().into(),
    };
    let (ticket, retry) = (to_text(ticket.encode()), &cloud.queues.urls.retry);
    let within = scene.host.timing.real(PROBE_INTERVAL) * PROBES as u32 + scene.soon();
    until("there are probes", within, async || {
        while cloud.queues.count(retry).await? < TICKETS {
            cloud.queues.send_copies(retry, &ticket).await?;
        }
        Ok((scene.receiver().count(&subscription.path) >= PROBES).then_some(()))
    })
    .await
}

async fn check(scene: &Scene<'_>, subscription: &Subscription) -> Result<()> {
    let query = format!("url={}", subscription.url_id);
    let times = until("all requests are in the log", scene.soon(), async || {
        let deliveries = scene.deliveries(&query).await?;
        let mut times: Vec<i64> = deliveries.iter().flat_map(|d| &d.attempts).map(|a| a.at_ms).collect();
        times.sort_unstable();
        Ok((times.len() >= scene.receiver().count(&subscription.path)).then_some(times))
    })
    .await?;
    let shortest = i64::try_from(PROBE_INTERVAL.as_millis())?;
    // Not by counting requests before the flood: parking may take longer than it takes until the first probe.
    let url = scene.url(&subscription.url_id).await?;
    let disabled_at = time_ms(&url, "since")?.context("no time")?;
    let first = times.first().context("no probe")?;
    ensure!(
        first - disabled_at >= shortest,
        "a disabled URL was attempted at {first}; it is since {disabled_at}"
    );
    for pair in times.windows(2) {
        let gap = pair[1] - pair[0];
        ensure!(gap >= shortest, "a probe after {gap} ms, less than 10 minutes: {times:?}");
    }
    Ok(())
}
