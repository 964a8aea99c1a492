use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::world::World;

/// A subscribed URL's path in the API.
async fn url_of(world: &World, path: &str) -> String {
    format!("/v1/urls/{}", world.subscribe(path).await["url_id"].as_str().unwrap())
}

#[tokio::test]
async fn a_url_is_shown_with_its_health() {
    let world = World::new();
    let path = url_of(&world, "a").await;
    let expected = json!({
        "id": path.rsplit('/').next(), "url": "https://receiver.example/a", "state": "enabled",
        "since": "2026-01-01T00:00:00.000Z", "reason": "created", "streak": 0, "window_attempts": 0,
        "window_failures": 0, "window_first_attempts": 0, "window_first_failures": 0, "last_success_at": null, "last_failure_at": null, "last_error": null, "failing": false,
        "failing_since": null, "recent_ms": null, "subscriptions": 1, "next_probe_at": null, "generation": 0, "releasing": false,
    });
    let listed = world.get("/v1/urls").await.expect(StatusCode::OK);
    assert_eq!(listed, json!({"items": [expected], "next": null}));
    let mut one = world.get(&path).await.expect(StatusCode::OK);
    let one = one.as_object_mut().unwrap();
    let details = ["waiting", "waiting_more", "parked", "parked_more", "oldest_expiry", "history"];
    let details = details.map(|name| one.remove(name).unwrap());
    assert_eq!(details, [json!(0), json!(false), json!(0), json!(false), Value::Null, json!([])]);
    assert_eq!(Value::Object(one.clone()), expected);
}

