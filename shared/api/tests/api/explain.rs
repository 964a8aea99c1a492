//! Why an event did, or did not, arrive.

use std::time::Duration;

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::world::World;

async fn subscribe(world: &World, body: Value) -> Value {
    world.post("/v1/subscriptions", body.to_string()).await.expect(StatusCode::CREATED)
}

async fn post(world: &World, id: &str, data: Value) {
    let body = json!({"id": id, "type": "order.paid", "data": data}).to_string();
    world.post("/v1/events", body).await.expect(StatusCode::ACCEPTED);
}

async fn explain(world: &World, event: &str, subscription: &Value) -> Value {
    let id = subscription["id"].as_str().unwrap();
    let path = format!("/v1/explain?event={event}&subscription={id}");
    let answer = world.get(&path).await.expect(StatusCode::OK);
    assert_eq!((&answer["event_id"], &answer["subscription_id"]), (&json!(event), &json!(id)));
    assert!(answer["summary"].as_str().unwrap().ends_with('.'), "{answer}");
    answer
}

/// The facts of an answer that have these names.
fn facts<const N: usize>(answer: &Value, names: [&str; N]) -> [Value; N] {
    names.map(|name| answer[name].clone())
}

#[tokio::test]
async fn a_delivery_says_how_far_it_is() {
    let world = World::new();
    let one = world.subscribe("a").await;
    post(&world, "e1", json!(1)).await;
    assert_eq!(explain(&world, "e1", &one).await["verdict"], "on_its_way");
    world.work().await;
    let delivered = explain(&world, "e1", &one).await;
    assert_eq!(delivered["verdict"], "delivered");
    assert_eq!(
        facts(&delivered, ["attempts", "last_status", "delivered_at"]),
        [json!(1), json!(200), json!("2026-01-01T00:00:00.003Z")]
    );
    assert_eq!(delivered["summary"], "It was delivered with the first attempt: the receiver answered 200.");

    world.receiver.respond_at("a", 503);
    post(&world, "e2", json!(1)).await;
    world.work().await;
    let waiting = explain(&world, "e2", &one).await;
    assert_eq!(waiting["verdict"], "waiting");
    let expected = [json!(1), json!("2026-01-01T00:01:24.800Z"), json!("2026-01-03T04:00:00.000Z")];
    assert_eq!(facts(&waiting, ["next_retry", "due_at", "expires_at"]), expected);
    assert_eq!(waiting["last_error"], "status: the receiver answered 503");

    let url = format!("/v1/urls/{}", one["url_id"].as_str().unwrap());
    world.post(&format!("{url}/freeze"), r#"{"reason":"moving"}"#).await.expect(StatusCode::OK);
    world.clock.advance(Duration::from_secs(100));
    world.work().await;
    let parked = explain(&world, "e2", &one).await;
    assert_eq!(
        facts(&parked, ["verdict", "url_state", "url_reason"]),
        [json!("parked"), json!("frozen"), json!("moving")]
    );
    world.clock.advance(Duration::from_secs(53 * 3600));
    let dead = explain(&world, "e2", &one).await;
    assert_eq!(
        facts(&dead, ["verdict", "dead_reason", "next_retry"]),
        [json!("dead"), json!("expired"), Value::Null]
    );
}

#[tokio::test]
async fn what_was_not_sent_says_why() {
    let world = World::new();
    let url = |path: &str| format!("https://receiver.example/{path}");
    let all = world.subscribe("all").await;
    let filter = json!({"field": "data.total", "op": "gt", "value": 100});
    let filtered =
        subscribe(&world, json!({"url": url("b"), "event_types": ["order.*"], "filters": [filter]})).await;
    let other = subscribe(&world, json!({"url": url("c"), "event_types": ["invoice.*", "order"]})).await;
    let inactive = subscribe(&world, json!({"url": url("d"), "event_types": ["*"], "active": false})).await;
    world.receiver.respond_at("all", 500);
    post(&world, "e1", json!({"total": 7})).await;
    world.work().await;
    world.clock.advance(Duration::from_secs(1));
    let later = subscribe(&world, json!({"url": url("e"), "event_types": ["*"]})).await;

    let refused = explain(&world, "e1", &filtered).await;
    assert_eq!(refused["verdict"], "refused_by_filter");
    assert_eq!(refused["refused_by"], json!({"filter": filter, "found": 7, "is_missing": false}));
    assert_eq!(refused["summary"], "It was not sent: the filter \"data.total gt 100\" found 7.");
    let mismatch = explain(&world, "e1", &other).await;
    assert_eq!(
        facts(&mismatch, ["verdict", "event_type"]),
        [json!("type_not_subscribed"), json!("order.paid")]
    );
    assert_eq!(mismatch["event_types"], json!(["invoice.*", "order"]));
    assert_eq!(explain(&world, "e1", &inactive).await["verdict"], "inactive");
    let late = explain(&world, "e1", &later).await;
    assert_eq!(
        facts(&late, ["verdict", "subscribed_at"]),
        [json!("subscribed_later"), json!("2026-01-01T00:00:01.000Z")]
    );
    assert_eq!(explain(&world, "nothing", &all).await["verdict"], "unknown_event");
    let gone = json!({"id": format!("sub_{}", "0".repeat(26))});
    assert_eq!(explain(&world, "e1", &gone).await["verdict"], "unknown_subscription");
    assert_eq!(explain(&world, "e1", &json!({"id": "x"})).await["verdict"], "unknown_subscription");
}

/// The body of an event that no subscription took was not stored, and which filter refused it could not be told.
#[tokio::test]
async fn an_event_that_no_subscription_took_says_which_filter_refused_it() {
    let world = World::new();
    let filter = json!({"field": "data.total", "op": "gt", "value": 100});
    let body = json!({"url": "https://receiver.example/b", "event_types": ["order.*"], "filters": [filter]});
    let filtered = subscribe(&world, body).await;
    post(&world, "given", json!({"total": 7})).await;
    let generated = json!({"type": "order.paid", "data": {"total": 8}}).to_string();
    let generated = world.post("/v1/events", generated).await.expect(StatusCode::ACCEPTED);
    assert_eq!(generated["deliveries"], 0);
    for (id, found) in [("given", 7), (generated["id"].as_str().unwrap(), 8)] {
        let refused = explain(&world, id, &filtered).await;
        assert_eq!(refused["verdict"], "refused_by_filter", "{refused}");
        assert_eq!(refused["refused_by"], json!({"filter": filter, "found": found, "is_missing": false}));
    }
}

#[tokio::test]
async fn both_ids_are_required_and_other_tenants_have_none_of_them() {
    let world = World::new();
    let one = world.subscribe("a").await;
    post(&world, "e1", json!(1)).await;
    world.work().await;
    let mut missing = world.get("/v1/explain").await.problem(400);
    missing.sort();
    assert_eq!(missing, ["event", "subscription"]);
    assert_eq!(world.get("/v1/explain?event=&subscription=x").await.problem(400), ["event"]);
    let other = world.key("beta", "admin").await;
    let path = format!("/v1/explain?event=e1&subscription={}", one["id"].as_str().unwrap());
    let answer = world.call_as(&other, "GET", &path, "").await.expect(StatusCode::OK);
    assert_eq!(
        facts(&answer, ["verdict", "subscribed_at", "event_type"]),
        [json!("unknown_event"), Value::Null, Value::Null]
    );
}
