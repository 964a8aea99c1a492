//! The events that Holdfast sends when the state of a URL changes.

use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::world::World;

/// Holdfast's own events that the receiver got.
fn own_events(world: &World) -> Vec<Value> {
    let events = world.receiver.bodies().into_iter();
    let events = events.map(|body| serde_json::from_slice::<Value>(&body).unwrap());
    events.filter(|event| event["type"].as_str().unwrap().starts_with("holdfast.")).collect()
}

async fn watch(world: &World, pattern: &str) {
    let body = json!({"url": "https://receiver.example/watch", "event_types": [pattern]});
    world.post("/v1/subscriptions", body.to_string()).await.expect(StatusCode::CREATED);
}

#[tokio::test]
async fn a_change_by_hand_is_announced_with_its_reason() {
    let world = World::new();
    let watched = world.subscribe("a").await;
    let url_id = watched["url_id"].as_str().unwrap();
    watch(&world, "holdfast.url.*").await;
    for (action, reason) in [("freeze", "maintenance"), ("freeze", "again"), ("enable", "back")] {
        let body = json!({"reason": reason}).to_string();
        world.post(&format!("/v1/urls/{url_id}/{action}"), body).await.expect(StatusCode::OK);
        world.clock.advance(Duration::from_secs(1));
    }
    world.work().await;
    let events = own_events(&world);
    let types: Vec<_> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    // A freeze of a frozen URL changes nothing.
    assert_eq!(types, ["holdfast.url.frozen", "holdfast.url.enabled"]);
    let mut data = events[0]["data"].clone();
    assert!(data.as_object_mut().unwrap().remove("by").is_some());
    let expected = json!({
        "url_id": url_id, "url": "https://receiver.example/a", "from": "enabled", "to": "frozen",
        "at": "2026-01-01T00:00:00.000Z", "why": "maintenance",
    });
    assert_eq!(data, expected);
}

#[tokio::test]
async fn an_automatic_change_is_announced() {
    let world = World::new();
    world.subscribe("a").await;
    // All paths respond with the same status here, so the announcement is attempted and fails too.
    watch(&world, "holdfast.url.disabled").await;
    world.receiver.status.store(500, Ordering::Relaxed);
    let hundred: Vec<_> = (0..100).map(|n| json!({"type": "order.created", "data": n})).collect();
    for events in [&hundred[..], &hundred[..1]] {
        world.post("/v1/events", json!(events).to_string()).await.expect(StatusCode::ACCEPTED);
        world.work().await;
    }
    let events = own_events(&world);
    assert_eq!(events.len(), 1);
    assert_eq!(
        (&events[0]["data"]["to"], &events[0]["data"]["by"]),
        (&json!("disabled"), &json!("holdfast"))
    );
    let event = world.get(&format!("/v1/events/{}", events[0]["id"].as_str().unwrap())).await;
    assert_eq!(event.expect(StatusCode::OK)["deliveries"][0]["state"], "waiting");
}

