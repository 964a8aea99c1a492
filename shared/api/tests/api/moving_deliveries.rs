//! Live deliveries follow the changes of their subscription.

use std::time::Duration;

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::world::World;

const HOUR: Duration = Duration::from_secs(3600);

/// A subscription with a waiting delivery and one that is parked, because its URL was frozen in between.
struct Scene {
    world: World,
    subscription: Value,
    waiting: String,
    parked: String,
}

impl Scene {
    async fn new() -> Scene {
        let world = World::new();
        let subscription = world.subscribe("old").await;
        world.receiver.respond_at("old", 500);
        let waiting = post(&world).await;
        let scene = Scene { waiting, parked: String::new(), subscription, world };
        scene.change_url_state("freeze").await;
        let parked = post(&scene.world).await;
        let scene = Scene { parked, ..scene };
        assert_eq!(scene.states().await, ["waiting", "parked"]);
        assert_eq!(scene.world.receiver.requests_to("old").len(), 1);
        scene
    }

    fn path(&self) -> String {
        format!("/v1/subscriptions/{}", self.subscription["id"].as_str().unwrap())
    }

    async fn change_url_state(&self, action: &str) {
        let url_id = self.subscription["url_id"].as_str().unwrap();
        self.world.post(&format!("/v1/urls/{url_id}/{action}"), "").await.expect(StatusCode::OK);
    }

    async fn delivery(&self, id: &str) -> Value {
        let event = self.world.get(&format!("/v1/events/{id}")).await.expect(StatusCode::OK);
        event["deliveries"][0].clone()
    }

    async fn both(&self, field: &str) -> [Value; 2] {
        [self.delivery(&self.waiting).await[field].clone(), self.delivery(&self.parked).await[field].clone()]
    }

    async fn states(&self) -> [Value; 2] {
        self.both("state").await
    }

    async fn patch(&self, patch: Value) -> Value {
        let answer = self.world.patch(&self.path(), patch.to_string()).await.expect(StatusCode::OK);
        self.world.work().await;
        answer
    }

    async fn hours(&self, hours: u32) {
        for _ in 0..hours * 60 {
            self.world.clock.advance(HOUR / 60);
            self.world.sweep().await;
            self.world.work().await;
        }
    }
}

