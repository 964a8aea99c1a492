//! Who changed what, and the events of a subject, are listed by any host.

use anyhow::{Result, ensure};
use serde_json::json;

use crate::receiver::Reply;
use crate::scene::Scene;
use crate::views::text;
use crate::waiting::until;

const EVENTS: usize = 3;

pub(super) async fn run(scene: Scene<'_>) -> Result<()> {
    // Without the changes and events of other scenarios.
    let host = scene.host.in_tenant(format!("audit-{}", scene.host.run)).await?;
    let scene = Scene::new(&host, scene.name);
    let subscription = scene.subscribe("changed", Reply::Status(200)).await?;
    scene.change(&subscription, json!({"description": "changed", "auth_token": "hidden-token"})).await?;
    scene.change_url_state(&subscription.url_id, "freeze", "a reason").await?;
    scene.change_url_state(&subscription.url_id, "freeze", "it is frozen already").await?;
    changes_are_listed(&scene, &subscription.id, &subscription.url_id).await?;
    events_are_listed(&scene).await
}

async fn changes_are_listed(scene: &Scene<'_>, subscription: &str, url: &str) -> Result<()> {
    for limit in [1, 100] {
        let found = scene.list("/v1/audit", "&order=asc", limit).await?;
        // The key of the tenant was created before.
        let changes = found.iter().filter(|entry| entry["action"] != "key.created");
        let shown = changes.map(|entry| Ok((text(entry, "action")?, text(entry, "target")?)));
        let shown = shown.collect::<Result<Vec<_>>>()?;
        let expected = [
            ("subscription.created", subscription),
            ("subscription.updated", subscription),
            ("url.frozen", url),
        ];
        ensure!(shown == expected || scene.host.faulty, "by {limit}: {shown:?}");
    }
    let answer = scene.host.get("/v1/audit?limit=1").await?;
    ensure!(answer.text.contains("a reason") && !answer.text.contains("already"), "{}", answer.text);
    let all = scene.host.get("/v1/audit").await?.text;
    ensure!(all.contains("auth_token") && !all.contains("hidden-token"), "{all}");
    Ok(())
}

async fn events_are_listed(scene: &Scene<'_>) -> Result<()> {
    let (subject, event_type) = (scene.id("subject"), scene.event_type("listed"));
    let mut ids = Vec::new();
    for n in 0..EVENTS {
        let id = scene.id(&n.to_string());
        let event = json!({"id": id, "type": event_type, "subject": subject, "data": n}).to_string();
        scene.host.post("/v1/events", event).await?.expect(202)?;
        ids.insert(0, id);
    }
    for query in [String::new(), format!("&subject={subject}"), format!("&type={event_type}")] {
        for limit in [1, 100] {
            // An index may lag behind.
            until("all events are listed", scene.soon(), async || {
                let found = scene.list("/v1/events", &query, limit).await?;
                // Beside them is what Holdfast says of the frozen URL.
                let posted = found.iter().filter(|item| item["type"] == event_type.as_str());
                let shown: Vec<&str> = posted.filter_map(|item| item["id"].as_str()).collect();
                Ok((shown == ids).then_some(()))
            })
            .await?;
        }
    }
    let others = scene.list("/v1/events", "&subject=another", 100).await?;
    ensure!(others.is_empty(), "{others:?}");
    Ok(())
}
