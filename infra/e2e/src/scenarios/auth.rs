//! Every request needs a valid key, and a key can do only what its role and tenant allow.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures_util::future::try_join_all;
use holdfast_core::time::Timestamp;
use reqwest::Method;
use serde_json::{Value, json};

use crate::clock::real_ms;
use crate::host::Host;
use crate::key::Key;
use crate::receiver::Reply;
use crate::scene::Scene;
use crate::views::items;
use crate::waiting::until;

/// A deleted key is rejected everywhere after this long.
const DELETED_WITHIN: Duration = Duration::from_secs(5);
/// Enough concurrent requests to reach more than one process, where there are several.
const CONCURRENCY: usize = 8;
const KEY_LIFETIME: Duration = Duration::from_secs(8);

pub(super) async fn run(scene: Scene<'_>) -> Result<()> {
    every_route_needs_a_key(scene.host).await?;
    roles(&scene).await.context("roles")?;
    tenants(&scene).await.context("tenants")?;
    operators(&scene).await.context("operators")?;
    secrets_are_not_shown_again(&scene).await.context("secrets")?;
    deleted(scene.host).await.context("a deleted key")?;
    expired(&scene).await.context("an expired key")
}

async fn every_route_needs_a_key(host: &Host) -> Result<()> {
    let alive = host.send(Method::GET, "/healthz", None, Vec::new()).await?;
    ensure!(alive.status == 200, "without a key: {alive:?}");
    let (delivery, subscription) = ("/v1/deliveries/dlv_x", "/v1/subscriptions/sub_x");
    let routes = [
        (Method::POST, "/v1/events"),
        (Method::GET, "/v1/events/x"),
        (Method::GET, "/v1/subscriptions"),
        (Method::POST, "/v1/subscriptions"),
        (Method::GET, subscription),
        (Method::DELETE, subscription),
        (Method::GET, "/v1/urls"),
        (Method::GET, "/v1/urls/url_x"),
        (Method::POST, "/v1/urls/url_x/enable"),
        (Method::POST, "/v1/urls/url_x/freeze"),
        (Method::POST, "/v1/urls/url_x/disable"),
        (Method::GET, "/v1/deliveries"),
        (Method::GET, delivery),
        (Method::POST, "/v1/deliveries/dlv_x/replay"),
        (Method::GET, "/v1/keys"),
        (Method::POST, "/v1/keys"),
        (Method::DELETE, "/v1/keys/key_x"),
    ];
    let longer = format!("{}x", host.key);
    let shorter = &host.key[..host.key.len() - 1];
    for (method, path) in routes {
        for key in [None, Some("hf_wrong"), Some(longer.as_str()), Some(shorter)] {
            let answer = host.send(method.clone(), path, key, b"{}".to_vec()).await?;
            let what = || format!("{method} {path} with the key {key:?}");
            let problem = answer.expect(401).with_context(what)?;
            ensure!(answer.content_type == "application/problem+json", "{}: {answer:?}", what());
            ensure!(
                problem["detail"].as_str().is_some_and(|text| text.contains("key")),
                "{}: {answer:?}",
                what()
            );
        }
    }
    Ok(())
}

fn event(scene: &Scene<'_>, part: &str) -> Vec<u8> {
    json!({ "type": scene.event_type(part), "data": 1 }).to_string().into_bytes()
}

async fn roles(scene: &Scene<'_>) -> Result<()> {
    let host = scene.host;
    let ingest = Key::create(host, json!({ "tenant": host.tenant, "role": "ingest" })).await?;
    let posted = host.send(Method::POST, "/v1/events", Some(&ingest.text), event(scene, "roles")).await?;
    posted.expect(202)?;
    for path in ["/v1/subscriptions", "/v1/urls/url_x", "/v1/deliveries", "/v1/keys", "/v1/events/x"] {
        let problem = ingest.get(host, path).await?.expect(403).with_context(|| path.to_owned())?;
        ensure!(
            problem["detail"].as_str().is_some_and(|text| text.contains("operator")),
            "{path}: {problem}"
        );
    }
    // All other requests of this scenario use an admin key.
    host.get("/v1/keys").await?.expect(403)?;
    let more = json!({ "tenant": host.tenant, "role": "admin" }).to_string();
    host.post("/v1/keys", more).await?.expect(403)?;
    ingest.delete(host).await
}

async fn tenants(scene: &Scene<'_>) -> Result<()> {
    let host = scene.host;
    let subscription = scene.subscribe("tenants", Reply::Status(200)).await?;
    let event_id = scene.post("tenants").await?;
    let delivery = scene.delivery_when("it is listed", &event_id, scene.soon(), |_| true).await?;
    let other = format!("{}-other", host.tenant);
    let stranger = Key::create(host, json!({ "tenant": other, "role": "admin" })).await?;
    for path in [
        format!("/v1/subscriptions/{}", subscription.id),
        format!("/v1/urls/{}", subscription.url_id),
        format!("/v1/deliveries/{}", delivery.id),
        format!("/v1/events/{event_id}"),
    ] {
        host.get(&path).await?.expect(200)?;
        stranger.get(host, &path).await?.expect(404).with_context(|| path.clone())?;
        stranger.get(host, &format!("{path}?tenant={}", host.tenant)).await?.expect(403)?;
    }
    for list in ["/v1/subscriptions", "/v1/urls", "/v1/deliveries"] {
        let listed = stranger.get(host, list).await?.expect(200)?;
        ensure!(items(&listed)?.is_empty(), "{list}: {listed}");
    }
    stranger.delete(host).await
}

