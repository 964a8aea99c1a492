//! Many events in one request: all are accepted, or none.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::receiver::Reply;
use crate::scene::Scene;
use crate::views::{items, text};

pub(super) async fn run(scene: Scene<'_>) -> Result<()> {
    let subscription = scene.subscribe("one", Reply::Status(200)).await?;
    let good = |number: usize| json!({ "id": scene.id(&number.to_string()), "type": scene.event_type("one"), "data": number });
    let post =
        async |events: Vec<Value>| scene.host.post("/v1/events", Value::from(events).to_string()).await;

    let bad = post(vec![good(0), good(1), json!({ "type": "no good", "data": 1 }), good(3)]).await?;
    ensure!(bad.status == 400 && bad.content_type == "application/problem+json", "unexpected: {bad:?}");
    ensure!(bad.text.contains("[2].type"), "the index and the field are not named: {bad:?}");
    for number in [0, 1, 3] {
        let found = scene.host.get(&format!("/v1/events/{}", scene.id(&number.to_string()))).await?;
        ensure!(found.status == 404, "an event of a rejected request exists: {found:?}");
    }
    for events in [Vec::new(), (0..101).map(good).collect()] {
        let count = events.len();
        let answer = post(events).await?;
        ensure!(answer.status == 400, "{count} events at once: {answer:?}");
    }

    let answer = post((0..100).map(good).collect()).await?.expect(202)?;
    for (number, item) in items(&answer)?.iter().enumerate() {
        ensure!(text(item, "id")? == scene.id(&number.to_string()), "not in order: {answer}");
    }
    let arrivals = scene.arrivals_of(&subscription.path, 100, scene.soon()).await?;
    let mut ids: Vec<&str> = arrivals.iter().map(|arrival| arrival.webhook_id()).collect();
    ids.sort_unstable();
    ids.dedup();
    ensure!(
        ids.len() == 100 && scene.is_count(arrivals.len(), 100),
        "{} arrivals of {} deliveries",
        arrivals.len(),
        ids.len()
    );
    Ok(())
}
