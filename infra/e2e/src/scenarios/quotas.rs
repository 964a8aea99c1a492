//! Quotas of a tenant refuse what is beyond them.

use anyhow::{Result, ensure};
use reqwest::Method;
use serde_json::json;

use crate::key::Key;
use crate::scene::Scene;

/// Each running function counts the rate for itself, so the first posts may all reach other ones.
const MAX_POSTS: usize = 50;

pub(super) async fn run(scene: Scene<'_>) -> Result<()> {
    let host = scene.host;
    let tenant = format!("quotas-{}", host.run);
    let key = Key::create(host, json!({ "tenant": tenant, "role": "admin" })).await?.text;
    let path = format!("/v1/tenants/{tenant}");
    let call = async |method, path: &str, key: &str, body: serde_json::Value| {
        host.send(method, path, Some(key), body.to_string().into_bytes()).await
    };

    let quotas = json!({ "events_per_second": 1, "subscriptions": 1 });
    let refused = call(Method::PATCH, &path, &key, quotas.clone()).await?;
    ensure!(refused.status == 403, "an admin set quotas: {refused:?}");
    call(Method::PATCH, &path, &host.operator, quotas).await?.expect(200)?;
    let shown = host.send(Method::GET, &path, Some(&key), Vec::new()).await?.expect(200)?;
    let expected =
        json!({ "events_per_second": 1, "subscriptions": 1, "waiting_bytes": null, "stored_bytes": null });
    ensure!(shown["quotas"] == expected, "unexpected: {shown}");

    let subscription = |part: &str| {
        let url = scene.receiver().url(&scene.path(part));
        json!({ "url": url, "event_types": [scene.event_type("one")] })
    };
    call(Method::POST, "/v1/subscriptions", &key, subscription("one")).await?.expect(201)?;
    let second = call(Method::POST, "/v1/subscriptions", &key, subscription("two")).await?;
    ensure!(second.status == 409 && second.text.contains("quota subscriptions"), "unexpected: {second:?}");

    let events = json!(vec![json!({ "type": scene.event_type("other"), "data": 1 }); 100]);
    for _ in 0..MAX_POSTS {
        let posted = call(Method::POST, "/v1/events", &key, events.clone()).await?;
        if posted.status == 429 && posted.text.contains("events_per_second") {
            return Ok(());
        }
        // A busy host may answer 503.
        ensure!(posted.status == 202 || posted.status == 503, "unexpected: {posted:?}");
    }
    anyhow::bail!("{MAX_POSTS} posts of 100 events passed a quota of one per second")
}
