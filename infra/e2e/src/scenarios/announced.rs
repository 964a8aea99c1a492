//! Changes of a URL's state are announced to subscriptions of `holdfast.url.*`.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::receiver::Reply;
use crate::scene::Scene;
use crate::waiting::until;

pub(super) async fn run(scene: Scene<'_>) -> Result<()> {
    let watched = scene.subscribe("watched", Reply::Status(200)).await?;
    let own_events = json!({ "event_types": ["holdfast.url.*"] });
    let watcher = scene.subscribe_with("watcher", "watcher", Reply::Status(200), own_events).await?;
    scene.change_url_state(&watched.url_id, "freeze", "first reason").await?;
    scene.change_url_state(&watched.url_id, "enable", "second reason").await?;
    let announced = until("both changes are announced", scene.soon(), async || {
        // Other scenarios change their URLs at the same time.
        let arrivals = scene.receiver().arrivals(&watcher.path);
        let events: Vec<Value> =
            arrivals.iter().filter_map(|arrival| serde_json::from_slice(&arrival.body).ok()).collect();
        let ours: Vec<Value> =
            events.into_iter().filter(|event| event["data"]["url_id"] == watched.url_id.as_str()).collect();
        Ok((ours.len() >= 2).then_some(ours))
    })
    .await?;
    for (to, why) in [("frozen", "first reason"), ("enabled", "second reason")] {
        let event = announced.iter().find(|event| event["data"]["to"] == to);
        let event = event.with_context(|| format!("{to} was not announced: {announced:?}"))?;
        ensure!(event["type"] == format!("holdfast.url.{to}"), "unexpected: {event}");
        ensure!(event["data"]["why"] == why && event["data"]["url"].is_string(), "unexpected: {event}");
    }
    scene.unsubscribe(&watcher).await
}