#[tokio::test]
async fn changes_by_hand_are_in_the_history() {
    let world = World::new();
    let path = url_of(&world, "a").await;
    let change = async |action: &str, body: &'static str| world.post(&format!("{path}/{action}"), body).await;
    let disabled = change("disable", r#"{"reason":"moving"}"#).await.expect(StatusCode::OK);
    assert_eq!((&disabled["state"], disabled.get("released")), (&json!("disabled"), None));
    assert_eq!(disabled["next_probe_at"], "2026-01-01T00:10:00.000Z");
    world.clock.advance(Duration::from_secs(1));
    let frozen = change("freeze", " ").await.expect(StatusCode::OK);
    assert_eq!(frozen["state"], "frozen");
    let answer = change("disable", "").await;
    answer.problem(409);
    assert!(answer.detail().contains("enable it first"), "{}", answer.detail());
    let enabled = change("enable", r#"{"reason":null,"replay_expired":false}"#).await.expect(StatusCode::OK);
    assert_eq!((&enabled["state"], &enabled["releasing"]), (&json!("enabled"), &json!(true)));
    let counts = ["released", "expired", "more"].map(|name| enabled[name].clone());
    assert_eq!(counts, [json!(0), json!(0), json!(false)]);

    let shown = world.get(&path).await.expect(StatusCode::OK);
    let history = shown["history"].as_array().unwrap();
    let changes: Vec<_> = history.iter().map(|change| (&change["from"], &change["to"])).collect();
    let expected = [("frozen", "enabled"), ("disabled", "frozen"), ("enabled", "disabled")];
    assert_eq!(changes, expected.map(|(from, to)| (json!(from), json!(to))).each_ref().map(|(a, b)| (a, b)));
    let oldest = json!({
        "at": "2026-01-01T00:00:00.000Z", "from": "enabled", "to": "disabled", "by": "built-in", "why": "moving",
    });
    assert_eq!(history[2], oldest);
}

#[tokio::test]
async fn invalid_requests_are_rejected_by_field() {
    let world = World::new();
    let path = url_of(&world, "a").await;
    for (action, body, fields) in [
        ("freeze", json!({"replay_expired": true}), vec!["replay_expired"]),
        ("disable", json!({"why": "x"}), vec!["why"]),
        ("enable", json!({"replay_expired": "yes", "reason": 1}), vec!["reason", "replay_expired"]),
        ("enable", json!({"reason": "x".repeat(1_025)}), vec!["reason"]),
        ("enable", json!(null), vec![]),
        ("freeze", json!([]), vec![]),
    ] {
        let answer = world.post(&format!("{path}/{action}"), body.to_string()).await;
        assert_eq!(answer.problem(400), fields, "{action} {body}");
    }
    assert_eq!(world.get(&path).await.expect(StatusCode::OK)["state"], "enabled");
}

#[tokio::test]
async fn parked_deliveries_are_counted_released_and_replayed() {
    let world = World::new();
    let path = url_of(&world, "a").await;
    world.post(&format!("{path}/freeze"), "").await.expect(StatusCode::OK);
    world.post("/v1/events", r#"{"id":"x","type":"a","data":1}"#).await.expect(StatusCode::ACCEPTED);
    world.work().await;
    assert_eq!(world.get(&path).await.expect(StatusCode::OK)["parked"], 1);
    world.clock.advance(Duration::from_secs(53 * 3600));
    world.post("/v1/events", r#"{"id":"y","type":"a","data":1}"#).await.expect(StatusCode::ACCEPTED);
    world.work().await;
    let enabled = world.post(&format!("{path}/enable"), r#"{"replay_expired":true}"#).await;
    let enabled = enabled.expect(StatusCode::OK);
    assert_eq!((&enabled["released"], &enabled["expired"]), (&json!(1), &json!(1)));
    world.work().await;
    assert_eq!(world.receiver.bodies().len(), 2);
}

#[tokio::test]
async fn urls_are_listed_by_state() {
    let world = World::new();
    let frozen = url_of(&world, "a").await;
    url_of(&world, "b").await;
    world.post(&format!("{frozen}/freeze"), "").await.expect(StatusCode::OK);
    for (state, urls) in [
        ("frozen", vec!["https://receiver.example/a"]),
        ("enabled", vec!["https://receiver.example/b"]),
        ("disabled", vec![]),
    ] {
        let listed = world.get(&format!("/v1/urls?state={state}")).await.expect(StatusCode::OK);
        let found: Vec<_> =
            listed["items"].as_array().unwrap().iter().map(|url| url["url"].clone()).collect();
        assert_eq!(found, urls);
    }
}

#[tokio::test]
async fn a_url_is_changed_ten_times_at_once_and_then_every_six_seconds() {
    let world = World::new();
    let url = format!("/v1/urls/{}", world.subscribe("a").await["url_id"].as_str().unwrap());
    let other = format!("/v1/urls/{}", world.subscribe("b").await["url_id"].as_str().unwrap());
    for _ in 0..5 {
        world.post(&format!("{url}/freeze"), "").await.expect(StatusCode::OK);
        world.post(&format!("{url}/enable"), "").await.expect(StatusCode::OK);
    }
    for action in ["freeze", "disable", "enable", "replay"] {
        let refused = world.post(&format!("{url}/{action}"), "").await;
        refused.problem(429);
        assert_eq!(refused.header("retry-after"), "6", "{action}");
        assert!(refused.detail().contains("10 times within the last minute"), "{}", refused.detail());
    }
    world.post(&format!("{other}/freeze"), "").await.expect(StatusCode::OK);
    world.clock.advance(std::time::Duration::from_secs(6));
    world.post(&format!("{url}/freeze"), "").await.expect(StatusCode::OK);
    world.post(&format!("{url}/enable"), "").await.problem(429);
}

/// A tenant with thousands of URLs changed each of them again and again, and filled the disk with entries of the audit list.
#[tokio::test]
async fn the_changes_of_all_urls_of_a_tenant_count_together() {
    let world = World::new();
    let url = format!("/v1/urls/{}", world.subscribe("a").await["url_id"].as_str().unwrap());
    let reason = json!({"reason": "x".repeat(1_024)}).to_string();
    while world.engine.take_change(&"default".into(), 0).is_ok() {}
    world.clock.advance(std::time::Duration::from_millis(100));
    let refused = world.post(&format!("{url}/freeze"), reason.clone()).await;
    refused.problem(429);
    assert!(refused.detail().contains("subscriptions and URLs too often"), "{}", refused.detail());
    world.post(&format!("{url}/freeze"), "").await.expect(StatusCode::OK);
    world.post(&format!("{url}/enable"), "").await.problem(429);
    world.clock.advance(std::time::Duration::from_millis(500));
    world.post(&format!("{url}/enable"), reason).await.expect(StatusCode::OK);
}

#[tokio::test]
async fn a_failing_url_says_why_since_when_and_what_waits() {
    let world = World::new();
    let path = url_of(&world, "a").await;
    let show = async || world.get(&path).await.expect(StatusCode::OK);
    let post = async || {
        world.post("/v1/events", r#"{"type":"a.b","data":1}"#).await.expect(StatusCode::ACCEPTED);
        world.work().await;
    };
    post().await;
    let healthy = show().await;
    assert_eq!(healthy["last_success_at"], "2026-01-01T00:00:00.000Z");
    assert!(healthy["recent_ms"].is_u64(), "{healthy}");
    assert_eq!((&healthy["last_error"], &healthy["failing_since"]), (&Value::Null, &Value::Null));

    world.receiver.status.store(503, Ordering::Relaxed);
    world.clock.advance(Duration::from_secs(60));
    post().await;
    world.clock.advance(Duration::from_secs(60));
    post().await;
    let failing = show().await;
    let error = json!({"kind": "status", "status": 503, "text": "the receiver answered 503"});
    assert_eq!(failing["last_error"], error);
    assert_eq!((&failing["streak"], &failing["failing"]), (&json!(2), &json!(false)));
    let times = ["failing_since", "last_failure_at", "oldest_expiry"].map(|name| failing[name].clone());
    let expected = ["2026-01-01T00:01:00.000Z", "2026-01-01T00:02:00.000Z", "2026-01-03T04:01:00.000Z"];
    assert_eq!(times, expected.map(Value::from));
    assert_eq!((&failing["waiting"], &failing["waiting_more"]), (&json!(2), &json!(false)));

    world.receiver.status.store(204, Ordering::Relaxed);
    world.clock.advance(Duration::from_secs(600));
    world.work().await;
    let again = show().await;
    assert_eq!((&again["failing_since"], &again["waiting"]), (&Value::Null, &json!(0)));
    assert_eq!(again["last_error"], error, "the last failure stays to be seen");
}

#[tokio::test]
async fn a_url_that_never_succeeded_shows_no_last_success() {
    let world = World::new();
    world.receiver.status.store(500, Ordering::Relaxed);
    let path = url_of(&world, "a").await;
    world.post("/v1/events", r#"{"type":"a.b","data":1}"#).await.expect(StatusCode::ACCEPTED);
    world.work().await;
    let shown = world.get(&path).await.expect(StatusCode::OK);
    assert_eq!((&shown["streak"], &shown["last_success_at"]), (&json!(1), &Value::Null));
}

#[tokio::test]
async fn the_number_of_subscriptions_of_a_url_follows_them() {
    let world = World::new();
    let path = url_of(&world, "a").await;
    let body = r#"{"url":"https://receiver.example/a","event_types":["a.b"]}"#;
    let second = world.post("/v1/subscriptions", body).await.expect(StatusCode::CREATED);
    let count = async || world.get(&path).await.expect(StatusCode::OK)["subscriptions"].clone();
    assert_eq!(count().await, 2);
    let id = second["id"].as_str().unwrap();
    let deleted = world.call("DELETE", &format!("/v1/subscriptions/{id}"), "").await;
    assert_eq!(deleted.status, StatusCode::NO_CONTENT);
    assert_eq!(count().await, 1);
}
