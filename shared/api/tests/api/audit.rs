//! What was changed, when and by whom.

use std::time::Duration;

use holdfast_api::{BuiltIn, Keys};
use holdfast_core::ports::Clock;
use serde_json::{Value, json};

use crate::world::{KEY, World};

/// The changes of a page, as action, key, role, target.
fn changes(page: &Value) -> Vec<[&str; 4]> {
    let items = page["items"].as_array().unwrap();
    items
        .iter()
        .map(|item| ["action", "key_id", "role", "target"].map(|name| item[name].as_str().unwrap()))
        .collect()
}

async fn key_of(world: &World, role: &str) -> (String, String) {
    let body = json!({"tenant": "default", "role": role}).to_string();
    let created = world.post("/v1/keys", body).await.json(201);
    (created["key"].as_str().unwrap().to_owned(), created["id"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn every_change_is_listed_once_with_who_made_it() {
    let world = World::new();
    let (admin, admin_id) = key_of(&world, "admin").await;
    let by_admin = async |method: &str, path: &str, body: Value, status| {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        world.clock.advance(Duration::from_secs(1));
        world.call_as(&admin, method, path, body).await.json(status)
    };
    let new = json!({"url": "https://receiver.example/a?token=secret", "event_types": ["*"]});
    let subscription = by_admin("POST", "/v1/subscriptions", new, 201).await;
    let (id, url_id) = (subscription["id"].as_str().unwrap(), subscription["url_id"].as_str().unwrap());
    by_admin("POST", "/v1/events", json!({"id": "one", "type": "a", "data": 1}), 202).await;
    world.work().await;
    let patch = json!({"auth_token": "hidden-token", "description": "words", "active": true});
    by_admin("PATCH", &format!("/v1/subscriptions/{id}"), patch, 200).await;
    by_admin("POST", &format!("/v1/subscriptions/{id}/rotate-secret"), Value::Null, 200).await;
    for (action, reason) in [("freeze", "a leak"), ("enable", "fixed"), ("disable", "moving"), ("enable", "")]
    {
        let body = if reason.is_empty() { json!({}) } else { json!({ "reason": reason }) };
        by_admin("POST", &format!("/v1/urls/{url_id}/{action}"), body, 200).await;
    }
    let replay = json!({"states": ["delivered"]});
    by_admin("POST", &format!("/v1/urls/{url_id}/replay"), replay, 202).await;
    world.work().await;
    let deliveries = world.get("/v1/deliveries").await.json(200);
    let delivery = deliveries["items"][0]["id"].as_str().unwrap();
    by_admin("POST", &format!("/v1/deliveries/{delivery}/replay"), Value::Null, 202).await;
    world.clock.advance(Duration::from_secs(1));
    let deleted = world.call_as(&admin, "DELETE", &format!("/v1/subscriptions/{id}"), "").await;
    assert_eq!(deleted.status, 204);
    world.clock.advance(Duration::from_secs(1));
    let quotas = r#"{"subscriptions": 5, "events_per_second": null}"#;
    world.call_as(KEY, "PATCH", "/v1/tenants/default", quotas).await.json(200);
    world.clock.advance(Duration::from_secs(1));
    assert_eq!(world.call_as(KEY, "DELETE", &format!("/v1/keys/{admin_id}"), "").await.status, 204);

    let page = world.get("/v1/audit").await.json(200);
    let (by_admin, by_operator) = ([&admin_id[..], "admin"], ["built-in", "operator"]);
    let expected = [
        ("key.deleted", by_operator, &admin_id[..]),
        ("tenant.quotas_changed", by_operator, "default"),
        ("subscription.deleted", by_admin, id),
        ("delivery.replayed", by_admin, delivery),
        ("url.replayed", by_admin, url_id),
        ("url.enabled", by_admin, url_id),
        ("url.disabled", by_admin, url_id),
        ("url.enabled", by_admin, url_id),
        ("url.frozen", by_admin, url_id),
        ("subscription.secret_rotated", by_admin, id),
        ("subscription.updated", by_admin, id),
        ("subscription.created", by_admin, id),
        ("key.created", by_operator, &admin_id),
    ];
    let expected: Vec<_> = expected.map(|(action, [key, role], target)| [action, key, role, target]).to_vec();
    assert_eq!(changes(&page), expected);
    let item = |action: &str| {
        let items = page["items"].as_array().unwrap();
        items.iter().find(|item| item["action"] == action).unwrap()
    };
    assert_eq!(item("subscription.updated")["changed"], json!(["auth_token", "description"]));
    assert_eq!(item("tenant.quotas_changed")["changed"], json!(["subscriptions"]));
    assert_eq!(item("subscription.created")["changed"], json!([]));
    assert_eq!(item("url.frozen")["reason"], "a leak");
    assert_eq!(item("url.enabled")["reason"], Value::Null);
    assert_eq!(item("subscription.created")["at"], "2026-01-01T00:00:01.000Z");
    let text = page.to_string();
    for secret in ["secret=", "token=", "hidden-token", "whsec_", &admin] {
        assert!(!text.contains(secret), "{secret}: {text}");
    }
}

#[tokio::test]
async fn a_call_that_changes_nothing_is_not_listed() {
    let world = World::new();
    let subscription = world.subscribe("a").await;
    let (id, url_id) = (subscription["id"].as_str().unwrap(), subscription["url_id"].as_str().unwrap());
    world.post(&format!("/v1/urls/{url_id}/freeze"), "").await.json(200);
    let before = world.get("/v1/audit").await.json(200);
    assert_eq!(changes(&before).len(), 2);
    world.post(&format!("/v1/urls/{url_id}/freeze"), r#"{"reason": "again"}"#).await.json(200);
    world.post(&format!("/v1/urls/{url_id}/disable"), "").await.problem(409);
    world.call_as(KEY, "PATCH", &format!("/v1/subscriptions/{id}"), r#"{"active": true}"#).await.json(200);
    world.call_as(KEY, "PATCH", "/v1/tenants/default", r#"{"subscriptions": null}"#).await.json(200);
    world.call_as(KEY, "DELETE", "/v1/subscriptions/sub_none", "").await.problem(404);
    let twice = json!({"url": subscription["url"], "event_types": subscription["event_types"]}).to_string();
    world.post("/v1/subscriptions", twice).await.problem(409);
    assert_eq!(world.get("/v1/audit").await.json(200), before);
}

#[tokio::test]
async fn times_and_order_choose_a_part_of_the_list() {
    let world = World::new();
    for name in ["a", "b", "c", "d"] {
        world.subscribe(name).await;
        world.clock.advance(Duration::from_secs(60));
    }
    let all = world.get("/v1/audit").await.json(200);
    let of = |page: &Value| -> Vec<String> {
        let items = page["items"].as_array().unwrap();
        items.iter().map(|item| item["at"].as_str().unwrap()[14..16].to_owned()).collect()
    };
    assert_eq!(of(&all), ["03", "02", "01", "00"]);
    let (since, until) = ("since=2026-01-01T00:01:00Z", "until=2026-01-01T00:03:00Z");
    for (query, minutes) in [
        (since.to_owned(), &["03", "02", "01"][..]),
        (until.to_owned(), &["02", "01", "00"]),
        (format!("{since}&{until}"), &["02", "01"]),
        (format!("{since}&{until}&order=asc"), &["01", "02"]),
        (format!("{since}&order=asc"), &["01", "02", "03"]),
        ("since=2027-01-01T00:00:00Z".to_owned(), &[]),
    ] {
        let page = world.get(&format!("/v1/audit?{query}")).await.json(200);
        assert_eq!(
            (of(&page), &page["next"]),
            (minutes.iter().map(|m| m.to_string()).collect(), &Value::Null)
        );
        let mut found = Vec::new();
        let mut cursor = String::new();
        loop {
            let page = world.get(&format!("/v1/audit?{query}&limit=1{cursor}")).await.json(200);
            found.extend(of(&page));
            match page["next"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        assert_eq!(found, minutes, "{query}, one at a time");
    }
    world.get("/v1/audit?order=newest").await.problem(400);
    world.get("/v1/audit?since=yesterday").await.problem(400);
}

#[tokio::test]
async fn an_entry_is_kept_for_ninety_days() {
    let world = World::new();
    world.subscribe("a").await;
    let day = Duration::from_secs(86_400);
    let count = async || changes(&world.get("/v1/audit").await.json(200)).len();
    world.clock.advance(89 * day);
    world.store.purge(world.clock.now());
    assert_eq!(count().await, 1);
    world.clock.advance(2 * day);
    world.store.purge(world.clock.now());
    assert_eq!(count().await, 0);
}

#[tokio::test]
async fn an_operator_without_a_tenant_sees_all_and_the_keys_of_none() {
    let keys = Keys::new(vec![BuiltIn::operator("secret", KEY, "The first key", "Change the secret.")]);
    let world = World::with_keys(keys);
    let beta = world.key("beta", "admin").await;
    let viewer = world.key("alpha", "viewer").await;
    world.post("/v1/keys", r#"{"role": "operator"}"#).await.json(201);
    let page = world.get("/v1/audit").await.json(200);
    let tenants: Vec<_> = page["items"].as_array().unwrap().iter().map(|item| item.get("tenant")).collect();
    assert_eq!(tenants, [None, Some(&json!("alpha")), Some(&json!("beta"))]);
    let mut one_by_one = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = world.get(&format!("/v1/audit?limit=1{cursor}")).await.json(200);
        one_by_one.extend(page["items"].as_array().unwrap().clone());
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(json!(one_by_one), page["items"]);
    for (key, tenant) in [(&beta, "beta"), (&viewer, "alpha")] {
        let own = world.call_as(key, "GET", "/v1/audit", "").await.json(200);
        assert_eq!(changes(&own).len(), 1, "{tenant}");
        assert_eq!(own["items"][0].get("tenant"), None);
        assert_eq!(world.get(&format!("/v1/audit?tenant={tenant}")).await.json(200), own);
    }
    let ingest = world.key("beta", "ingest").await;
    world.call_as(&ingest, "GET", "/v1/audit", "").await.problem(403);
}
