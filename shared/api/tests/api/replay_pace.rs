//! Bulk replays run at the pace of a release.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::http::StatusCode;
use holdfast_core::records::{DeliveryRecord, Record};
use holdfast_core::rules::delivery::DeliveryState;
use serde_json::{Value, json};

use crate::world::World;

const SECOND: Duration = Duration::from_secs(1);

/// A URL that was frozen until these events had expired, and is enabled again. Returns its path in the API.
async fn url_with_dead(world: &World, events: usize, sweeps: usize) -> String {
    let url = format!("/v1/urls/{}", world.subscribe("a").await["url_id"].as_str().unwrap());
    world.post(&format!("{url}/freeze"), "").await.expect(StatusCode::OK);
    let all: Vec<Value> =
        (0..events).map(|n| json!({"id": format!("e{n}"), "type": "a", "data": n})).collect();
    for some in all.chunks(100) {
        world.post("/v1/events", json!(some).to_string()).await.expect(StatusCode::ACCEPTED);
        world.work().await;
    }
    world.clock.advance(Duration::from_secs(53 * 3600));
    for _ in 0..sweeps {
        world.sweep().await;
    }
    world.post(&format!("{url}/enable"), "").await.expect(StatusCode::OK);
    url
}

/// The tickets of a step are spread over its 5 s. The next step is due then.
async fn rest_of_step(world: &World) {
    for _ in 0..4 {
        world.clock.advance(SECOND);
        world.work().await;
    }
    world.clock.advance(SECOND);
}

/// Runs a replay to its end, step by step. Returns how many deliveries each step replayed.
async fn steps_of(world: &World, id: &Value, mut before_step: impl FnMut(usize)) -> (Vec<u64>, Value) {
    let path = format!("/v1/replays/{}", id.as_str().unwrap());
    let (mut steps, mut done) = (Vec::new(), 0);
    for step in 0..1_000 {
        before_step(step);
        world.work().await;
        let shown = world.get(&path).await.expect(StatusCode::OK);
        let now_done = shown["done"].as_u64().unwrap();
        assert!(now_done >= done, "`done` fell from {done} to {now_done}");
        steps.push(now_done - done);
        done = now_done;
        if shown["state"] == "done" {
            rest_of_step(world).await;
            return (steps, shown);
        }
        assert_eq!((&shown["state"], &shown["ended_at"]), (&json!("running"), &Value::Null));
        rest_of_step(world).await;
    }
    panic!("the replay does not end: {steps:?}");
}

fn records(world: &World) -> Vec<DeliveryRecord> {
    let all = world.store.all().into_iter();
    all.filter_map(|record| match record {
        Record::Delivery(record) => Some(record),
        _ => None,
    })
    .collect()
}

fn received(world: &World) -> Vec<String> {
    let id = |body: &bytes::Bytes| {
        let body: Value = serde_json::from_slice(body).unwrap();
        body["id"].as_str().unwrap().to_owned()
    };
    world.receiver.bodies().iter().map(id).collect()
}

#[tokio::test]
async fn ten_thousand_dead_deliveries_are_replayed_in_growing_steps() {
    let world = World::new();
    // Two sweeps record most of them as dead; the others are expired but not recorded yet.
    let url = url_with_dead(&world, 10_000, 2).await;
    let found_dead = records(&world).iter().filter(|d| d.progress.state == DeliveryState::Dead).count();
    assert!((1..10_000).contains(&found_dead), "{found_dead}");
    let started = world.post(&format!("{url}/replay"), "").await.expect(StatusCode::ACCEPTED);
    assert_eq!(started, json!({"id": started["id"], "matched": 10_000}));

    let (steps, shown) = steps_of(&world, &started["id"], |_| {}).await;
    let mut expected: Vec<u64> = (0..13).map(|n| 1 << n).collect();
    expected.push(10_000 - 8_191);
    assert_eq!(steps, expected);
    let counts = ["matched", "more", "done", "skipped"].map(|name| shown[name].clone());
    assert_eq!(counts, [json!(10_000), json!(false), json!(10_000), json!(0)]);
    assert_eq!(shown["ended_at"], "2026-01-03T05:01:05.000Z");

    let received = received(&world);
    assert_eq!((received.len(), received.iter().collect::<BTreeSet<_>>().len()), (10_000, 10_000));
    let once = |d: &DeliveryRecord| d.progress.state == DeliveryState::Delivered && d.progress.epoch == 1;
    assert!(records(&world).iter().all(once));
}

