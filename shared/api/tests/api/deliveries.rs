use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::http::StatusCode;
use holdfast_core::ports::Store;
use holdfast_core::time::Timestamp;
use serde_json::{Value, json};

use crate::world::World;

async fn post(world: &World, id: &str) {
    let event = json!({"id": id, "type": "a", "data": 1}).to_string();
    world.post("/v1/events", event).await.expect(StatusCode::ACCEPTED);
    world.work().await;
}

async fn list(world: &World, query: &str) -> Vec<Value> {
    let listed = world.get(&format!("/v1/deliveries?{query}")).await.expect(StatusCode::OK);
    assert_eq!(listed["next"], Value::Null);
    listed["items"].as_array().unwrap().clone()
}

async fn events_of(world: &World, query: &str) -> Vec<Value> {
    list(world, query).await.iter().map(|delivery| delivery["event_id"].clone()).collect()
}

#[tokio::test]
async fn a_delivery_is_shown_with_its_attempts() {
    let world = World::new();
    let subscription = world.subscribe("a").await;
    world.receiver.status.store(503, Ordering::Relaxed);
    post(&world, "x").await;
    let delivery = list(&world, "").await.remove(0);
    let id = delivery["id"].as_str().unwrap();
    let attempt = json!({
        "n": 0, "epoch": 0, "at": "2026-01-01T00:00:00.000Z", "outcome": "failure", "status": 503,
        "error": delivery["attempts"][0]["error"], "ms": 3, "excerpt": "thanks",
    });
    let expected = json!({
        "id": id, "event_id": "x", "type": "a", "subscription_id": subscription["id"],
        "url_id": subscription["url_id"], "url": "https://receiver.example/a", "state": "waiting",
        "reason": null, "epoch": 0, "accepted_at": "2026-01-01T00:00:00.000Z",
        "due_at": "2026-01-01T00:01:24.800Z", "expires_at": "2026-01-03T04:00:00.000Z",
        "attempts": [attempt],
    });
    assert_eq!(delivery, expected);
    assert_eq!(world.get(&format!("/v1/deliveries/{id}")).await.expect(StatusCode::OK), expected);
}

#[tokio::test]
async fn deliveries_are_filtered() {
    let world = World::new();
    let (a, b) = (world.subscribe("a").await, world.subscribe("b").await);
    post(&world, "x").await;
    world.clock.advance(Duration::from_secs(60));
    world.receiver.status.store(500, Ordering::Relaxed);
    post(&world, "y").await;
    let (url, subscription) = (a["url_id"].as_str().unwrap(), b["id"].as_str().unwrap());
    let until = "2026-01-01T00:01:00Z";
    for (query, events) in [
        (String::new(), vec!["y", "y", "x", "x"]),
        ("event=x".to_owned(), vec!["x", "x"]),
        ("event=unknown".to_owned(), vec![]),
        (format!("url={url}"), vec!["y", "x"]),
        (format!("subscription={subscription}"), vec!["y", "x"]),
        (format!("url={url}&subscription={subscription}"), vec![]),
        (format!("event=y&url={url}"), vec!["y"]),
        ("state=delivered".to_owned(), vec!["x", "x"]),
        ("event=x&state=waiting".to_owned(), vec![]),
        (format!("since={until}"), vec!["y", "y"]),
        (format!("until={until}"), vec!["x", "x"]),
        ("since=2026-01-01T02:01:00%2B02:00&state=waiting".to_owned(), vec!["y", "y"]),
        ("url=nonsense".to_owned(), vec![]),
        ("event=x&subscription=nonsense".to_owned(), vec![]),
    ] {
        assert_eq!(events_of(&world, &query).await, events, "{query}");
    }
}

#[tokio::test]
async fn a_delivered_delivery_is_replayed() {
    let world = World::new();
    world.subscribe("a").await;
    post(&world, "x").await;
    let id = list(&world, "").await[0]["id"].as_str().unwrap().to_owned();
    let answer = world.post(&format!("/v1/deliveries/{id}/replay"), "").await.expect(StatusCode::ACCEPTED);
    assert_eq!(answer, json!({"id": answer["id"], "matched": 1}));
    let again = world.post(&format!("/v1/deliveries/{id}/replay"), "").await;
    again.problem(409);
    assert!(again.detail().contains("waiting"), "{}", again.detail());
    world.work().await;
    let shown = world.get(&format!("/v1/deliveries/{id}")).await.expect(StatusCode::OK);
    assert_eq!((&shown["state"], &shown["epoch"]), (&json!("delivered"), &json!(1)));
    let bodies = world.receiver.bodies();
    assert_eq!(bodies.len(), 2);
    assert_eq!(bodies[0], bodies[1]);
}

#[tokio::test]
async fn a_delivery_of_a_deleted_subscription_is_not_replayed() {
    let world = World::new();
    let subscription = world.subscribe("a").await;
    post(&world, "x").await;
    let id = list(&world, "").await[0]["id"].as_str().unwrap().to_owned();
    let path = format!("/v1/subscriptions/{}", subscription["id"].as_str().unwrap());
    world.call("DELETE", &path, "").await;
    let answer = world.post(&format!("/v1/deliveries/{id}/replay"), "").await;
    answer.problem(409);
    assert!(answer.detail().contains("subscription was deleted"), "{}", answer.detail());
}

#[tokio::test]
async fn a_delivery_without_its_body_is_not_replayed() {
    let world = World::new();
    world.subscribe("a").await;
    world.post("/v1/events", r#"{"id":"x","type":"a","data":1}"#).await.expect(StatusCode::ACCEPTED);
    world.work().await;
    let id = list(&world, "").await[0]["id"].as_str().unwrap().to_owned();
    // The records are put back, the bodies are not.
    let records = world.store.all();
    world.store.purge(Timestamp::from_millis(i64::MAX));
    world.store.put_each(records).await.unwrap();
    let answer = world.post(&format!("/v1/deliveries/{id}/replay"), "").await;
    answer.problem(409);
    assert!(answer.detail().contains("body"), "{}", answer.detail());
}

#[tokio::test]
async fn long_responses_are_cut_in_lists() {
    let world = World::new();
    world.subscribe("a").await;
    // The limit is in the middle of a character.
    let long = format!("x{}", "é".repeat(1_000));
    world.receiver.response_body.set(long.clone()).unwrap();
    world.post("/v1/events", r#"{"id":"x","type":"a","data":1}"#).await.expect(StatusCode::ACCEPTED);
    world.work().await;
    let listed = world.get("/v1/deliveries").await.expect(StatusCode::OK)["items"][0].clone();
    let event = world.get("/v1/events/x").await.expect(StatusCode::OK)["deliveries"][0].clone();
    for shown in [&listed, &event] {
        assert_eq!(shown["attempts"][0]["excerpt"], long[..255]);
    }
    let one = world.get(&format!("/v1/deliveries/{}", listed["id"].as_str().unwrap())).await;
    assert_eq!(one.expect(StatusCode::OK)["attempts"][0]["excerpt"], long);
}

#[tokio::test]
async fn an_impossible_event_id_has_no_deliveries() {
    let world = World::new();
    for id in ["é".repeat(2_000), "%00".to_owned(), "a%20b".to_owned()] {
        let id: String = url::form_urlencoded::byte_serialize(id.as_bytes()).collect();
        let listed = world.get(&format!("/v1/deliveries?event={id}")).await.expect(StatusCode::OK);
        assert_eq!(listed["items"], json!([]));
    }
}