#[tokio::test]
async fn announcements_need_a_subscription_and_cannot_be_forged() {
    let world = World::new();
    let all = world.subscribe("a").await;
    let url_id = all["url_id"].as_str().unwrap();
    world.post(&format!("/v1/urls/{url_id}/freeze"), "").await.expect(StatusCode::OK);
    world.post(&format!("/v1/urls/{url_id}/enable"), "").await.expect(StatusCode::OK);
    world.work().await;
    assert_eq!(own_events(&world), Vec::<Value>::new());
    let forged = world.post("/v1/events", r#"{"type":"holdfast.url.frozen","data":{}}"#).await;
    assert_eq!(forged.problem(400), ["type"]);
}

/// Posts so many events, one after the other.
async fn post(world: &World, count: usize) {
    for n in 0..count {
        let body = json!({"type": "order.created", "data": n}).to_string();
        world.post("/v1/events", body).await.expect(StatusCode::ACCEPTED);
        world.work().await;
    }
}

#[tokio::test]
async fn trouble_is_announced_once_and_so_is_its_end() {
    let world = World::new();
    let watched = world.subscribe("a").await;
    watch(&world, "holdfast.url.*").await;
    world.receiver.respond_at("a", 500);
    post(&world, 9).await;
    assert_eq!(own_events(&world), Vec::<Value>::new());
    world.clock.advance(Duration::from_secs(1));
    post(&world, 5).await;
    let events = own_events(&world);
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(events[0]["type"], "holdfast.url.failing");
    let error = json!({"kind": "status", "status": 500, "text": "the receiver answered 500"});
    let expected = json!({
        "url_id": watched["url_id"], "url": "https://receiver.example/a", "at": "2026-01-01T00:00:01.000Z",
        "failing_since": "2026-01-01T00:00:00.000Z", "streak": 10, "last_error": error,
    });
    assert_eq!(events[0]["data"], expected);

    world.receiver.respond_at("a", 200);
    world.clock.advance(Duration::from_secs(1));
    post(&world, 2).await;
    let events = own_events(&world);
    let types: Vec<_> = events.iter().map(|event| &event["type"]).collect();
    assert_eq!(types, ["holdfast.url.failing", "holdfast.url.recovered"]);
    let expected = json!({
        "url_id": watched["url_id"], "url": "https://receiver.example/a", "at": "2026-01-01T00:00:02.000Z",
        "failing_since": "2026-01-01T00:00:00.000Z",
    });
    assert_eq!(events[1]["data"], expected);
}

#[tokio::test]
async fn a_quiet_url_is_announced_when_a_third_retry_fails() {
    let world = World::new();
    world.subscribe("a").await;
    watch(&world, "holdfast.url.failing").await;
    world.receiver.respond_at("a", 404);
    post(&world, 1).await;
    for (wait, expected) in [(85, 0), (170, 0), (340, 1), (680, 1)] {
        world.clock.advance(Duration::from_secs(wait));
        world.work().await;
        assert_eq!(own_events(&world).len(), expected, "after {wait} s more");
    }
}

#[tokio::test]
async fn a_disabled_url_that_recovers_is_announced_as_enabled_only() {
    let world = World::new();
    let watched = world.subscribe("a").await;
    watch(&world, "holdfast.url.*").await;
    world.receiver.respond_at("a", 500);
    post(&world, 102).await;
    world.receiver.respond_at("a", 200);
    world.clock.advance(Duration::from_secs(600));
    world.probe(&watched["url_id"]).await;
    let events = own_events(&world);
    let types: Vec<_> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["holdfast.url.failing", "holdfast.url.disabled", "holdfast.url.enabled"]);
}

#[tokio::test]
async fn the_trouble_of_own_events_causes_no_further_ones() {
    let world = World::new();
    let watched = world.subscribe("a").await;
    watch(&world, "holdfast.url.*").await;
    world.receiver.respond_at("watch", 500);
    let url_id = watched["url_id"].as_str().unwrap();
    for _ in 0..6 {
        world.post(&format!("/v1/urls/{url_id}/freeze"), "").await.expect(StatusCode::OK);
        world.clock.advance(Duration::from_secs(6));
        world.post(&format!("/v1/urls/{url_id}/enable"), "").await.expect(StatusCode::OK);
        world.work().await;
        world.clock.advance(Duration::from_secs(6));
    }
    let events = own_events(&world);
    assert!(events.len() >= 12, "{}", events.len());
    let is_trouble = |event: &&Value| event["type"] == "holdfast.url.failing";
    assert_eq!(events.iter().filter(is_trouble).count(), 0);
    let urls = world.get("/v1/urls").await.expect(StatusCode::OK);
    let failing = |path| {
        let is_it = |url: &&Value| url["url"] == format!("https://receiver.example/{path}");
        urls["items"].as_array().unwrap().iter().find(is_it).unwrap()["failing"].clone()
    };
    assert_eq!((failing("a"), failing("watch")), (json!(false), json!(true)), "it is shown all the same");
}

#[tokio::test]
async fn own_events_that_do_not_exist_cannot_be_subscribed() {
    let world = World::new();
    let body =
        json!({"url": "https://receiver.example/a", "event_types": ["order.*", "holdfast.url.broken"]});
    let answer = world.post("/v1/subscriptions", body.to_string()).await;
    assert_eq!(answer.problem(400), ["event_types[1]"]);
    let detail = String::from_utf8(answer.body.to_vec()).unwrap();
    assert!(detail.contains("holdfast.url.recovered"), "{detail}");
}
