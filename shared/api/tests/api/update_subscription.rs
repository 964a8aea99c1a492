//! Updates of a subscription.

use std::time::Duration;

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::world::World;

fn path_of(subscription: &Value) -> String {
    format!("/v1/subscriptions/{}", subscription["id"].as_str().unwrap())
}

async fn deliveries_of(world: &World, event: Value) -> Value {
    world.post("/v1/events", event.to_string()).await.expect(StatusCode::ACCEPTED)["deliveries"].clone()
}

#[tokio::test]
async fn only_given_fields_change() {
    let world = World::new();
    let new = json!({
        "url": "https://receiver.example/a", "event_types": ["order.*"], "auth_token": "t0ken",
        "description": "orders", "filters": [{"field": "data.a", "op": "eq", "value": 1}],
    });
    let mut expected = world.post("/v1/subscriptions", new.to_string()).await.expect(StatusCode::CREATED);
    expected.as_object_mut().unwrap().remove("secret");
    let path = path_of(&expected);
    for (patch, changed) in [
        (json!({}), json!({})),
        (json!({"description": "new"}), json!({"description": "new"})),
        (json!({"description": null}), json!({"description": null})),
        (json!({"auth_token": null}), json!({"has_auth_token": false})),
        (json!({"auth_token": "other"}), json!({"has_auth_token": true})),
        (json!({"filters": [], "filter_connector": "or"}), json!({"filters": [], "filter_connector": "or"})),
        (json!({"event_types": ["a", "b.*"]}), json!({"event_types": ["a", "b.*"]})),
        (json!({"active": false}), json!({"active": false})),
        (json!({"active": true, "description": "x"}), json!({"active": true, "description": "x"})),
    ] {
        expected.as_object_mut().unwrap().extend(changed.as_object().unwrap().clone());
        let answer = world.patch(&path, patch.to_string()).await.expect(StatusCode::OK);
        assert_eq!(answer, expected, "{patch}");
        assert_eq!(world.get(&path).await.expect(StatusCode::OK), expected, "{patch}");
    }
    let answer = world.patch(&path, r#"{"url":"https://Receiver.example/b#c"}"#).await.expect(StatusCode::OK);
    assert_eq!(answer["url"], "https://receiver.example/b");
    let url = world.get(&format!("/v1/urls/{}", answer["url_id"].as_str().unwrap())).await;
    assert_eq!(url.expect(StatusCode::OK)["state"], "enabled");
    let listed = world.get("/v1/urls").await.expect(StatusCode::OK);
    assert_eq!(listed["items"].as_array().unwrap().len(), 2, "both URLs are known");
}

#[tokio::test]
async fn an_invalid_patch_names_all_errors_and_changes_nothing() {
    let world = World::new();
    let subscription = world.subscribe("a").await;
    let path = path_of(&subscription);
    let before = world.get(&path).await.expect(StatusCode::OK);
    for (patch, fields) in [
        (json!({"url": null}), vec!["url"]),
        (json!({"url": "ftp://x/"}), vec!["url"]),
        (json!({"event_types": null, "active": null}), vec!["event_types", "active"]),
        (json!({"event_types": []}), vec!["event_types"]),
        (json!({"event_types": ["a", "b c"]}), vec!["event_types[1]"]),
        (json!({"filters": null, "filter_connector": null}), vec!["filters", "filter_connector"]),
        (json!({"filters": [{"field": "data.a", "op": "gt"}]}), vec!["filters[0]"]),
        (json!({"filters": [{"field": "data.a", "op": "like", "value": 1}]}), vec!["filters[0].op"]),
        (json!({"auth_token": "a b", "description": 1}), vec!["auth_token", "description"]),
        (json!({"description": "x".repeat(1_025)}), vec!["description"]),
        (json!({"secret": "whsec_x", "id": "x"}), vec!["secret", "id"]),
        (json!([]), vec![]),
    ] {
        let mut named = world.patch(&path, patch.to_string()).await.problem(400);
        let mut fields: Vec<String> = fields.into_iter().map(str::to_owned).collect();
        named.sort();
        fields.sort();
        assert_eq!(named, fields, "{patch}");
    }
    world.patch(&path, "").await.problem(400);
    assert_eq!(world.get(&path).await.expect(StatusCode::OK), before);
}

#[tokio::test]
async fn a_subscription_cannot_become_equal_to_another() {
    let world = World::new();
    let (a, b) = (world.subscribe("a").await, world.subscribe("b").await);
    let answer = world.patch(&path_of(&b), r#"{"url":"https://receiver.example/a"}"#).await;
    answer.problem(409);
    assert!(answer.detail().contains(a["id"].as_str().unwrap()), "{}", answer.detail());
    assert_eq!(world.get(&path_of(&b)).await.expect(StatusCode::OK)["url"], b["url"]);
    // It may be equal to itself, and its old form is free after a change.
    world.patch(&path_of(&a), r#"{"event_types":["*","*"]}"#).await.expect(StatusCode::OK);
    world.patch(&path_of(&a), r#"{"event_types":["x"]}"#).await.expect(StatusCode::OK);
    world.patch(&path_of(&b), r#"{"url":"https://receiver.example/a"}"#).await.expect(StatusCode::OK);
    world.patch(&path_of(&a), r#"{"event_types":["*"]}"#).await.problem(409);
    world.subscribe("b").await;
}

#[tokio::test]
async fn a_change_applies_to_the_next_event() {
    let world = World::new();
    let event = |customer: u32| json!({"type": "order.created", "data": {"customer": customer}});
    assert_eq!(deliveries_of(&world, event(1)).await, 0);
    let subscription = world.subscribe("a").await;
    let path = path_of(&subscription);
    assert_eq!(deliveries_of(&world, event(1)).await, 1);
    let steps = [
        (json!({"filters": [{"field": "data.customer", "op": "eq", "value": 7}]}), 0, 1),
        (json!({"filter_connector": "or"}), 0, 1),
        (json!({"filters": [{"field": "data.customer", "op": "lt", "value": 7}]}), 1, 0),
        (json!({"filters": [], "event_types": ["order.deleted"]}), 0, 0),
        (json!({"event_types": ["*.created"]}), 1, 1),
        (json!({"active": false}), 0, 0),
        (json!({"active": true}), 1, 1),
        (json!({"description": "only words"}), 1, 1),
    ];
    for (patch, first, seventh) in steps {
        world.patch(&path, patch.to_string()).await.expect(StatusCode::OK);
        assert_eq!(deliveries_of(&world, event(1)).await, first, "{patch}");
        assert_eq!(deliveries_of(&world, event(7)).await, seventh, "{patch}");
    }
    world.subscribe("b").await;
    assert_eq!(deliveries_of(&world, event(1)).await, 2);
    assert_eq!(world.call("DELETE", &path, "").await.status, StatusCode::NO_CONTENT);
    assert_eq!(deliveries_of(&world, event(1)).await, 1);
}

/// A tenant that changed its subscriptions in a loop filled the disk with entries of the audit list.
#[tokio::test]
async fn subscriptions_that_are_changed_too_often_answer_429_and_can_be_deleted() {
    let world = World::new();
    let path = path_of(&world.subscribe("a").await);
    while world.engine.take_change(&"default".into(), 0).is_ok() {}
    let change = || world.patch(&path, r#"{"description":"again"}"#);
    let refused = change().await;
    refused.problem(429);
    assert_eq!(refused.header("retry-after"), "1");
    let create = r#"{"url":"https://b.example","event_types":["a"]}"#;
    world.post("/v1/subscriptions", create).await.problem(429);
    world.post(&format!("{path}/rotate-secret"), "").await.problem(429);
    world.clock.advance(Duration::from_secs(1));
    change().await.expect(StatusCode::OK);
    assert_eq!(world.call("DELETE", &path, "").await.status, StatusCode::NO_CONTENT);
}
