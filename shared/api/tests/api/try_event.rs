//! Which subscriptions a sample event would match.

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::world::World;

async fn try_event(world: &World, body: Value) -> Value {
    world.post("/v1/subscriptions/test", body.to_string()).await.expect(StatusCode::OK)
}

#[tokio::test]
async fn a_sample_says_who_would_get_it_and_why_not() {
    let world = World::new();
    let subscribe = async |path: &str, more: Value| {
        let mut body = json!({"url": format!("https://receiver.example/{path}"), "event_types": ["order.*"]});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        world.post("/v1/subscriptions", body.to_string()).await.expect(StatusCode::CREATED);
    };
    let filter = json!({"field": "data.total", "op": "gte", "value": 100});
    subscribe("all", json!({})).await;
    subscribe("large", json!({"filters": [filter]})).await;
    subscribe("off", json!({"active": false})).await;
    subscribe("other", json!({"event_types": ["invoice.*"]})).await;
    let before = world.store.all();
    let tried = try_event(&world, json!({"type": "order.paid", "data": {"total": 7}, "subject": "x"})).await;
    assert!(world.store.all() == before, "nothing was written");
    assert_eq!((&tried["matched"], tried.get("partial")), (&json!(1), None));
    let found: Vec<_> = tried["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| {
            let path = item["url"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
            (path, item["matches"].clone(), item["reason"].clone())
        })
        .collect();
    let expected = [
        ("all", true, None),
        ("large", false, Some("filter")),
        ("off", false, Some("inactive")),
        ("other", false, Some("type")),
    ];
    assert_eq!(
        found,
        expected.map(|(path, matches, reason)| (path.to_owned(), json!(matches), json!(reason)))
    );
    assert_eq!(tried["items"][1]["refused_by"], json!({"filter": filter, "found": 7, "is_missing": false}));
    let large = try_event(&world, json!({"type": "order.paid", "data": {"total": 100}})).await;
    assert_eq!(large["matched"], 2);
    world.work().await;
    assert_eq!(world.receiver.bodies().len(), 0);
}

#[tokio::test]
async fn a_sample_may_be_an_event_of_holdfast_and_must_be_small() {
    let world = World::new();
    let body = json!({"url": "https://receiver.example/a", "event_types": ["holdfast.url.*"]});
    world.post("/v1/subscriptions", body.to_string()).await.expect(StatusCode::CREATED);
    assert_eq!(try_event(&world, json!({"type": "holdfast.url.frozen", "data": {}})).await["matched"], 1);
    let large = json!({"type": "a", "data": "x".repeat(70_000)}).to_string();
    world.post("/v1/subscriptions/test", large).await.problem(413);
    let wrong = world.post("/v1/subscriptions/test", r#"{"type":"a b","id":"x"}"#).await;
    let mut fields = wrong.problem(400);
    fields.sort();
    assert_eq!(fields, ["data", "id", "type"]);
}

/// Whole subscriptions of one call took 125 MB.
#[tokio::test]
async fn large_subscriptions_are_asked_until_the_answer_is_large() {
    let world = World::new();
    let filter = |n| json!({"field": "data.text", "op": "eq", "value": format!("{n}{}", "x".repeat(16_000))});
    for n in 0..60 {
        let body = json!({"url": format!("https://receiver.example/{n}"), "event_types": ["order.*"], "filters": [filter(n)]});
        world.post("/v1/subscriptions", body.to_string()).await.expect(StatusCode::CREATED);
    }
    let tried = try_event(&world, json!({"type": "order.paid", "data": {"text": "y"}})).await;
    let count = tried["items"].as_array().unwrap().len();
    assert!((30..60).contains(&count) && tried["partial"] == true, "{count} of 60");
    let tried = try_event(&world, json!({"type": "invoice.paid", "data": {}})).await;
    assert_eq!((tried["items"].as_array().unwrap().len(), tried.get("partial")), (60, None));
}
