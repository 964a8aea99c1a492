//! Many failures disable a URL. It is probed, enabled again, and its parked deliveries are released.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::neighbour::Neighbour;
use crate::receiver::Reply;
use crate::scene::{Scene, Subscription};
use crate::views::{Delivery, number, time_ms};
use crate::waiting::until;

const FIRST: usize = 130;
const LATER: usize = 30;
const PROBES: usize = 4;
/// Where each probe waits for a sweep.
const PROBES_IN_SHORT: usize = 2;
const PROBE_INTERVAL: Duration = Duration::from_secs(600);
/// An attempt starts at most this long (real time) after its URL's state was read, so attempts may still start for this long after
/// the URL is disabled.
const MAX_STALENESS: Duration = Duration::from_secs(1);

pub(super) async fn run(scene: Scene<'_>) -> Result<()> {
    let mut neighbour = Neighbour::new(&scene).await?;
    neighbour.beside(&scene, disable_and_recover(&scene)).await
}

async fn disable_and_recover(scene: &Scene<'_>) -> Result<()> {
    let subscription = scene.subscribe("failing", Reply::Status(500)).await?;
    let mut ids = scene.post_many("failing", FIRST).await?;
    let url = scene.url_when(&subscription.url_id, "disabled", scene.soon()).await?;
    check_history(&url, "enabled", "disabled")?;
    let since = time_ms(&url, "since")?.context("a state without `since`")?;
    let later = scene.post_many("failing", LATER).await?;
    for id in &later {
        scene
            .delivery_when("a later delivery is parked", id, scene.soon(), |d| {
                d.is("parked") || d.attempts.len() == 1
            })
            .await?;
    }
    ids.extend(later);
    check_probes(scene, &subscription, since).await?;
    let parked = parked(scene, &subscription).await?;
    scene.receiver().switch(&subscription.path, Reply::Status(200));
    let url = scene.url_when(&subscription.url_id, "enabled", scene.within(PROBE_INTERVAL * 2)).await?;
    check_history(&url, "disabled", "enabled")?;
    ensure!(number(&url, "streak")? == 0 && number(&url, "window_failures")? == 0, "not cleared: {url}");
    let counted = number(&url, "window_attempts")?;
    ensure!(counted <= ids.len() as u64 || scene.host.faulty, "not cleared: {url}");
    let delivered = all_delivered(scene, &subscription, ids.len()).await?;
    check_order(&parked, &delivered)
}

fn check_history(url: &Value, from: &str, to: &str) -> Result<()> {
    let history = url["history"].as_array().context("a URL without a history")?;
    let found = history.iter().any(|entry| entry["from"] == from && entry["to"] == to && entry["why"] != "");
    ensure!(found, "no change from {from} to {to} in {history:?}");
    Ok(())
}

/// When attempts to the URL started, without those that had not seen that it is disabled.
async fn probe_times(scene: &Scene<'_>, subscription: &Subscription, since: i64) -> Result<Vec<i64>> {
    let settled = since + scene.host.timing.schedule_ms(MAX_STALENESS);
    let deliveries = scene.deliveries(&format!("url={}", subscription.url_id)).await?;
    let attempts = deliveries.iter().flat_map(|delivery| &delivery.attempts);
    let mut times: Vec<i64> = attempts.map(|attempt| attempt.at_ms).filter(|at| *at > settled).collect();
    times.sort_unstable();
    Ok(times)
}

/// One attempt every 10 minutes, and no more.
async fn check_probes(scene: &Scene<'_>, subscription: &Subscription, since: i64) -> Result<()> {
    let timing = &scene.host.timing;
    let probes = if timing.whole_schedule { PROBES } else { PROBES_IN_SHORT };
    // A disabled URL waits in the store for the sweep.
    let each = timing.real(PROBE_INTERVAL) + timing.sweep_late;
    let within = each * (probes as u32 + 1) + scene.soon() + MAX_STALENESS;
    let times = until("probes are made", within, async || {
        let times = probe_times(scene, subscription, since).await?;
        Ok((times.len() >= probes).then_some(times))
    })
    .await?;
    let shortest = i64::try_from(PROBE_INTERVAL.as_millis())?;
    for pair in times.windows(2) {
        let gap = pair[1] - pair[0];
        ensure!(gap >= shortest, "a probe after {gap} ms, less than 10 minutes: {times:?}");
    }
    // Where calls fail, an attempt may be made whose outcome cannot be recorded.
    if scene.host.faulty {
        return Ok(());
    }
    // Every request that reached the receiver is in the log, the last one perhaps a moment later.
    let shown = async || -> Result<usize> {
        let deliveries = scene.deliveries(&format!("url={}", subscription.url_id)).await?;
        Ok(deliveries.iter().map(|delivery| delivery.attempts.len()).sum())
    };
    let seen = scene.receiver().count(&subscription.path);
    until("all requests are in the log", scene.soon(), async || Ok((shown().await? >= seen).then_some(())))
        .await?;
    let counted = shown().await?;
    ensure!(scene.receiver().count(&subscription.path) >= counted, "more attempts are shown than arrived");
    Ok(())
}

async fn parked(scene: &Scene<'_>, subscription: &Subscription) -> Result<Vec<Delivery>> {
    let mut parked = scene.deliveries(&format!("url={}&state=parked", subscription.url_id)).await?;
    ensure!(parked.len() >= LATER / 2, "only {} deliveries are parked", parked.len());
    parked.sort_by_key(|delivery| delivery.due_at_ms);
    Ok(parked)
}

async fn all_delivered(
    scene: &Scene<'_>,
    subscription: &Subscription,
    count: usize,
) -> Result<Vec<Delivery>> {
    let query = format!("url={}&state=delivered", subscription.url_id);
    // Deliveries that were probes may wait for hours.
    let within = scene.within(Duration::from_secs(24 * 3600));
    until("all are delivered", within, async || {
        let delivered = scene.deliveries(&query).await?;
        Ok((delivered.len() == count).then_some(delivered))
    })
    .await
}

/// Oldest first, roughly: deliveries of the first quarter by due time were delivered, on average, before those of the last.
fn check_order(parked: &[Delivery], delivered: &[Delivery]) -> Result<()> {
    let mut order: Vec<(i64, &str)> =
        delivered.iter().filter_map(|d| Some((d.delivered_at_ms()?, d.id.as_str()))).collect();
    order.sort_unstable();
    let place = |delivery: &Delivery| order.iter().position(|(_, id)| *id == delivery.id);
    let mean = |part: &[Delivery]| {
        let places: Vec<usize> = part.iter().filter_map(place).collect();
        places.iter().sum::<usize>() as f64 / places.len().max(1) as f64
    };
    let quarter = parked.len() / 4;
    let (oldest, newest) = (mean(&parked[..quarter]), mean(&parked[parked.len() - quarter..]));
    ensure!(
        oldest < newest,
        "the oldest were delivered at place {oldest} on average, the newest at {newest}"
    );
    Ok(())
}