#[tokio::test]
async fn a_step_with_a_failure_goes_back_to_one() {
    let world = World::new();
    let url = url_with_dead(&world, 40, 1).await;
    let started = world.post(&format!("{url}/replay"), "").await.expect(StatusCode::ACCEPTED);
    let (steps, shown) = steps_of(&world, &started["id"], |step| {
        let status = if step == 3 { 500 } else { 200 };
        world.receiver.status.store(status, Ordering::Relaxed);
    })
    .await;
    assert_eq!(steps, [1, 2, 4, 8, 1, 2, 4, 8, 10]);
    assert_eq!(shown["done"], 40);
    // Those that failed have a schedule of their own.
    world.clock.advance(Duration::from_secs(90));
    world.work().await;
    assert!(
        records(&world).iter().all(|d| d.progress.state == DeliveryState::Delivered && d.progress.epoch == 1)
    );
}

#[tokio::test]
async fn a_duplicated_ticket_does_not_double_the_pace() {
    let world = World::new();
    let url = url_with_dead(&world, 100, 1).await;
    let started = world.post(&format!("{url}/replay"), "").await.expect(StatusCode::ACCEPTED);
    let (steps, _) = steps_of(&world, &started["id"], |_| world.duplicate_tickets()).await;
    assert_eq!(steps, [1, 2, 4, 8, 16, 32, 37]);
    assert_eq!(received(&world).len(), 100);
}

#[tokio::test]
async fn a_lost_ticket_is_sent_again_by_the_sweep() {
    let world = World::new();
    let url = url_with_dead(&world, 3, 1).await;
    world.work().await;
    world.queue.broken.store(true, Ordering::Relaxed);
    let started = world.post(&format!("{url}/replay"), "").await.expect(StatusCode::ACCEPTED);
    world.queue.broken.store(false, Ordering::Relaxed);
    world.work().await;
    let path = format!("/v1/replays/{}", started["id"].as_str().unwrap());
    assert_eq!(world.get(&path).await.expect(StatusCode::OK)["done"], 0);
    world.clock.advance(Duration::from_secs(5 * 60));
    world.sweep().await;
    assert_eq!(steps_of(&world, &started["id"], |_| {}).await.0, [1, 2]);
}

#[tokio::test]
async fn at_a_frozen_url_it_goes_on_and_nothing_is_attempted() {
    let world = World::new();
    let url = url_with_dead(&world, 12, 1).await;
    world.post(&format!("{url}/freeze"), "").await.expect(StatusCode::OK);
    let started = world.post(&format!("{url}/replay"), "").await.expect(StatusCode::ACCEPTED);
    assert_eq!(steps_of(&world, &started["id"], |_| {}).await.0, [1, 2, 4, 5]);
    assert_eq!(received(&world), Vec::<String>::new());
    assert_eq!(world.get(&url).await.expect(StatusCode::OK)["parked"], 12);
    let again = world.post(&format!("{url}/replay"), "").await.expect(StatusCode::ACCEPTED);
    assert_eq!(again["matched"], 0, "what is parked is left as it is");
}

#[tokio::test]
async fn a_replay_goes_on_as_fast_as_the_rate_of_its_tenant_allows() {
    let world = World::new();
    let url = url_with_dead(&world, 20, 1).await;
    world.patch("/v1/tenants/default", r#"{"events_per_second":2}"#).await.expect(StatusCode::OK);
    let started = world.post(&format!("{url}/replay"), "").await.expect(StatusCode::ACCEPTED);
    let (steps, shown) = steps_of(&world, &started["id"], |_| {}).await;
    assert!(steps.iter().all(|step| *step <= 2), "{steps:?}");
    assert_eq!((&shown["done"], &shown["skipped"]), (&json!(20), &json!(0)));
}
