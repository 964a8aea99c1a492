//! Quotas: who may set them, what they refuse, and what the answers say.

use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::world::{Answer, World};

const PATH: &str = "/v1/tenants/default";
const EVENT: &str = r#"{"type":"a","data":1}"#;

async fn set(world: &World, quotas: Value) -> Value {
    world.patch(PATH, quotas.to_string()).await.expect(StatusCode::OK)
}

async fn post(world: &World, events: usize) -> Answer {
    let events: Vec<Value> = (0..events).map(|n| json!({"type": "a", "data": n})).collect();
    world.post("/v1/events", json!(events).to_string()).await
}

#[tokio::test]
async fn quotas_are_off_until_they_are_set_one_by_one() {
    let world = World::new();
    let off = json!({"events_per_second": null, "subscriptions": null, "waiting_bytes": null, "stored_bytes": null});
    let expected = |quotas: &Value| {
        let usage = json!({"subscriptions": 0, "waiting_bytes": 0, "stored_bytes": 0});
        json!({"tenant": "default", "quotas": quotas, "usage": usage, "warnings": []})
    };
    assert_eq!(world.get(PATH).await.json(200), expected(&off));
    let mut quotas = off.clone();
    for (name, value) in [
        ("events_per_second", json!(1)),
        ("subscriptions", json!(1_000_000_000_000_000_u64)),
        ("waiting_bytes", json!(5)),
        ("stored_bytes", json!(6)),
        ("events_per_second", json!(7)),
        ("events_per_second", Value::Null),
        ("events_per_second", Value::Null),
    ] {
        quotas[name] = value.clone();
        assert_eq!(set(&world, json!({ name: value })).await, expected(&quotas));
        assert_eq!(world.another_process().get(PATH).await.json(200), expected(&quotas));
    }
    assert_eq!(set(&world, json!({})).await, expected(&quotas), "nothing changes");
    assert_eq!(set(&world, off.clone()).await, expected(&off));
}

