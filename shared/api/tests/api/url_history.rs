//! The history of a URL's state, and its counters after a change.

use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::world::World;

async fn post(world: &World, events: usize) {
    let events: Vec<Value> = (0..events).map(|n| json!({"type": "a", "data": n})).collect();
    for some in events.chunks(100) {
        world.post("/v1/events", json!(some).to_string()).await.expect(StatusCode::ACCEPTED);
        world.work().await;
    }
}

async fn url_of(world: &World) -> String {
    format!("/v1/urls/{}", world.subscribe("a").await["url_id"].as_str().unwrap())
}

fn counters(url: &Value) -> [u64; 3] {
    ["streak", "window_attempts", "window_failures"].map(|name| url[name].as_u64().unwrap())
}

#[tokio::test]
async fn first_attempts_are_counted_apart_from_retries() {
    let world = World::new();
    let url = url_of(&world).await;
    post(&world, 9).await;
    world.receiver.status.store(500, Ordering::Relaxed);
    post(&world, 3).await;
    for _ in 0..2 {
        world.clock.advance(Duration::from_secs(300));
        world.work().await;
    }
    let first =
        |url: &Value| ["window_first_attempts", "window_first_failures"].map(|name| url[name].clone());
    let shown = world.get(&url).await.expect(StatusCode::OK);
    assert_eq!((counters(&shown), first(&shown)), ([9, 18, 9], [json!(12), json!(3)]));
    let listed = world.get("/v1/urls").await.expect(StatusCode::OK);
    assert_eq!(first(&listed["items"][0]), first(&shown));
    let enabled = world.post(&format!("{url}/enable"), "").await.expect(StatusCode::OK);
    assert_eq!((counters(&enabled), first(&enabled)), ([0, 0, 0], [json!(0), json!(0)]));
}

#[tokio::test]
async fn a_re_enabled_url_starts_with_clean_counters() {
    let world = World::new();
    let url = url_of(&world).await;
    world.receiver.status.store(500, Ordering::Relaxed);
    post(&world, 120).await;
    let disabled = world.get(&url).await.expect(StatusCode::OK);
    assert_eq!(disabled["state"], "disabled");
    assert!(disabled["parked"].as_u64().unwrap() > 0, "{disabled}");
    let enabled = world.post(&format!("{url}/enable"), r#"{"reason":"fixed"}"#).await.expect(StatusCode::OK);
    assert_eq!((&enabled["state"], counters(&enabled)), (&json!("enabled"), [0, 0, 0]));
    // The first step of the release fails too, and one failure does not disable a URL.
    world.work().await;
    let failed = world.get(&url).await.expect(StatusCode::OK);
    assert_eq!((&failed["state"], counters(&failed)), (&json!("enabled"), [1, 1, 1]));
    world.receiver.status.store(200, Ordering::Relaxed);
    for _ in 0..10 {
        world.clock.advance(Duration::from_secs(5));
        world.work().await;
    }
    let recovered = world.get(&url).await.expect(StatusCode::OK);
    assert_eq!(
        (&recovered["state"], &recovered["streak"], &recovered["parked"]),
        (&json!("enabled"), &json!(0), &json!(0))
    );

    let history = recovered["history"].as_array().unwrap();
    let [by_hand, automatic] = &history[..] else { panic!("{history:?}") };
    let at = "2026-01-01T00:00:00.000Z";
    assert_eq!(
        *by_hand,
        json!({"at": at, "from": "disabled", "to": "enabled", "by": "built-in", "why": "fixed"})
    );
    let why = &automatic["why"];
    assert!(why.as_str().unwrap().ends_with("attempts failed"), "{why}");
    let expected = json!({
        "at": automatic["at"], "from": "enabled", "to": "disabled", "by": "holdfast", "why": why,
    });
    assert_eq!(*automatic, expected);
}

#[tokio::test]
async fn a_probe_that_succeeds_is_in_the_history() {
    let world = World::new();
    let url = url_of(&world).await;
    world.post(&format!("{url}/disable"), r#"{"reason":"moving"}"#).await.expect(StatusCode::OK);
    post(&world, 1).await;
    world.clock.advance(Duration::from_secs(600));
    world.sweep().await;
    world.work().await;
    let shown = world.get(&url).await.expect(StatusCode::OK);
    assert_eq!((&shown["state"], counters(&shown)), (&json!("enabled"), [0, 0, 0]));
    let change = &shown["history"][0];
    let expected = json!({
        "at": change["at"], "from": "disabled", "to": "enabled", "by": "holdfast", "why": "a probe succeeded",
    });
    assert_eq!(*change, expected);
    assert!(change["at"].as_str().unwrap().starts_with("2026-01-01T00:10:00"), "{change}");
}

#[tokio::test]
async fn parked_deliveries_are_counted_up_to_a_thousand() {
    let world = World::new();
    let url = url_of(&world).await;
    world.post(&format!("{url}/freeze"), "").await.expect(StatusCode::OK);
    post(&world, 1_000).await;
    let shown = world.get(&url).await.expect(StatusCode::OK);
    assert_eq!((&shown["parked"], &shown["parked_more"]), (&json!(1_000), &json!(false)));
    post(&world, 1).await;
    let shown = world.get(&url).await.expect(StatusCode::OK);
    assert_eq!((&shown["parked"], &shown["parked_more"]), (&json!(1_000), &json!(true)));
    let enabled = world.post(&format!("{url}/enable"), "").await.expect(StatusCode::OK);
    let counts = ["released", "expired", "more"].map(|name| enabled[name].clone());
    assert_eq!(counts, [json!(1_000), json!(0), json!(true)]);
}
