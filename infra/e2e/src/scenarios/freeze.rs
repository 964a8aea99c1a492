//! A frozen URL is not attempted until it is enabled.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::receiver::Reply;
use crate::scene::Scene;
use crate::waiting::until;

const EVENTS: usize = 5;
/// How often the witness fails before the frozen URL is checked: 44 minutes of the schedule.
const WITNESS_ATTEMPTS: usize = 6;

pub(super) async fn run(scene: Scene<'_>) -> Result<()> {
    let frozen = scene.subscribe("frozen", Reply::Status(200)).await?;
    scene.subscribe("witness", Reply::Status(500)).await?;
    let url = scene.change_url_state(&frozen.url_id, "freeze", "maintenance at the receiver").await?;
    ensure!(url["state"] == "frozen" && url["reason"] == "maintenance at the receiver", "unexpected: {url}");
    scene.change_url_state(&frozen.url_id, "freeze", "again").await?;
    let refused = scene.host.post(&format!("/v1/urls/{}/disable", frozen.url_id), "").await?;
    ensure!(refused.status == 409, "disabling a frozen URL: {refused:?}");

    let ids = scene.post_many("frozen", EVENTS).await?;
    let witness = scene.post("witness").await?;
    for id in &ids {
        scene
            .delivery_when("the delivery is parked", id, scene.soon(), |d| {
                d.is("parked") && d.attempts.is_empty()
            })
            .await?;
    }
    let stretch = scene.within(Duration::from_secs(3600));
    scene
        .delivery_when("the witness fails", &witness, stretch, |d| d.attempts.len() >= WITNESS_ATTEMPTS)
        .await?;
    ensure!(scene.receiver().count(&frozen.path) == 0, "a frozen URL was attempted");
    let url = scene.url(&frozen.url_id).await?;
    ensure!(url["parked"] == EVENTS && url["state"] == "frozen", "unexpected: {url}");

    let enabled = scene.change_url_state(&frozen.url_id, "enable", "the receiver is back").await?;
    // Where it is repeated, the first try has released them.
    ensure!(enabled["released"] == EVENTS || scene.host.faulty, "unexpected: {enabled}");
    ensure!(enabled["expired"] == 0, "unexpected: {enabled}");
    let again = scene.change_url_state(&frozen.url_id, "enable", "to be sure").await?;
    ensure!(again["state"] == "enabled", "unexpected: {again}");
    until("all are delivered", scene.soon(), async || {
        let query = format!("url={}&state=delivered", frozen.url_id);
        Ok((scene.deliveries(&query).await?.len() == EVENTS).then_some(()))
    })
    .await?;
    check_history(&scene.url(&frozen.url_id).await?)
}

fn check_history(url: &Value) -> Result<()> {
    let history = url["history"].as_array().context("a URL without a history")?;
    for (from, to, why) in
        [("enabled", "frozen", "maintenance at the receiver"), ("frozen", "enabled", "the receiver is back")]
    {
        let found = history.iter().any(|e| e["from"] == from && e["to"] == to && e["why"] == json!(why));
        ensure!(found, "no change to {to} because of {why:?} in {history:?}");
    }
    Ok(())
}
