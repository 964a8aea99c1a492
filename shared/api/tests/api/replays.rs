//! Which deliveries a replay includes.

use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::http::StatusCode;
use holdfast_core::ports::Store;
use holdfast_core::time::Timestamp;
use serde_json::{Value, json};

use crate::world::World;

const MINUTE: Duration = Duration::from_secs(60);

async fn post(world: &World, id: &str) {
    let event = json!({"id": id, "type": "a", "data": 1}).to_string();
    world.post("/v1/events", event).await.expect(StatusCode::ACCEPTED);
    world.work().await;
}

fn url_of(subscription: &Value) -> String {
    format!("/v1/urls/{}", subscription["url_id"].as_str().unwrap())
}

async fn delivery_of(world: &World, event: &str) -> Value {
    let listed = world.get(&format!("/v1/deliveries?event={event}")).await.expect(StatusCode::OK);
    listed["items"][0].clone()
}

async fn run_to_end(world: &World, id: &Value) -> Value {
    let path = format!("/v1/replays/{}", id.as_str().unwrap());
    for _ in 0..100 {
        world.work().await;
        let shown = world.get(&path).await.expect(StatusCode::OK);
        if shown["state"] == "done" {
            return shown;
        }
        world.clock.advance(Duration::from_secs(5));
    }
    panic!("the replay does not end");
}

async fn replay(world: &World, url: &str, request: Value) -> Value {
    let started =
        world.post(&format!("{url}/replay"), request.to_string()).await.expect(StatusCode::ACCEPTED);
    let shown = run_to_end(world, &started["id"]).await;
    assert_eq!(shown["matched"], started["matched"], "{request}");
    shown
}

fn counts(replay: &Value) -> [u64; 3] {
    ["matched", "done", "skipped"].map(|name| replay[name].as_u64().unwrap())
}

#[tokio::test]
async fn a_replay_of_one_delivery_is_shown_as_done() {
    let world = World::new();
    world.subscribe("a").await;
    post(&world, "x").await;
    let delivery = delivery_of(&world, "x").await;
    let path = format!("/v1/deliveries/{}/replay", delivery["id"].as_str().unwrap());
    let started = world.post(&path, "").await.expect(StatusCode::ACCEPTED);
    let shown = world.get(&format!("/v1/replays/{}", started["id"].as_str().unwrap())).await;
    let expected = json!({
        "id": started["id"], "state": "done", "delivery_id": delivery["id"], "since": null, "until": null,
        "states": [], "matched": 1, "more": false, "done": 1, "skipped": 0,
        "created_at": "2026-01-01T00:00:00.000Z", "ended_at": "2026-01-01T00:00:00.000Z",
    });
    assert_eq!(shown.expect(StatusCode::OK), expected);
}

#[tokio::test]
async fn the_newest_attempts_of_a_delivery_are_shown() {
    let world = World::new();
    world.subscribe("a").await;
    post(&world, "x").await;
    let id = delivery_of(&world, "x").await["id"].as_str().unwrap().to_owned();
    let epochs = |delivery: &Value| -> (u64, usize, u64) {
        let attempts = delivery["attempts"].as_array().unwrap();
        let epoch = |attempt: &Value| attempt["epoch"].as_u64().unwrap();
        (epoch(&attempts[0]), attempts.len(), epoch(&attempts[attempts.len() - 1]))
    };
    for _ in 0..250 {
        world.post(&format!("/v1/deliveries/{id}/replay"), "").await.expect(StatusCode::ACCEPTED);
        world.work().await;
    }
    let shown = world.get(&format!("/v1/deliveries/{id}")).await.expect(StatusCode::OK);
    assert_eq!(shown["state"], "delivered");
    assert_eq!(epochs(&shown), (151, 100, 250));
    assert_eq!(epochs(&delivery_of(&world, "x").await), (151, 100, 250), "the list of an event");
    let listed = world.get("/v1/deliveries").await.expect(StatusCode::OK);
    assert_eq!(epochs(&listed["items"][0]), (227, 24, 250));
}

#[tokio::test]
async fn a_replay_of_a_url_is_shown_while_it_runs() {
    let world = World::new();
    let url = url_of(&world.subscribe("a").await);
    post(&world, "x").await;
    let request = json!({"since": "2026-01-01T00:00:00Z", "states": ["delivered"]});
    let started =
        world.post(&format!("{url}/replay"), request.to_string()).await.expect(StatusCode::ACCEPTED);
    let shown = world.get(&format!("/v1/replays/{}", started["id"].as_str().unwrap())).await;
    let expected = json!({
        "id": started["id"], "state": "running", "url_id": url.rsplit('/').next(),
        "since": "2026-01-01T00:00:00.000Z", "until": "2026-01-01T00:00:00.000Z", "states": ["delivered"],
        "matched": 1, "more": false, "done": 0, "skipped": 0,
        "created_at": "2026-01-01T00:00:00.000Z", "ended_at": null,
    });
    assert_eq!(shown.expect(StatusCode::OK), expected);
    assert_eq!(counts(&run_to_end(&world, &started["id"]).await), [1, 1, 0]);
}

