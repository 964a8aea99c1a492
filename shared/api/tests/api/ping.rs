//! Test events.

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::world::World;

#[tokio::test]
async fn a_ping_is_attempted_at_once_and_is_not_counted() {
    let world = World::new();
    let new = json!({"url": "https://receiver.example/a", "event_types": ["x"], "auth_token": "t0ken"});
    let made = world.post("/v1/subscriptions", new.to_string()).await.expect(StatusCode::CREATED);
    let path = format!("/v1/subscriptions/{}", made["id"].as_str().unwrap());
    let url = format!("/v1/urls/{}", made["url_id"].as_str().unwrap());
    let (before, records) = (world.get(&url).await.expect(StatusCode::OK), world.store.all());

    let answer = world.post(&format!("{path}/ping"), "").await.expect(StatusCode::OK);
    let requests = world.receiver.requests_to("a");
    assert_eq!(requests.len(), 1);
    let header = |name: &str| {
        requests[0].headers.iter().find(|(found, _)| *found == name).map(|(_, value)| value.clone()).unwrap()
    };
    let expected = json!({
        "webhook_id": header("webhook-id"), "at": "2026-01-01T00:00:00.000Z", "outcome": "success", "status": 200,
        "error": null, "ms": 3, "excerpt": "thanks",
    });
    assert_eq!(answer, expected);
    assert!(header("webhook-signature").starts_with("v1,"));
    assert_eq!(header("authorization"), "Bearer t0ken");
    let body: Value = serde_json::from_slice(&requests[0].body).unwrap();
    assert!(body["id"].as_str().unwrap().starts_with("evt_"));
    assert_eq!((&body["type"], &body["timestamp"]), (&json!("holdfast.ping"), &answer["at"]));
    assert_eq!(body["data"], json!({"subscription_id": made["id"]}));

    world.receiver.respond_at("a", 503);
    let answer = world.post(&format!("{path}/ping"), "").await.expect(StatusCode::OK);
    assert_eq!((&answer["outcome"], &answer["status"]), (&json!("failure"), &json!(503)));
    assert!(answer["error"].as_str().unwrap().starts_with("status"));

    assert_eq!(world.get(&url).await.expect(StatusCode::OK), before);
    assert!(world.store.all() == records, "nothing was written");
    world.work().await;
    assert_eq!(world.receiver.requests_to("a").len(), 2, "a failed ping is not retried");
    assert_eq!(world.get("/v1/deliveries").await.expect(StatusCode::OK)["items"], json!([]));
}

#[tokio::test]
async fn a_url_that_is_not_enabled_is_not_pinged() {
    let world = World::new();
    let made = world.subscribe("a").await;
    let path = format!("/v1/subscriptions/{}/ping", made["id"].as_str().unwrap());
    let url = format!("/v1/urls/{}", made["url_id"].as_str().unwrap());
    for (action, state) in [("disable", "disabled"), ("freeze", "frozen")] {
        world.post(&format!("{url}/{action}"), "").await.expect(StatusCode::OK);
        let answer = world.post(&path, "").await;
        answer.problem(409);
        assert!(answer.detail().contains(state), "{}", answer.detail());
    }
    assert_eq!(world.receiver.requests_to("a").len(), 0);
    world.post(&format!("{url}/enable"), "").await.expect(StatusCode::OK);
    let patched = world.patch(path.strip_suffix("/ping").unwrap(), r#"{"active":false}"#).await;
    patched.expect(StatusCode::OK);
    world.post(&path, "").await.expect(StatusCode::OK);
    assert_eq!(world.receiver.requests_to("a").len(), 1, "an inactive subscription can be pinged");
}

#[tokio::test]
async fn a_disabled_url_is_pinged_if_that_is_asked_for_and_a_frozen_one_never() {
    let world = World::new();
    let made = world.subscribe("a").await;
    let path = format!("/v1/subscriptions/{}/ping", made["id"].as_str().unwrap());
    let url = format!("/v1/urls/{}", made["url_id"].as_str().unwrap());
    world.post(&format!("{url}/disable"), "").await.expect(StatusCode::OK);
    world.post(&path, r#"{"force":false}"#).await.problem(409);
    let before = world.get(&url).await.expect(StatusCode::OK);
    let answer = world.post(&path, r#"{"force":true}"#).await.expect(StatusCode::OK);
    assert_eq!(answer["outcome"], "success");
    assert_eq!(world.get(&url).await.expect(StatusCode::OK), before, "it stays disabled");
    world.post(&format!("{url}/freeze"), "").await.expect(StatusCode::OK);
    world.post(&path, r#"{"force":true}"#).await.problem(409);
    assert_eq!(world.receiver.requests_to("a").len(), 1);
    assert_eq!(world.post(&path, r#"{"force":1}"#).await.problem(400), ["force"]);
}
