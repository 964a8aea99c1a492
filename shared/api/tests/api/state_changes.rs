//! Whoever subscribes to them is told of the changes of the tenant's own URLs.

use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::world::World;

/// The bodies of Holdfast's own events that the receiver got.
fn told(world: &World) -> Vec<Value> {
    let bodies = world.receiver.bodies.lock().unwrap();
    let events = bodies.iter().map(|body| serde_json::from_slice::<Value>(body).unwrap());
    events.filter(|event| event["type"].as_str().unwrap().starts_with("holdfast.")).collect()
}

async fn watch(world: &World, pattern: &str) {
    let body = json!({"url": "https://receiver.example/watch", "event_types": [pattern]});
    world.post("/v1/subscriptions", body.to_string()).await.expect(StatusCode::CREATED);
}

#[tokio::test]
async fn a_change_by_hand_is_told_with_its_reason() {
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
    let told = told(&world);
    let types: Vec<_> = told.iter().map(|event| event["type"].as_str().unwrap()).collect();
    // A freeze of a frozen URL changes nothing.
    assert_eq!(types, ["holdfast.url.frozen", "holdfast.url.enabled"]);
    let mut data = told[0]["data"].clone();
    assert!(data.as_object_mut().unwrap().remove("by").is_some());
    let expected = json!({
        "url_id": url_id, "url": "https://receiver.example/a", "from": "enabled", "to": "frozen",
        "at": "2026-01-01T00:00:00.000Z", "why": "maintenance",
    });
    assert_eq!(data, expected);
}

#[tokio::test]
async fn a_url_that_fails_too_often_is_told_too() {
    let world = World::new();
    world.subscribe("a").await;
    // At another host's URL in earnest; here every path answers the same, so what is told is only attempted.
    watch(&world, "holdfast.url.disabled").await;
    world.receiver.status.store(500, Ordering::Relaxed);
    let hundred: Vec<_> = (0..100).map(|n| json!({"type": "order.created", "data": n})).collect();
    for events in [&hundred[..], &hundred[..1]] {
        world.post("/v1/events", json!(events).to_string()).await.expect(StatusCode::ACCEPTED);
        world.work().await;
    }
    let told = told(&world);
    assert_eq!(told.len(), 1);
    assert_eq!((&told[0]["data"]["to"], &told[0]["data"]["by"]), (&json!("disabled"), &json!("holdfast")));
    let event = world.get(&format!("/v1/events/{}", told[0]["id"].as_str().unwrap())).await;
    assert_eq!(event.expect(StatusCode::OK)["deliveries"][0]["state"], "waiting");
}

#[tokio::test]
async fn who_did_not_ask_is_not_told_and_nobody_else_tells() {
    let world = World::new();
    let all = world.subscribe("a").await;
    let url_id = all["url_id"].as_str().unwrap();
    world.post(&format!("/v1/urls/{url_id}/freeze"), "").await.expect(StatusCode::OK);
    world.post(&format!("/v1/urls/{url_id}/enable"), "").await.expect(StatusCode::OK);
    world.work().await;
    assert_eq!(told(&world), Vec::<Value>::new());
    let forged = world.post("/v1/events", r#"{"type":"holdfast.url.frozen","data":{}}"#).await;
    assert_eq!(forged.problem(400), ["type"]);
}
