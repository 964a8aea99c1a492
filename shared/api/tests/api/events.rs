use std::sync::atomic::Ordering;

use axum::http::StatusCode;
use holdfast_core::engine::DeliveryLog;
use serde_json::{Value, json};

use crate::world::World;

#[tokio::test]
async fn an_event_is_accepted_delivered_and_shown() {
    let world = World::new();
    let subscription = world.subscribe("a").await;
    let event = r#"{"id":"order/1","type":"order.created","subject":"o1","data":{"b":1,"a":[]}}"#;
    let answer = world.post("/v1/events", event).await.expect(StatusCode::ACCEPTED);
    assert_eq!(answer, json!({"id": "order/1", "deliveries": 1, "duplicate": false}));
    world.work().await;

    let answer = world.get("/v1/events/order%2F1").await;
    let text = String::from_utf8(answer.body.to_vec()).unwrap();
    assert!(text.contains(r#""data":{"b":1,"a":[]}"#), "{text}");
    let mut shown = answer.expect(StatusCode::OK);
    let deliveries = shown["deliveries"].take();
    let expected = json!({
        "id": "order/1", "type": "order.created", "timestamp": "2026-01-01T00:00:00.000Z", "subject": "o1",
        "data": {"b": 1, "a": []}, "delivery_count": 1, "deliveries": null,
        "more": false,
    });
    assert_eq!(shown, expected);
    assert_eq!(deliveries.as_array().unwrap().len(), 1);
    assert_eq!(deliveries[0]["state"], "delivered");
    assert_eq!(deliveries[0]["subscription_id"], subscription["id"]);
}

#[tokio::test]
async fn an_event_without_subscriptions_is_accepted() {
    let world = World::new();
    let answer = world.post("/v1/events", r#"{"type":"a","data":null}"#).await.expect(StatusCode::ACCEPTED);
    assert_eq!(answer["deliveries"], 0);
    let id = answer["id"].as_str().unwrap();
    assert!(id.starts_with("evt_"));
    let shown = world.get(&format!("/v1/events/{id}")).await.expect(StatusCode::OK);
    assert_eq!((&shown["subject"], &shown["deliveries"]), (&Value::Null, &json!([])));
    assert_eq!(shown.get("data"), None, "the body is not stored");
}

#[tokio::test]
async fn optional_fields_may_be_null_and_content_types_do_not_matter() {
    let world = World::new();
    let event = " \n{\"id\":null,\"subject\":null,\"type\":\"a\",\"data\":null}\t";
    world.post("/v1/events", event).await.expect(StatusCode::ACCEPTED);
}

#[tokio::test]
async fn an_array_is_answered_in_order() {
    let world = World::new();
    world.subscribe("a").await;
    let one = world.post("/v1/events", r#" [{"id":"x","type":"a","data":1}]"#).await;
    let expected = json!({"items": [{"id": "x", "deliveries": 1, "duplicate": false}]});
    assert_eq!(one.expect(StatusCode::ACCEPTED), expected);

    let events: Vec<_> = (0..100).map(|n| json!({"id": format!("e{n}"), "type": "a", "data": n})).collect();
    let answer = world.post("/v1/events", json!(events).to_string()).await.expect(StatusCode::ACCEPTED);
    let ids: Vec<_> = answer["items"].as_array().unwrap().iter().map(|item| item["id"].clone()).collect();
    assert_eq!(ids, (0..100).map(|n| json!(format!("e{n}"))).collect::<Vec<_>>());
    world.work().await;
    assert_eq!(world.receiver.bodies().len(), 101);
}

#[tokio::test]
async fn one_invalid_event_rejects_the_whole_array() {
    let world = World::new();
    world.subscribe("a").await;
    let events =
        r#"[{"type":"a","data":1},{"type":"a","data":1},{"type":"a","data":1},{"type":"","data":1},7]"#;
    assert_eq!(world.post("/v1/events", events).await.problem(400), ["[3].type", "[4]"]);
    world.work().await;
    assert!(world.receiver.bodies().is_empty());
}

#[tokio::test]
async fn a_failed_attempt_is_shown_with_the_event() {
    let world = World::new();
    world.subscribe("a").await;
    world.receiver.status.store(500, Ordering::Relaxed);
    world.post("/v1/events", r#"{"id":"x","type":"a","data":1}"#).await.expect(StatusCode::ACCEPTED);
    world.work().await;
    let shown = world.get("/v1/events/x").await.expect(StatusCode::OK);
    assert_eq!(shown["deliveries"][0]["state"], "waiting");
    assert_eq!(shown["deliveries"][0]["attempts"][0]["status"], 500);
}

#[tokio::test]
async fn with_the_cheapest_log_only_failed_events_without_an_id_are_found() {
    let world = World::with(true, DeliveryLog::Trouble);
    world.subscribe("a").await;
    let event = r#"{"type":"a","subject":"s","data":1}"#;
    let good = world.post("/v1/events", event).await.expect(StatusCode::ACCEPTED);
    world.work().await;
    world.get(&format!("/v1/events/{}", good["id"].as_str().unwrap())).await.problem(404);

    world.receiver.status.store(500, Ordering::Relaxed);
    let bad = world.post("/v1/events", event).await.expect(StatusCode::ACCEPTED);
    world.work().await;
    let id = bad["id"].as_str().unwrap();
    let shown = world.get(&format!("/v1/events/{id}")).await.expect(StatusCode::OK);
    assert_eq!((&shown["id"], &shown["subject"], &shown["data"]), (&bad["id"], &json!("s"), &json!(1)));
    assert_eq!(shown["deliveries"][0]["attempts"][0]["status"], 500);
    let listed = world.get(&format!("/v1/deliveries?event={id}")).await.expect(StatusCode::OK);
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);
}
