//! Replays one delivered delivery, then all deliveries of a URL.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::receiver::{Arrival, Reply};
use crate::scene::{Scene, Subscription};
use crate::views::{number, text};
use crate::waiting::until;

const EVENTS: usize = 24;
/// Steps of 1, 2, 4, 8 and 16 deliveries, five seconds of the schedule apart.
const ALL_STEPS: Duration = Duration::from_secs(30);

pub(super) async fn run(scene: Scene<'_>) -> Result<()> {
    let subscription = scene.subscribe("again", Reply::Status(200)).await?;
    scene.post_many("again", EVENTS).await?;
    scene.arrivals_of(&subscription.path, EVENTS, scene.soon()).await?;
    let delivered = all_listed(&scene, &subscription).await?;

    replay_one(&scene, &delivered).await?;
    until("it arrives once more", scene.soon(), async || {
        let arrivals = scene.receiver().arrivals(&subscription.path);
        Ok((count(&arrivals, &delivered) >= 2).then_some(()))
    })
    .await?;
    let ended = format!("state=delivered&url={}", subscription.url_id);
    until("the replayed delivery is delivered", scene.soon(), async || {
        Ok((scene.deliveries(&ended).await?.len() == EVENTS).then_some(()))
    })
    .await?;

    replay_all(&scene, &subscription).await?;
    let expected = |id: &str| if id == delivered { 3 } else { 2 };
    let twice = until("all arrive once more", scene.soon(), async || {
        let arrivals = scene.receiver().arrivals(&subscription.path);
        let all = arrivals.iter().all(|arrival| {
            let id = arrival.webhook_id();
            count(&arrivals, id) >= expected(id)
        });
        Ok(all.then_some(arrivals))
    })
    .await?;
    let mut arrivals: BTreeMap<&str, Vec<&Arrival>> = BTreeMap::new();
    for arrival in &twice {
        arrivals.entry(arrival.webhook_id()).or_default().push(arrival);
    }
    ensure!(arrivals.len() == EVENTS, "{} deliveries arrived", arrivals.len());
    for (id, arrivals) in arrivals {
        ensure!(scene.is_count(arrivals.len(), expected(id)), "{id} arrived {} times", arrivals.len());
        ensure!(arrivals.iter().all(|a| a.body == arrivals[0].body), "{id} arrived with another body");
    }
    refusals(&scene, &subscription).await
}

fn count(arrivals: &[Arrival], id: &str) -> usize {
    arrivals.iter().filter(|arrival| arrival.webhook_id() == id).count()
}

/// Waits until all deliveries are listed as delivered. Returns the id of one.
async fn all_listed(scene: &Scene<'_>, subscription: &Subscription) -> Result<String> {
    let query = format!("state=delivered&url={}", subscription.url_id);
    until("all deliveries are listed", scene.soon(), async || {
        let found = scene.deliveries(&query).await?;
        Ok((found.len() == EVENTS).then(|| found[0].id.clone()))
    })
    .await
}

async fn view(scene: &Scene<'_>, id: &str) -> Result<Value> {
    scene.host.get(&format!("/v1/replays/{id}")).await?.expect(200)
}

async fn replay_one(scene: &Scene<'_>, delivery: &str) -> Result<()> {
    let answer = scene.host.post(&format!("/v1/deliveries/{delivery}/replay"), "").await?;
    if answer.repeated {
        // An earlier try has started the replay.
        return Ok(());
    }
    let started = answer.expect(202)?;
    let shown = view(scene, text(&started, "id")?).await?;
    let is_done = shown["state"] == "done" && shown["delivery_id"] == delivery && shown["done"] == 1;
    ensure!(started["matched"] == 1 && is_done, "unexpected: {started} {shown}");
    Ok(())
}

async fn replay_all(scene: &Scene<'_>, subscription: &Subscription) -> Result<()> {
    let path = format!("/v1/urls/{}/replay", subscription.url_id);
    let none = scene.host.post(&path, "").await?.expect(202)?;
    ensure!(none["matched"] == 0, "nothing is dead here: {none}");
    // A URL has one replay at a time.
    let id = text(&none, "id")?;
    let ended = async || Ok((view(scene, id).await?["state"] == "done").then_some(()));
    until("the replay of nothing is done", scene.within(ALL_STEPS), ended).await?;
    let body = json!({ "states": ["delivered"] }).to_string();
    let started = scene.host.post(&path, body).await?.expect(202)?;
    ensure!(started["matched"] == EVENTS, "unexpected: {started}");
    let id = text(&started, "id")?;
    let mut done = 0;
    let ended = until("the replay is done", scene.within(ALL_STEPS), async || {
        let shown = view(scene, id).await?;
        let now_done = number(&shown, "done")?;
        ensure!(now_done >= done, "`done` went back from {done}: {shown}");
        done = now_done;
        Ok((shown["state"] == "done").then_some(shown))
    })
    .await?;
    let counts = [number(&ended, "matched")?, number(&ended, "done")?, number(&ended, "skipped")?];
    let all = EVENTS as u64;
    // A step that is repeated skips what it has replayed before.
    let is_complete = counts == [all, all, 0] || (scene.host.faulty && counts[1] + counts[2] >= all);
    ensure!(is_complete, "unexpected: {ended}");
    Ok(())
}

async fn refusals(scene: &Scene<'_>, subscription: &Subscription) -> Result<()> {
    let path = format!("/v1/urls/{}/replay", subscription.url_id);
    let refused = scene.host.post(&path, r#"{"states":["waiting"],"since":"soon"}"#).await?;
    let named = ["states", "since"].iter().all(|field| refused.text.contains(field));
    ensure!(refused.status == 400 && named, "unexpected: {refused:?}");
    for unknown in ["/v1/replays/job_unknown", "/v1/replays/x"] {
        let answer = scene.host.get(unknown).await?;
        ensure!(answer.status == 404, "{unknown}: {answer:?}");
    }
    Ok(())
}
