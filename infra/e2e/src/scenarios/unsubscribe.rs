//! The waiting and parked deliveries of a deleted subscription die, and are shown as dead.

use std::time::Duration;

use anyhow::{Result, ensure};

use crate::receiver::Reply;
use crate::scene::Scene;

pub(super) async fn run(scene: Scene<'_>) -> Result<()> {
    let parked = scene.subscribe("parked", Reply::Status(200)).await?;
    let waiting = scene.subscribe("waiting", Reply::Status(500)).await?;
    scene.change_url_state(&parked.url_id, "freeze", "to park").await?;
    let parked_id = scene.post("parked").await?;
    let waiting_id = scene.post("waiting").await?;
    scene.delivery_when("one is parked", &parked_id, scene.soon(), |d| d.is("parked")).await?;
    // By then, the next retry is far away.
    let within = scene.within(Duration::from_secs(3600));
    scene
        .delivery_when("one is waiting", &waiting_id, within, |d| d.is("waiting") && d.attempts.len() >= 5)
        .await?;
    scene.unsubscribe(&parked).await?;
    scene.unsubscribe(&waiting).await?;
    for id in [&parked_id, &waiting_id] {
        let dead = scene.delivery_when("it is dead", id, scene.soon(), |d| d.is("dead")).await?;
        ensure!(dead.reason.as_deref() == Some("unsubscribed"), "dead for another reason: {dead:?}");
    }
    ensure!(scene.receiver().count(&parked.path) == 0, "a frozen URL was attempted");
    for subscription in [&parked, &waiting] {
        let path = format!("/v1/subscriptions/{}", subscription.id);
        ensure!(scene.host.get(&path).await?.status == 404, "it is still there");
        ensure!(scene.host.delete(&path).await?.status == 404, "it was deleted twice");
    }
    let answer = scene.host.post(
        "/v1/events",
        serde_json::json!({ "type": scene.event_type("waiting"), "data": 1 }).to_string(),
    );
    let answer = answer.await?.expect(202)?;
    ensure!(answer["deliveries"] == 0, "a deleted subscription still gets events: {answer}");
    Ok(())
}