#[tokio::test]
async fn bad_quotas_are_refused_by_name() {
    let world = World::new();
    for bad in ["0", "-1", "1.5", "\"5\"", "true", "[]", "1000000000000001", "18446744073709551616"] {
        for name in ["events_per_second", "subscriptions", "waiting_bytes", "stored_bytes"] {
            let body = format!(r#"{{"{name}":{bad}}}"#);
            assert_eq!(world.patch(PATH, body).await.problem(400), [name], "{bad}");
        }
    }
    assert_eq!(world.patch(PATH, r#"{"event_per_second":1}"#).await.problem(400), ["event_per_second"]);
    assert_eq!(
        world.patch(PATH, r#"{"subscriptions":0,"waiting_bytes":0}"#).await.problem(400),
        ["subscriptions", "waiting_bytes"]
    );
    for body in ["", "[]", "null", "{"] {
        world.patch(PATH, body).await.problem(400);
    }
    assert_eq!(world.get(PATH).await.json(200)["quotas"]["subscriptions"], Value::Null);
}

#[tokio::test]
async fn operators_set_quotas_and_admins_see_their_own() {
    let world = World::new();
    let (operator, admin) = (world.key("", "operator").await, world.key("a", "admin").await);
    let ingest = world.key("a", "ingest").await;
    world.key("b", "admin").await;
    let quotas = r#"{"subscriptions":3}"#;
    world.call_as(&operator, "PATCH", "/v1/tenants/a", quotas).await.json(200);
    world.call_as(&admin, "PATCH", "/v1/tenants/a", quotas).await.problem(403);
    world.call_as(&ingest, "PATCH", "/v1/tenants/a", quotas).await.problem(403);
    world.call_as(&ingest, "GET", "/v1/tenants/a", "").await.problem(403);
    let seen = world.call_as(&admin, "GET", "/v1/tenants/a", "").await.json(200);
    assert_eq!(seen["quotas"]["subscriptions"], 3);
    let other = world.call_as(&admin, "GET", "/v1/tenants/b", "").await;
    let unknown = world.call_as(&admin, "GET", "/v1/tenants/missing", "").await;
    other.problem(404);
    assert_eq!((other.status, &other.body), (unknown.status, &unknown.body));
    assert_eq!(
        world.call_as(&operator, "GET", "/v1/tenants/b", "").await.json(200)["quotas"]["subscriptions"],
        Value::Null
    );
    for path in ["/v1/tenants/missing", "/v1/tenants/NO%23", "/v1/tenants/a?tenant=b"] {
        world.call_as(&operator, "PATCH", path, quotas).await.problem(404);
        world.call_as(&operator, "GET", path, "").await.problem(404);
    }
}

#[tokio::test]
async fn a_post_over_the_rate_answers_429_and_leaves_no_trace() {
    let world = World::new();
    world.subscribe("a").await;
    set(&world, json!({"events_per_second": 10})).await;
    let accepted = post(&world, 7).await;
    accepted.json(202);
    assert!(!accepted.headers.contains_key("holdfast-quota-warning"));
    let accepted = world.post("/v1/events", EVENT).await;
    accepted.json(202);
    assert_eq!(accepted.header("holdfast-quota-warning"), "events_per_second is at 80 % (8 of 10)");
    let before = world.store.all();
    let refused = post(&world, 100).await;
    refused.problem(429);
    assert_eq!(refused.header("retry-after"), "1");
    assert!(refused.detail().contains("events_per_second of this tenant is 10"), "{}", refused.detail());
    assert_eq!(world.store.all(), before);
    world.work().await;
    assert_eq!(world.receiver.requests_to("a").len(), 8);
    assert_eq!(
        world.get(PATH).await.json(200)["warnings"],
        json!(["events_per_second is at 80 % (8 of 10)"])
    );
    world.clock.advance(Duration::from_secs(1));
    assert_eq!(world.get(PATH).await.json(200)["warnings"], json!([]));
    post(&world, 100).await.json(202);
    let refused = world.post("/v1/events", EVENT).await;
    refused.problem(429);
    assert_eq!(refused.header("retry-after"), "10", "rounded up from 9.1 s");
}

#[tokio::test]
async fn an_invalid_post_uses_nothing_of_the_rate() {
    let world = World::new();
    set(&world, json!({"events_per_second": 1})).await;
    for _ in 0..5 {
        world.post("/v1/events", r#"{"type":"a"}"#).await.problem(400);
    }
    let event = json!({"id": "one", "type": "a", "data": 1});
    world.post("/v1/events", event.to_string()).await.json(202);
    world.clock.advance(Duration::from_secs(1));
    let other = json!({"id": "one", "type": "a", "data": 2});
    for _ in 0..5 {
        world.post("/v1/events", other.to_string()).await.problem(409);
    }
    world.post("/v1/events", EVENT).await.json(202);
}

#[tokio::test]
async fn a_quota_may_be_written_with_a_fraction_of_zero() {
    let world = World::new();
    let seen = world.patch(PATH, r#"{"events_per_second":16165.0,"subscriptions":1e3}"#).await.json(200);
    assert_eq!(
        (&seen["quotas"]["events_per_second"], &seen["quotas"]["subscriptions"]),
        (&json!(16165), &json!(1000))
    );
    for bad in ["1.5", "-1.0", "1e300", "0.0"] {
        let refused = world.patch(PATH, format!(r#"{{"events_per_second":{bad}}}"#)).await;
        assert_eq!(refused.problem(400), ["events_per_second"], "{bad}");
    }
}

#[tokio::test]
async fn a_subscription_over_the_quota_answers_409_and_names_it() {
    let world = World::new();
    set(&world, json!({"subscriptions": 1})).await;
    world.subscribe("a").await;
    let second = r#"{"url":"https://receiver.example/b","event_types":["*"]}"#;
    let refused = world.post("/v1/subscriptions", second).await;
    refused.problem(409);
    assert!(refused.detail().contains("quota subscriptions"), "{}", refused.detail());
    let seen = world.get(PATH).await.json(200);
    assert_eq!(seen["usage"]["subscriptions"], 1);
    assert_eq!(seen["warnings"], json!(["subscriptions is at 100 % (1 of 1)"]));
}

#[tokio::test]
async fn bytes_that_wait_answer_429_and_name_the_url_that_holds_most() {
    let world = World::new();
    world.subscribe("good").await;
    let bad = world.subscribe("bad?token=secret").await;
    world.receiver.respond_at("bad?token=secret", 500);
    post(&world, 1).await.json(202);
    world.work().await;
    let waiting = world.get(PATH).await.json(200)["usage"]["waiting_bytes"].as_u64().unwrap();
    assert!(waiting > 0);
    set(&world, json!({"waiting_bytes": waiting})).await;
    let refused = world.post("/v1/events", EVENT).await;
    refused.problem(429);
    assert_eq!(refused.header("retry-after"), "10");
    let (detail, id) = (refused.detail(), bad["url_id"].as_str().unwrap());
    let named = format!("{waiting} of them to https://receiver.example ({id});");
    assert!(detail.contains("waiting_bytes") && detail.contains(&named), "{detail}");
    assert!(!detail.contains("secret"), "{detail}");
    set(&world, json!({"waiting_bytes": waiting + 1})).await;
    let accepted = world.post("/v1/events", EVENT).await;
    accepted.json(202);
    assert!(accepted.header("holdfast-quota-warning").starts_with("waiting_bytes is at "));
    // Once its subscription is deleted, nothing waits.
    world.receiver.status.store(200, Ordering::Relaxed);
    let path = format!("/v1/subscriptions/{}", bad["id"].as_str().unwrap());
    assert_eq!(world.call("DELETE", &path, "").await.status, StatusCode::NO_CONTENT);
    world.work().await;
    assert_eq!(world.get(PATH).await.json(200)["usage"]["waiting_bytes"], 0);
    assert!(!world.post("/v1/events", EVENT).await.headers.contains_key("holdfast-quota-warning"));
}

#[tokio::test]
async fn bytes_that_are_stored_answer_429_though_all_was_delivered() {
    let world = World::new();
    world.subscribe("a").await;
    post(&world, 1).await.json(202);
    world.work().await;
    let usage = world.get(PATH).await.json(200)["usage"].clone();
    let stored = usage["stored_bytes"].as_u64().unwrap();
    assert!(stored > 0 && usage["waiting_bytes"] == 0, "{usage}");
    set(&world, json!({"stored_bytes": stored + 1})).await;
    let accepted = world.post("/v1/events", EVENT).await;
    accepted.json(202);
    assert!(accepted.header("holdfast-quota-warning").starts_with("stored_bytes is at "));
    set(&world, json!({"stored_bytes": stored})).await;
    let refused = world.post("/v1/events", EVENT).await;
    refused.problem(429);
    assert_eq!(refused.header("retry-after"), "60");
    assert!(refused.detail().contains("the quota stored_bytes of this tenant is"), "{}", refused.detail());
}

/// Each replay stores its attempts, so deliveries that were replayed again and again took any number of bytes.
#[tokio::test]
async fn bytes_that_are_stored_refuse_replays() {
    let world = World::new();
    world.subscribe("a").await;
    world.post("/v1/events", EVENT).await.json(202);
    world.work().await;
    let listed = world.get("/v1/deliveries").await.json(200);
    let delivery = &listed["items"][0];
    let replay = format!("/v1/deliveries/{}/replay", delivery["id"].as_str().unwrap());
    set(&world, json!({"stored_bytes": 1})).await;
    let refused = world.post(&replay, "").await;
    refused.problem(429);
    assert_eq!(refused.header("retry-after"), "60");
    let path = format!("/v1/urls/{}/replay", delivery["url_id"].as_str().unwrap());
    let all = json!({"states": ["delivered"]}).to_string();
    world.post(&path, all).await.json(202);
    world.work().await;
    assert_eq!(world.receiver.requests_to("a").len(), 1, "it waits until there is room");
    set(&world, json!({"stored_bytes": null})).await;
    world.clock.advance(Duration::from_secs(60));
    world.work().await;
    assert_eq!(world.receiver.requests_to("a").len(), 2);
}

/// An id that was given a day before was no repeat, and no quota on bytes was asked.
#[tokio::test]
async fn an_id_that_is_forgotten_is_a_new_event_for_the_quotas() {
    let world = World::new();
    world.subscribe("a").await;
    let event = json!({"id": "one", "type": "a", "data": 1}).to_string();
    world.post("/v1/events", event.clone()).await.json(202);
    world.work().await;
    set(&world, json!({"stored_bytes": 1})).await;
    assert_eq!(world.post("/v1/events", event.clone()).await.json(202)["duplicate"], true);
    world.clock.advance(Duration::from_secs(24 * 3_600));
    world.post("/v1/events", event).await.problem(429);
}

#[tokio::test]
async fn a_host_that_does_not_count_refuses_the_quota_on_bytes() {
    let world = World::new().without_backlog();
    let refused = world.patch(PATH, r#"{"waiting_bytes":5,"subscriptions":9}"#).await;
    assert_eq!(refused.problem(400), ["waiting_bytes"]);
    assert!(refused.detail().contains("one machine only"), "{}", refused.detail());
    assert_eq!(world.patch(PATH, r#"{"stored_bytes":5}"#).await.problem(400), ["stored_bytes"]);
    let seen = set(&world, json!({"waiting_bytes": null, "events_per_second": 2})).await;
    assert_eq!(seen["usage"], json!({"subscriptions": 0}));
    let off = json!({"subscriptions": null, "waiting_bytes": null, "stored_bytes": null});
    assert_eq!(seen["quotas"]["events_per_second"], 2);
    assert!(off.as_object().unwrap().iter().all(|(name, off)| seen["quotas"][name] == *off), "{seen}");
}

#[tokio::test]
async fn each_process_counts_the_rate_for_itself() {
    let world = World::new();
    set(&world, json!({"events_per_second": 1})).await;
    let other = world.another_process();
    world.post("/v1/events", EVENT).await.json(202);
    world.post("/v1/events", EVENT).await.problem(429);
    other.post("/v1/events", EVENT).await.json(202);
    other.post("/v1/events", EVENT).await.problem(429);
}

#[tokio::test]
async fn a_replay_takes_one_from_the_rate() {
    let world = World::new();
    world.subscribe("a").await;
    world.post("/v1/events", EVENT).await.json(202);
    world.work().await;
    let listed = world.get("/v1/deliveries").await.json(200);
    let replay = format!("/v1/deliveries/{}/replay", listed["items"][0]["id"].as_str().unwrap());
    set(&world, json!({"events_per_second": 1})).await;
    world.post(&replay, "").await.json(202);
    // One that is refused for another reason takes nothing.
    world.clock.advance(Duration::from_secs(1));
    world.post(&replay, "").await.problem(409);
    world.work().await;
    world.post(&replay, "").await.json(202);
    world.work().await;
    let refused = world.post(&replay, "").await;
    refused.problem(429);
    assert_eq!(refused.header("retry-after"), "1");
    assert!(refused.detail().contains("events_per_second of this tenant is 1"), "{}", refused.detail());
    world.post("/v1/events", EVENT).await.problem(429);
    world.clock.advance(Duration::from_secs(1));
    world.post(&replay, "").await.json(202);
    world.work().await;
    assert_eq!(world.receiver.requests_to("a").len(), 4);
}