#[tokio::test]
async fn since_until_and_states_decide_what_is_replayed() {
    let world = World::new();
    let url = url_of(&world.subscribe("a").await);
    // One each minute: three are delivered, then three expire.
    for id in ["a", "b", "c"] {
        post(&world, id).await;
        world.clock.advance(MINUTE);
    }
    world.post(&format!("{url}/freeze"), "").await.expect(StatusCode::OK);
    for id in ["d", "e", "f"] {
        post(&world, id).await;
        world.clock.advance(MINUTE);
    }
    world.clock.advance(MINUTE * 53 * 60);
    let at = |minute: u32| format!("2026-01-01T00:0{minute}:00Z");
    for (request, matched, skipped) in [
        (json!({"since": at(6)}), 0, 0),
        (json!({"until": at(3)}), 0, 0),
        (json!({"states": ["delivered"], "since": at(1), "until": at(2)}), 1, 0),
        // From here on `b` is parked, and skipped.
        (json!({"states": ["delivered"]}), 2, 1),
        (json!({"since": at(5), "states": null}), 1, 0),
        (json!({"states": ["delivered", "dead"]}), 2, 4),
    ] {
        assert_eq!(
            counts(&replay(&world, &url, request.clone()).await),
            [matched, matched, skipped],
            "{request}"
        );
    }
    assert_eq!(world.get(&url).await.expect(StatusCode::OK)["parked"], 6);
}

#[tokio::test]
async fn deliveries_that_cannot_be_replayed_are_skipped_and_counted() {
    let world = World::new();
    let (gone, silent) = (world.subscribe("a").await, world.subscribe("a?").await);
    let kept = json!({"url": gone["url"], "event_types": ["a"]}).to_string();
    let kept = world.post("/v1/subscriptions", kept).await.expect(StatusCode::CREATED);
    assert_eq!((&kept["url_id"], silent["url_id"] == kept["url_id"]), (&gone["url_id"], false));
    post(&world, "x").await;
    let deleted = format!("/v1/subscriptions/{}", gone["id"].as_str().unwrap());
    world.call("DELETE", &deleted, "").await;
    deactivate(&world, &silent).await;
    world.receiver.status.store(500, Ordering::Relaxed);
    post(&world, "waits").await;
    let request = json!({"states": ["delivered"]});
    // The subscription of one of the two deliveries of `x` is deleted; that of `waits` is waiting.
    assert_eq!(counts(&replay(&world, &url_of(&kept), request.clone()).await), [2, 1, 2]);
    assert_eq!(counts(&replay(&world, &url_of(&silent), request).await), [1, 0, 1]);
}

