//! One event for hundreds of subscriptions.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use futures_util::{StreamExt, TryStreamExt};
use serde_json::{Value, json};

use crate::receiver::Reply;
use crate::scene::{Scene, Subscription};
use crate::waiting::until;

const SUBSCRIPTIONS: usize = 1_000;
/// Where creating and deleting them takes minutes.
const SUBSCRIPTIONS_ON_AWS: usize = 300;
/// Where calls fail and partitions are throttled: enough for a fan-out of several steps.
const SUBSCRIPTIONS_UNDER_FAULTS: usize = 150;
const CONCURRENCY: usize = 8;
/// A host resumes a fan-out after five minutes of the schedule without progress. At higher speeds this is a few real seconds or
/// less, and a step may be repeated, as after a crash.
const MAX_SPEED_WITHOUT_REPEATS: u32 = 60;

pub(super) async fn run(scene: Scene<'_>) -> Result<()> {
    let count = if scene.host.faulty {
        SUBSCRIPTIONS_UNDER_FAULTS
    } else if scene.host.timing.whole_schedule {
        SUBSCRIPTIONS
    } else {
        SUBSCRIPTIONS_ON_AWS
    };
    let created = (0..count).map(async |number| {
        scene.subscribe_with("one", &format!("{number}"), Reply::Status(200), Value::Null).await
    });
    let subscriptions: Vec<Subscription> = futures_util::stream::iter(created)
        .buffer_unordered(CONCURRENCY)
        .try_collect()
        .await
        .context("subscribing")?;
    let result = one_event(&scene, &subscriptions).await;
    // Even if it failed: hundreds of subscriptions would slow down other scenarios.
    let deleted = subscriptions.iter().map(|subscription| scene.unsubscribe(subscription));
    let deleted: Result<Vec<()>> =
        futures_util::stream::iter(deleted).buffer_unordered(CONCURRENCY).try_collect().await;
    result?;
    deleted.context("deleting")?;
    let answer = post(&scene, "after").await?;
    ensure!(answer["deliveries"] == 0, "deleted subscriptions still get events: {answer}");
    Ok(())
}

async fn post(scene: &Scene<'_>, id: &str) -> Result<Value> {
    let event = json!({ "id": scene.id(id), "type": scene.event_type("one"), "data": id });
    scene.host.post("/v1/events", event.to_string()).await?.expect(202)
}

async fn one_event(scene: &Scene<'_>, subscriptions: &[Subscription]) -> Result<()> {
    let answer = post(scene, "event").await?;
    let count = subscriptions.len();
    ensure!(answer["deliveries"] == count, "unexpected: {answer}");
    until("all arrive", scene.soon() * 2, async || {
        Ok(subscriptions.iter().all(|s| scene.receiver().count(&s.path) > 0).then_some(()))
    })
    .await?;
    let arrivals = subscriptions.iter().flat_map(|s| scene.receiver().arrivals(&s.path));
    let ids: Vec<String> = arrivals.map(|arrival| arrival.webhook_id().to_owned()).collect();
    let different: BTreeSet<&String> = ids.iter().collect();
    ensure!(different.len() == count, "{} deliveries arrived", different.len());
    let max = if scene.host.timing.speed > MAX_SPEED_WITHOUT_REPEATS { count * 2 } else { count };
    ensure!(ids.len() <= max || scene.host.faulty, "{} arrivals of {count} deliveries", ids.len());
    let query = format!("event={}&state=delivered", scene.id("event"));
    until("all are shown as delivered", scene.soon(), async || {
        Ok((scene.deliveries(&query).await?.len() == count).then_some(()))
    })
    .await
}
