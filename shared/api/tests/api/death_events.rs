//! The events that Holdfast sends when deliveries die.

use std::time::Duration;

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::world::World;

const MINUTE: Duration = Duration::from_secs(60);

/// The data of the events about deaths that the watching URL got.
fn deaths(world: &World) -> Vec<Value> {
    let bodies = world.receiver.requests_to("watch").into_iter().map(|request| request.body);
    let events = bodies.map(|body| serde_json::from_slice::<Value>(&body).unwrap());
    events
        .filter(|event| event["type"] == "holdfast.delivery.dead")
        .map(|event| event["data"].clone())
        .collect()
}

async fn watch(world: &World) -> Value {
    let body = json!({"url": "https://receiver.example/watch", "event_types": ["holdfast.delivery.*"]});
    world.post("/v1/subscriptions", body.to_string()).await.expect(StatusCode::CREATED)
}

async fn post(world: &World, count: usize) {
    let events = vec![json!({"type": "order.created", "data": 1}); count];
    world.post("/v1/events", json!(events).to_string()).await.expect(StatusCode::ACCEPTED);
    world.work().await;
}

/// Sweeps each minute.
async fn pass(world: &World, minutes: u32) {
    for _ in 0..minutes {
        world.clock.advance(MINUTE);
        world.sweep().await;
        world.work().await;
    }
}

#[tokio::test]
async fn deliveries_that_die_within_a_minute_are_announced_together() {
    let world = World::new();
    let url_id = world.subscribe("a").await["url_id"].as_str().unwrap().to_owned();
    watch(&world).await;
    world.post(&format!("/v1/urls/{url_id}/freeze"), "").await.expect(StatusCode::OK);
    post(&world, 3).await;
    world.clock.advance(Duration::from_secs(52 * 3600));
    pass(&world, 1).await;
    assert_eq!(deaths(&world), Vec::<Value>::new(), "the minute is not over");
    pass(&world, 4).await;
    let announced = deaths(&world);
    assert_eq!(announced.len(), 1, "{announced:?}");
    let data = &announced[0];
    assert_eq!(
        (&data["count"], &data["more"], &data["reasons"]),
        (&json!(3), &json!(false), &json!({"expired": 3}))
    );
    assert_eq!((&data["url_id"], &data["url"]), (&json!(url_id), &json!("https://receiver.example/a")));
    let list = data["list"].as_str().unwrap();
    let listed = world.get(list).await.expect(StatusCode::OK);
    let mut ids: Vec<&Value> = listed["items"].as_array().unwrap().iter().map(|item| &item["id"]).collect();
    ids.sort_by_key(|id| id.as_str());
    assert_eq!(json!(ids), data["delivery_ids"]);
    pass(&world, 10).await;
    assert_eq!(deaths(&world).len(), 1, "once");
}

#[tokio::test]
async fn a_delivery_that_used_up_its_retries_is_announced_and_one_without_a_subscription_is_not() {
    let world = World::new();
    world.subscribe("a").await;
    let gone = world.subscribe("gone").await;
    watch(&world).await;
    world.receiver.respond_at("a", 500);
    world.receiver.respond_at("gone", 500);
    post(&world, 1).await;
    let path = format!("/v1/subscriptions/{}", gone["id"].as_str().unwrap());
    assert_eq!(world.call("DELETE", &path, "").await.status, StatusCode::NO_CONTENT);
    world.work().await;
    pass(&world, 49 * 60).await;
    let announced = deaths(&world);
    assert_eq!(announced.len(), 1, "{announced:?}");
    assert_eq!((&announced[0]["count"], &announced[0]["reasons"]), (&json!(1), &json!({"exhausted": 1})));
}

#[tokio::test]
async fn deaths_of_own_events_are_not_announced() {
    let world = World::new();
    let url_id = world.subscribe("a").await["url_id"].as_str().unwrap().to_owned();
    let body = json!({"url": "https://receiver.example/watch", "event_types": ["holdfast.delivery.dead", "holdfast.url.*"]});
    let watching = world.post("/v1/subscriptions", body.to_string()).await.expect(StatusCode::CREATED);
    let watching = watching["url_id"].as_str().unwrap();
    world.post(&format!("/v1/urls/{watching}/freeze"), "").await.expect(StatusCode::OK);
    world.post(&format!("/v1/urls/{url_id}/freeze"), "").await.expect(StatusCode::OK);
    world.work().await;
    world.clock.advance(Duration::from_secs(52 * 3600));
    pass(&world, 5).await;
    let dead = world.get("/v1/deliveries?state=dead").await.expect(StatusCode::OK);
    assert!(!dead["items"].as_array().unwrap().is_empty());
    let listed = world.get("/v1/deliveries").await.expect(StatusCode::OK);
    let is_about_deaths = |item: &&Value| item["type"] == "holdfast.delivery.dead";
    assert_eq!(listed["items"].as_array().unwrap().iter().filter(is_about_deaths).count(), 0);
}