async fn deactivate(world: &World, subscription: &Value) {
    let path = format!("/v1/subscriptions/{}", subscription["id"].as_str().unwrap());
    world.call("PATCH", &path, r#"{"active":false}"#).await.expect(StatusCode::OK);
}

#[tokio::test]
async fn a_rejected_replay_says_what_to_do() {
    let world = World::new();
    let subscription = world.subscribe("a").await;
    post(&world, "x").await;
    let path = format!("/v1/deliveries/{}/replay", delivery_of(&world, "x").await["id"].as_str().unwrap());
    deactivate(&world, &subscription).await;
    let answer = world.post(&path, "").await;
    answer.problem(409);
    assert!(answer.detail().contains("activate it first"), "{}", answer.detail());
}

#[tokio::test]
async fn without_bodies_nothing_is_replayed() {
    let world = World::new();
    let url = url_of(&world.subscribe("a").await);
    post(&world, "x").await;
    // The records are put back, the bodies are not.
    let records = world.store.all();
    world.store.purge(Timestamp::from_millis(i64::MAX));
    world.store.put_each(records).await.unwrap();
    assert_eq!(counts(&replay(&world, &url, json!({"states": ["delivered"]})).await), [1, 0, 1]);
}

#[tokio::test]
async fn invalid_requests_are_rejected_by_field() {
    let world = World::new();
    let url = url_of(&world.subscribe("a").await);
    for (request, fields) in [
        (json!({"since": "yesterday", "until": 5}), vec!["until", "since"]),
        (json!({"since": "2026-01-02T00:00:00Z", "until": "2026-01-01T00:00:00Z"}), vec!["since"]),
        (json!({"since": "2026-01-01T00:00:01Z"}), vec!["since"]),
        (json!({"states": []}), vec!["states"]),
        (json!({"states": ["dead", "parked"]}), vec!["states"]),
        (json!({"states": "dead"}), vec!["states"]),
        (json!({"state": "dead"}), vec!["state"]),
        (json!([]), vec![]),
    ] {
        let mut answer = world.post(&format!("{url}/replay"), request.to_string()).await.problem(400);
        answer.sort_unstable_by(|a, b| b.cmp(a));
        assert_eq!(answer, fields, "{request}");
    }
    for body in ["", " ", "{}", r#"{"since":null,"until":null,"states":null}"#] {
        let started = world.post(&format!("{url}/replay"), body).await.expect(StatusCode::ACCEPTED);
        run_to_end(&world, &started["id"]).await;
    }
}

#[tokio::test]
async fn a_second_replay_of_a_url_is_refused_while_one_is_running() {
    let world = World::new();
    let url = url_of(&world.subscribe("a").await);
    let other = url_of(&world.subscribe("b").await);
    post(&world, "x").await;
    let start = async |url: &str| world.post(&format!("{url}/replay"), r#"{"states":["delivered"]}"#).await;
    let started = start(&url).await.expect(StatusCode::ACCEPTED);
    let refused = start(&url).await.expect(StatusCode::CONFLICT);
    let id = started["id"].as_str().unwrap();
    assert!(refused["detail"].as_str().unwrap().contains(id), "{refused}");
    start(&other).await.expect(StatusCode::ACCEPTED);
    assert_eq!(counts(&run_to_end(&world, &started["id"]).await), [1, 1, 0]);
    let next = start(&url).await.expect(StatusCode::ACCEPTED);
    assert_ne!(next["id"], started["id"]);
    assert_eq!(counts(&run_to_end(&world, &next["id"]).await), [1, 1, 0]);
}

/// Each replay adds attempts that are kept.
#[tokio::test]
async fn a_delivery_is_not_replayed_without_end() {
    let world = World::new();
    world.subscribe("a").await;
    post(&world, "x").await;
    let path = format!("/v1/deliveries/{}/replay", delivery_of(&world, "x").await["id"].as_str().unwrap());
    for _ in 0..1_000 {
        world.post(&path, "").await.expect(StatusCode::ACCEPTED);
        world.work().await;
    }
    let refused = world.post(&path, "").await.expect(StatusCode::CONFLICT);
    assert!(refused["detail"].as_str().unwrap().contains("1000 times"), "{refused}");
}

#[tokio::test]
async fn a_finished_replay_is_kept_as_long_as_deliveries() {
    let world = World::new();
    let url = url_of(&world.subscribe("a").await);
    let shown = replay(&world, &url, json!({})).await;
    let path = format!("/v1/replays/{}", shown["id"].as_str().unwrap());
    for (days, status) in [(6, StatusCode::OK), (2, StatusCode::NOT_FOUND)] {
        world.clock.advance(Duration::from_secs(days * 86_400));
        world.store.purge(holdfast_core::ports::Clock::now(&*world.clock));
        world.get(&path).await.expect(status);
    }
}

#[tokio::test]
async fn an_enable_replays_deliveries_that_expired_since_the_url_was_enabled() {
    let world = World::new();
    let url = url_of(&world.subscribe("a").await);
    let change = async |action: &str, body: &'static str| {
        world.post(&format!("{url}/{action}"), body).await.expect(StatusCode::OK)
    };
    let never = change("enable", r#"{"replay_expired":true}"#).await;
    assert_eq!(never["replay"], Value::Null, "it was always enabled");
    let expire = async |id: &str| {
        post(&world, id).await;
        world.clock.advance(MINUTE * 53 * 60);
    };
    change("freeze", "").await;
    expire("long_ago").await;
    world.sweep().await;
    assert_eq!(change("enable", "").await["replay"], Value::Null);
    world.clock.advance(MINUTE);
    change("disable", "").await;
    change("freeze", "").await;
    expire("found_dead").await;
    world.sweep().await;
    expire("unnoticed").await;
    post(&world, "parked").await;
    let enabled = change("enable", r#"{"replay_expired":true}"#).await;
    assert_eq!((&enabled["released"], &enabled["expired"]), (&json!(1), &json!(1)));
    assert_eq!(counts(&run_to_end(&world, &enabled["replay"]).await)[..2], [2, 2]);
    world.work().await;
    for (event, state) in [
        ("long_ago", "dead"),
        ("found_dead", "delivered"),
        ("unnoticed", "delivered"),
        ("parked", "delivered"),
    ] {
        assert_eq!(delivery_of(&world, event).await["state"], state, "{event}");
    }
}

#[tokio::test]
async fn replays_are_listed_newest_first() {
    let world = World::new();
    let url_id = world.subscribe("a").await["url_id"].as_str().unwrap().to_owned();
    let mut started = Vec::new();
    for _ in 0..3 {
        world.clock.advance(Duration::from_secs(60));
        let replay = world.post(&format!("/v1/urls/{url_id}/replay"), "").await.json(202);
        started.insert(0, replay["id"].as_str().unwrap().to_owned());
        world.work().await;
    }
    let (mut listed, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = world.get(&format!("/v1/replays?limit=2{cursor}")).await.json(200);
        let items = page["items"].as_array().unwrap().clone();
        listed.extend(items);
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    let ids: Vec<_> = listed.iter().map(|replay| replay["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(ids, started);
    let one = world.get(&format!("/v1/replays/{}", ids[0])).await.json(200);
    assert_eq!(listed[0], one);
    let other = world.key("beta", "admin").await;
    let theirs = world.call_as(&other, "GET", "/v1/replays", "").await.json(200);
    assert_eq!(theirs["items"], serde_json::json!([]));
    let operator = world.key("", "operator").await;
    let all = world.call_as(&operator, "GET", "/v1/replays", "").await.json(200);
    assert_eq!(all["items"][0]["tenant"], "default");
}
