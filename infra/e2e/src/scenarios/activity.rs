//! The overview counts activity, and the attempts feed shows attempts.

use anyhow::{Result, ensure};
use serde_json::Value;

use crate::receiver::Reply;
use crate::scene::Scene;
use crate::views::items;
use crate::waiting::until;

/// Other scenarios make attempts too, and the feed omits some of very many. So new events are posted while polling.
const POLLS_PER_EVENT: usize = 10;

pub(super) async fn run(scene: Scene<'_>) -> Result<()> {
    scene.subscribe("fine", Reply::Status(200)).await?;
    let held = scene.subscribe("held", Reply::Status(200)).await?;
    scene.change_url_state(&held.url_id, "freeze", "to be counted").await?;
    let parked = scene.post("held").await?;
    scene.delivery_when("the delivery is parked", &parked, scene.soon(), |d| d.is("parked")).await?;
    feed_shows_attempts(&scene).await?;
    overview_counts(&scene).await
}

/// One of this scenario's attempts is shown, once.
async fn feed_shows_attempts(scene: &Scene<'_>) -> Result<()> {
    let mut posted = Vec::new();
    let mut shown: Vec<String> = Vec::new();
    let mut next = attempts_after(scene, None).await?.1;
    let mut polls = 0;
    until("an attempt is shown", scene.soon(), async || {
        if polls % POLLS_PER_EVENT == 0 {
            posted.push(scene.post("fine").await?);
        }
        polls += 1;
        let (items, after) = attempts_after(scene, Some(&next)).await?;
        next = after;
        let events = items.iter().filter_map(|item| item["event_id"].as_str());
        shown.extend(events.filter(|id| posted.iter().any(|posted| posted == id)).map(str::to_owned));
        Ok((!shown.is_empty()).then_some(()))
    })
    .await?;
    let repeated = shown.iter().any(|id| shown.iter().filter(|other| *other == id).count() > 1);
    // A repeated attempt is shown too.
    ensure!(!repeated || scene.host.faulty, "shown more than once: {shown:?}");
    Ok(())
}

async fn attempts_after(scene: &Scene<'_>, after: Option<&str>) -> Result<(Vec<Value>, String)> {
    let after = after.map(|after| format!("&after={after}")).unwrap_or_default();
    let feed = scene.host.get(&format!("/v1/attempts?limit=100{after}")).await?.expect(200)?;
    let next = feed["next"].as_str();
    ensure!(next.is_some(), "no `next`: {feed}");
    Ok((items(&feed)?.clone(), next.unwrap_or_default().to_owned()))
}

async fn overview_counts(scene: &Scene<'_>) -> Result<()> {
    let overview = until("everything is counted", scene.soon(), async || {
        let overview = scene.host.get("/v1/overview?minutes=1440").await?.expect(200)?;
        let at_least_one = [
            &overview["totals"]["events"],
            &overview["totals"]["attempts"]["success"],
            &overview["parked"]["count"],
            &overview["urls"]["enabled"],
            &overview["urls"]["frozen"],
        ];
        let all = at_least_one.iter().all(|count| count.as_u64().is_some_and(|count| count > 0));
        Ok(all.then_some(overview))
    })
    .await?;
    let minutes = overview["minutes"].as_array().map_or(0, Vec::len);
    ensure!(minutes == 1_440, "{minutes} minutes are shown");
    ensure!(overview["latency_ms"]["average"].is_u64(), "no latency: {}", overview["latency_ms"]);
    Ok(())
}