async fn operators(scene: &Scene<'_>) -> Result<()> {
    let host = scene.host;
    let operator = Key::create(host, json!({ "role": "operator" })).await?;
    let problem = operator.get(host, "/v1/events/x").await?.expect(400)?;
    ensure!(problem["errors"][0]["field"] == "tenant", "unexpected: {problem}");
    let named = format!("/v1/subscriptions?limit=1&tenant={}", host.tenant);
    let ours = operator.get(host, &named).await?.expect(200)?;
    ensure!(items(&ours)?.len() == 1, "unexpected: {ours}");
    operator.get(host, "/v1/urls?tenant=no-such-tenant").await?.expect(404)?;
    let all = operator.get(host, "/v1/subscriptions?limit=100").await?.expect(200)?;
    let tenants: Vec<&str> = items(&all)?.iter().filter_map(|item| item["tenant"].as_str()).collect();
    ensure!(tenants.is_sorted() && tenants.len() == items(&all)?.len(), "unexpected: {tenants:?}");
    operator.delete(host).await
}

async fn secrets_are_not_shown_again(scene: &Scene<'_>) -> Result<()> {
    let host = scene.host;
    let token = format!("token-{}", host.run);
    let more = json!({ "auth_token": token });
    let created = scene.subscribe_with("secrets", "secrets", Reply::Status(500), more).await?;
    let event_id = scene.post("secrets").await?;
    let failed = |delivery: &crate::views::Delivery| !delivery.attempts.is_empty();
    let delivery = scene.delivery_when("it fails", &event_id, scene.soon(), failed).await?;
    let mut shown = Vec::new();
    for path in [
        format!("/v1/subscriptions/{}", created.id),
        "/v1/subscriptions?limit=100".to_owned(),
        format!("/v1/urls/{}", created.url_id),
        format!("/v1/events/{event_id}"),
        format!("/v1/deliveries/{}", delivery.id),
    ] {
        shown.push(host.get(&path).await?);
    }
    let keys = format!("/v1/keys?tenant={}", host.tenant);
    shown.push(host.send(Method::GET, &keys, Some(&host.operator), Vec::new()).await?);
    for answer in shown {
        answer.expect(200)?;
        for secret in [&created.secret, &token, &host.key, &host.operator] {
            ensure!(!answer.text.contains(secret.as_str()), "a secret is shown: {answer:?}");
        }
    }
    Ok(())
}

async fn deleted(host: &Host) -> Result<()> {
    let key = Key::create(host, json!({ "tenant": host.tenant, "role": "admin" })).await?;
    let ask = async || try_join_all((0..CONCURRENCY).map(|_| key.get(host, "/v1/urls?limit=1"))).await;
    for answer in ask().await? {
        answer.expect(200)?;
    }
    key.delete(host).await?;
    let ends = real_ms() + u64::try_from(DELETED_WITHIN.as_millis())?;
    // Used all the time meanwhile, so that a cache that extends its entries is noticed.
    until("the key was deleted 5 s ago", DELETED_WITHIN * 10, async || {
        let late = real_ms() >= ends;
        let answers = ask().await?;
        ensure!(!late || answers.iter().all(|answer| answer.status == 401), "still accepted: {answers:?}");
        Ok(late.then_some(()))
    })
    .await
}

async fn expired(scene: &Scene<'_>) -> Result<()> {
    let host = scene.host;
    let ends = real_ms() + u64::try_from(KEY_LIFETIME.as_millis())?;
    let expires_at = Timestamp::from_millis(i64::try_from(ends)?).to_string();
    let new = json!({ "tenant": host.tenant, "role": "admin", "expires_at": expires_at });
    let key = Key::create(host, new).await?;
    until("the key has expired", KEY_LIFETIME + scene.soon(), async || {
        let answers = try_join_all((0..CONCURRENCY).map(|_| key.get(host, "/v1/urls?limit=1"))).await?;
        let early = real_ms() < ends;
        ensure!(!early || answers.iter().all(|answer| answer.status == 200), "rejected early: {answers:?}");
        Ok(answers.iter().all(|answer| answer.status == 401).then_some(()))
    })
    .await?;
    let past = json!({ "role": "operator", "expires_at": "2020-01-01T00:00:00Z" });
    let answer = host.send(Method::POST, "/v1/keys", Some(&host.operator), past.to_string().into()).await?;
    let problem: Value = answer.expect(400)?;
    ensure!(problem["errors"][0]["field"] == "expires_at", "unexpected: {problem}");
    key.delete(host).await
}
