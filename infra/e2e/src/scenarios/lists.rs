//! Lists: every page, every filter.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::receiver::Reply;
use crate::scene::{Scene, Subscription};
use crate::views::text;
use crate::waiting::until;

const SUBSCRIPTIONS: usize = 3;
const EVENTS: usize = 5;

pub(super) async fn run(scene: Scene<'_>) -> Result<()> {
    let mut subscriptions = Vec::new();
    for part in ["x", "y", "z"] {
        let created = scene.subscribe_with("one", part, Reply::Status(200), Value::Null).await?;
        subscriptions.push(created);
    }
    let mut ids = Vec::new();
    for _ in 0..EVENTS {
        ids.push(scene.post("one").await?);
    }
    let first = &subscriptions[0];
    for subscription in &subscriptions {
        let query = format!("&subscription={}&state=delivered", subscription.id);
        until("all are delivered", scene.soon(), async || {
            Ok((scene.list("/v1/deliveries", &query, 2).await?.len() == EVENTS).then_some(()))
        })
        .await?;
    }
    filters(&scene, first, &ids).await?;
    times(&scene, first, &ids).await?;
    all_found(&scene, "/v1/subscriptions", "", subscriptions.iter().map(|s| s.id.as_str())).await?;
    for query in ["", "&state=enabled"] {
        all_found(&scene, "/v1/urls", query, subscriptions.iter().map(|s| s.url_id.as_str())).await?;
    }
    cursors(&scene, first).await
}

/// The ids of a list, which must be distinct.
async fn ids_of(
    scene: &Scene<'_>,
    path: &str,
    query: &str,
    limit: usize,
    field: &str,
) -> Result<BTreeSet<String>> {
    let found = scene.list(path, query, limit).await?;
    let ids = found.iter().map(|item| Ok(text(item, field)?.to_owned())).collect::<Result<BTreeSet<_>>>()?;
    if field == "id" {
        ensure!(
            ids.len() == found.len(),
            "{path}{query}: {} items, {} different ones",
            found.len(),
            ids.len()
        );
    }
    Ok(ids)
}

async fn filters(scene: &Scene<'_>, first: &Subscription, ids: &[String]) -> Result<()> {
    let (url, subscription, event) = (&first.url_id, &first.id, &ids[0]);
    let unknown = "url_aaaaaaaaaaaaaaaaaaaaaaaaaa";
    let table = [
        (format!("&event={event}"), SUBSCRIPTIONS),
        (format!("&event={event}&url={url}"), 1),
        (format!("&event={event}&subscription={subscription}&state=delivered"), 1),
        (format!("&url={url}"), EVENTS),
        (format!("&url={url}&state=delivered"), EVENTS),
        (format!("&url={url}&state=dead"), 0),
        (format!("&url={url}&state=parked"), 0),
        (format!("&url={url}&state=waiting"), 0),
        (format!("&subscription={subscription}"), EVENTS),
        (format!("&subscription={subscription}&url={unknown}"), 0),
        (format!("&url={unknown}"), 0),
        (format!("&event={}", scene.id("unknown")), 0),
    ];
    for (query, expected) in table {
        for limit in [1, 2, 100] {
            let found = ids_of(scene, "/v1/deliveries", &query, limit, "id").await?;
            ensure!(found.len() == expected, "{query}: {} and not {expected}, by {limit}", found.len());
        }
    }
    Ok(())
}

/// Whether the bounds are inclusive is not specified, so the event at the bound is not checked.
async fn times(scene: &Scene<'_>, first: &Subscription, ids: &[String]) -> Result<()> {
    let middle = scene.host.get(&format!("/v1/events/{}", ids[2])).await?.expect(200)?;
    let time = text(&middle, "timestamp")?;
    for (bound, inside, outside) in [("since", &ids[3..], &ids[..2]), ("until", &ids[..2], &ids[3..])] {
        let query = format!("&subscription={}&{bound}={time}", first.id);
        let found = ids_of(scene, "/v1/deliveries", &query, 2, "event_id").await?;
        ensure!(inside.iter().all(|id| found.contains(id)), "{bound}: {found:?} lacks some of {inside:?}");
        ensure!(!outside.iter().any(|id| found.contains(id)), "{bound}: {found:?} has some of {outside:?}");
    }
    Ok(())
}

/// Other scenarios use the host too, so there may be more.
async fn all_found<'b>(
    scene: &Scene<'_>,
    path: &str,
    query: &str,
    wanted: impl Iterator<Item = &'b str>,
) -> Result<()> {
    let found = ids_of(scene, path, query, 100, "id").await?;
    for id in wanted {
        ensure!(found.contains(id), "{path}{query} does not list {id}");
        scene.host.get(&format!("{path}/{id}")).await?.expect(200)?;
    }
    let page = scene.host.get(&format!("{path}?limit=1{query}")).await?.expect(200)?;
    ensure!(
        page["items"].as_array().map(Vec::len) == Some(1) && page["next"].is_string(),
        "unexpected: {page}"
    );
    Ok(())
}

/// A cursor is valid only for its own list.
async fn cursors(scene: &Scene<'_>, first: &Subscription) -> Result<()> {
    let page = scene.host.get(&format!("/v1/deliveries?limit=1&url={}", first.url_id)).await?.expect(200)?;
    let cursor = page["next"].as_str().context("no cursor on the first page")?;
    for path in ["/v1/urls", "/v1/subscriptions", "/v1/deliveries"] {
        let answer = scene.host.get(&format!("{path}?limit=1&cursor={cursor}")).await?;
        ensure!(answer.status == 400 && answer.text.contains("cursor"), "{path}: {answer:?}");
    }
    Ok(())
}