async fn post(world: &World) -> String {
    let answer = world.post("/v1/events", r#"{"type":"a","data":1}"#).await.expect(StatusCode::ACCEPTED);
    world.work().await;
    answer["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn waiting_and_parked_deliveries_move_to_the_new_url() {
    let scene = Scene::new().await;
    let due = scene.both("due_at").await;
    let answer = scene.patch(json!({"url": "https://receiver.example/new"})).await;
    assert_eq!(scene.both("url_id").await, [answer["url_id"].clone(), answer["url_id"].clone()]);
    assert_eq!(scene.both("url").await, [answer["url"].clone(), answer["url"].clone()]);
    // The parked one is released, because the new URL is enabled; the waiting one keeps its due time.
    assert_eq!(scene.states().await, ["waiting", "delivered"]);
    assert_eq!(scene.both("due_at").await[0], due[0]);
    let old = scene.world.get(&format!("/v1/urls/{}", scene.subscription["url_id"].as_str().unwrap())).await;
    assert_eq!(old.expect(StatusCode::OK)["parked"], 0);
    scene.hours(1).await;
    assert_eq!(scene.states().await, ["delivered", "delivered"]);
    assert_eq!(scene.world.receiver.requests_to("new").len(), 2);
    assert_eq!(scene.world.receiver.requests_to("old").len(), 1, "nothing more at the old URL");
}

#[tokio::test]
async fn at_a_frozen_new_url_they_are_parked_until_it_is_enabled() {
    let scene = Scene::new().await;
    let other = scene.world.subscribe("new").await;
    let path = format!("/v1/urls/{}", other["url_id"].as_str().unwrap());
    scene.world.post(&format!("{path}/freeze"), "").await.expect(StatusCode::OK);
    scene.patch(json!({"url": other["url"], "event_types": ["a"]})).await;
    assert_eq!(scene.states().await, ["waiting", "parked"]);
    assert_eq!(scene.world.get(&path).await.expect(StatusCode::OK)["parked"], 1);
    scene.hours(1).await;
    assert_eq!(scene.states().await, ["parked", "parked"]);
    assert_eq!(scene.world.get(&path).await.expect(StatusCode::OK)["parked"], 2);
    // Nothing is parked at the old URL any more.
    scene.change_url_state("enable").await;
    scene.hours(1).await;
    assert_eq!(scene.states().await, ["parked", "parked"]);
    scene.world.post(&format!("{path}/enable"), "").await.expect(StatusCode::OK);
    scene.hours(1).await;
    assert_eq!(scene.states().await, ["delivered", "delivered"]);
    assert_eq!(scene.world.receiver.requests_to("new").len(), 2);
    assert_eq!(scene.world.receiver.requests_to("old").len(), 1, "nothing more at the old URL");
}

#[tokio::test]
async fn a_probe_does_not_use_a_delivery_that_moved_away() {
    let world = World::new();
    let (moving, staying) = (world.subscribe("a").await, world.subscribe("b").await);
    let same = json!({"url": "https://receiver.example/a", "event_types": ["a"]});
    let staying_path = format!("/v1/subscriptions/{}", staying["id"].as_str().unwrap());
    world.patch(&staying_path, same.to_string()).await.expect(StatusCode::OK);
    let url = format!("/v1/urls/{}", moving["url_id"].as_str().unwrap());
    world.post(&format!("{url}/disable"), "").await.expect(StatusCode::OK);
    // The earliest one belongs to the subscription that moves.
    world.post("/v1/events", r#"{"type":"b","data":1}"#).await.expect(StatusCode::ACCEPTED);
    world.clock.advance(Duration::from_secs(1));
    for _ in 0..3 {
        post(&world).await;
    }
    assert_eq!(world.get(&url).await.expect(StatusCode::OK)["parked"], 7);
    // The ticket of the job is lost, so that the probe comes first.
    let moving_path = format!("/v1/subscriptions/{}", moving["id"].as_str().unwrap());
    let away = r#"{"url":"https://receiver.example/away"}"#;
    world.queue.broken.store(true, std::sync::atomic::Ordering::Relaxed);
    world.patch(&moving_path, away).await.expect(StatusCode::OK);
    world.queue.broken.store(false, std::sync::atomic::Ordering::Relaxed);
    world.clock.advance(Duration::from_secs(601));
    world.probe(&moving["url_id"]).await;
    assert_eq!(world.receiver.requests_to("a").len(), 1, "one probe");
    assert_eq!(world.get(&url).await.expect(StatusCode::OK)["state"], "enabled");
    for _ in 0..60 {
        world.clock.advance(Duration::from_secs(10));
        world.sweep().await;
        world.work().await;
    }
    assert_eq!((world.receiver.requests_to("a").len(), world.receiver.requests_to("away").len()), (3, 4));
}

#[tokio::test]
async fn deactivating_makes_waiting_and_parked_deliveries_dead() {
    let scene = Scene::new().await;
    scene.patch(json!({"active": false})).await;
    assert_eq!(scene.states().await, ["dead", "dead"]);
    assert_eq!(scene.both("reason").await, ["inactive", "inactive"]);
    scene.change_url_state("enable").await;
    scene.patch(json!({"active": true})).await;
    scene.hours(1).await;
    assert_eq!(scene.both("reason").await, ["inactive", "inactive"], "activating does not revive them");
    assert_eq!(scene.world.receiver.requests_to("old").len(), 1);
}

#[tokio::test]
async fn deleting_makes_waiting_and_parked_deliveries_dead() {
    let scene = Scene::new().await;
    assert_eq!(scene.world.call("DELETE", &scene.path(), "").await.status, StatusCode::NO_CONTENT);
    scene.world.work().await;
    assert_eq!(scene.states().await, ["dead", "dead"]);
    assert_eq!(scene.both("reason").await, ["unsubscribed", "unsubscribed"]);
    scene.change_url_state("enable").await;
    scene.hours(1).await;
    assert_eq!(scene.world.receiver.requests_to("old").len(), 1);
}

#[tokio::test]
async fn reactivating_before_the_job_runs_keeps_them() {
    let scene = Scene::new().await;
    for active in [false, true] {
        let body = json!({"active": active}).to_string();
        scene.world.patch(&scene.path(), body).await.expect(StatusCode::OK);
    }
    scene.world.work().await;
    assert_eq!(scene.states().await, ["waiting", "parked"]);
}
