use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::world::World;

#[tokio::test]
async fn a_subscription_is_created_shown_and_deleted() {
    let world = World::new();
    let new = json!({
        "url": "https://Receiver.example:443/a#b", "event_types": ["order.*", "holdfast.url.disabled"],
        "filters": [{"field": "data.a", "op": "eq", "value": null}, {"field": "data.b", "op": "exists"}],
        "filter_connector": "or", "auth_token": "t0ken", "description": "orders",
    });
    let mut created = world.post("/v1/subscriptions", new.to_string()).await.expect(StatusCode::CREATED);
    let secret = created.as_object_mut().unwrap().remove("secret").unwrap();
    assert!(secret.as_str().unwrap().starts_with("whsec_"));
    let id = created["id"].as_str().unwrap().to_owned();
    let expected = json!({
        "id": id, "url": "https://receiver.example/a", "url_id": created["url_id"],
        "event_types": new["event_types"], "filters": new["filters"], "filter_connector": "or",
        "description": "orders", "active": true, "has_auth_token": true,
        "created_at": "2026-01-01T00:00:00.000Z",
    });
    assert_eq!(created, expected);

    let path = format!("/v1/subscriptions/{id}");
    assert_eq!(world.get(&path).await.expect(StatusCode::OK), expected, "neither secret nor token");
    let listed = world.get("/v1/subscriptions").await.expect(StatusCode::OK);
    assert_eq!(listed, json!({"items": [expected], "next": null}));

    let deleted = world.call("DELETE", &path, "").await;
    assert_eq!((deleted.status, deleted.body.len()), (StatusCode::NO_CONTENT, 0));
    world.get(&path).await.problem(404);
    world.call("DELETE", &path, "").await.problem(404);
}

#[tokio::test]
async fn omitted_fields_have_defaults() {
    let world = World::new();
    let new = json!({
        "url": "http://receiver.example/", "event_types": ["*"], "filters": null, "filter_connector": null,
        "auth_token": null, "description": null, "active": null,
    });
    let created = world.post("/v1/subscriptions", new.to_string()).await.expect(StatusCode::CREATED);
    assert_eq!((&created["filters"], &created["filter_connector"]), (&json!([]), &json!("and")));
    assert_eq!((&created["active"], &created["has_auth_token"]), (&json!(true), &json!(false)));
    assert_eq!(created["description"], Value::Null);
}

#[tokio::test]
async fn an_equal_subscription_is_a_conflict_that_names_the_other() {
    let world = World::new();
    let first = world.subscribe("a").await;
    let equal =
        r#"{"url":"https://receiver.example/b/../a#x","event_types":["*","*"],"description":"other"}"#;
    let answer = world.post("/v1/subscriptions", equal).await;
    answer.problem(409);
    assert!(answer.detail().contains(first["id"].as_str().unwrap()), "{}", answer.detail());
}

#[tokio::test]
async fn a_secret_can_be_brought_along() {
    let world = World::new();
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let body = |secret: &str| {
        json!({"url": "https://receiver.example/a", "event_types": ["*"], "secret": secret}).to_string()
    };
    let refused = world.post("/v1/subscriptions", body("whsec_c2hvcnQ=")).await;
    assert_eq!(refused.problem(400), ["secret"]);
    assert!(!String::from_utf8_lossy(&refused.body).contains("c2hvcnQ"), "it is not repeated");
    let made = world.post("/v1/subscriptions", body(secret)).await.expect(StatusCode::CREATED);
    assert_eq!(made["secret"], secret);
    let path = format!("/v1/subscriptions/{}", made["id"].as_str().unwrap());
    assert_eq!(world.get(&path).await.expect(StatusCode::OK).get("secret"), None);
    assert_eq!(world.patch(&path, format!(r#"{{"secret":"{secret}"}}"#)).await.problem(400), ["secret"]);
}
