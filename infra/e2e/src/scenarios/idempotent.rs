//! Posting an event again with the same id does not deliver it again.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::receiver::Reply;
use crate::scene::Scene;
use crate::views::items;
use crate::waiting::until;

const CONCURRENCY: usize = 50;

pub(super) async fn run(scene: Scene<'_>) -> Result<()> {
    let subscription = scene.subscribe("one", Reply::Status(200)).await?;
    let event =
        |id: &str, data: i32| json!({ "id": scene.id(id), "type": scene.event_type("one"), "data": data });
    let post = async |body: Value| scene.host.post("/v1/events", body.to_string()).await;

    // Where posts are repeated, the first try may have had its effect.
    let is_new = |duplicate: &Value| *duplicate == false || scene.host.faulty;
    let first = post(event("a", 1)).await?.expect(202)?;
    ensure!(is_new(&first["duplicate"]) && first["deliveries"] == 1, "unexpected: {first}");
    let repeat = post(event("a", 1)).await?.expect(202)?;
    ensure!(
        repeat == json!({ "id": scene.id("a"), "deliveries": 1, "duplicate": true }),
        "unexpected: {repeat}"
    );
    let other = post(event("a", 2)).await?;
    ensure!(other.status == 409 && other.content_type == "application/problem+json", "unexpected: {other:?}");
    ensure!(other.text.contains("id"), "the field is not named: {other:?}");

    let mixed = post(json!([event("b", 1), event("a", 1), event("c", 1)])).await?.expect(202)?;
    let flags: Vec<&Value> = items(&mixed)?.iter().map(|item| &item["duplicate"]).collect();
    ensure!(is_new(flags[0]) && *flags[1] == true && is_new(flags[2]), "unexpected: {mixed}");
    let refused = post(json!([event("d", 1), event("a", 3)])).await?;
    ensure!(refused.status == 409 && refused.text.contains("[1]"), "unexpected: {refused:?}");

    // One of many concurrent requests wins, and the others are duplicates.
    let many = (0..CONCURRENCY).map(|_| {
        until("the post is answered", scene.soon(), async || {
            let answer = post(event("e", 1)).await?;
            // A request that waited too long for the winner is answered 503.
            if answer.status == 503 { Ok(None) } else { answer.expect(202).map(Some) }
        })
    });
    let mut winners = 0;
    for answer in futures_util::future::join_all(many).await {
        winners += usize::from(answer?["duplicate"] == false);
    }
    let is_one = winners == 1 || (winners == 0 && scene.host.faulty);
    ensure!(is_one, "{winners} posts of one id were not duplicates");

    // Order is not guaranteed, so the count is checked after all expected events have arrived.
    scene.arrivals_of(&subscription.path, 4, scene.soon()).await?;
    for id in ["a", "b", "c", "e"] {
        scene.delivery_when("it is delivered", &scene.id(id), scene.soon(), |d| d.is("delivered")).await?;
    }
    let arrived = scene.receiver().count(&subscription.path);
    ensure!(scene.is_count(arrived, 4), "{arrived} arrivals of four events");
    Ok(())
}
