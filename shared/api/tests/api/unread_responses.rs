//! Requests of a tenant that does not read its responses.

use axum::body::Body;
use axum::http::{Request, StatusCode};
use axum::response::Response;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, poll};
use serde_json::json;
use tower::ServiceExt;

use crate::world::World;

/// So many requests of a tenant are worked on at a time.
const TURNS: usize = 8;

/// A list of subscriptions of which the client has read nothing.
fn list<'a>(world: &'a World, key: &str) -> BoxFuture<'a, Response> {
    let request = Request::get("/v1/subscriptions?limit=100").header("authorization", format!("Bearer {key}"));
    let answered = world.router.clone().oneshot(request.body(Body::empty()).unwrap());
    answered.map(Result::unwrap).boxed()
}

async fn subscribe(world: &World, key: &str, count: usize) {
    let long = "x".repeat(60);
    for n in 0..count {
        let types: Vec<_> = (0..100).map(|t| format!("{long}.{t}")).collect();
        let body = json!({"url": format!("https://receiver.example/{n}"), "event_types": types});
        world.call_as(key, "POST", "/v1/subscriptions", body.to_string()).await.expect(StatusCode::CREATED);
    }
}

#[tokio::test]
async fn large_responses_that_are_not_read_keep_only_their_own_tenant_waiting() {
    let world = World::new();
    let (mine, other) = (world.key("a", "admin").await, world.key("b", "admin").await);
    subscribe(&world, &mine, 15).await;
    let mut unread = Vec::new();
    for _ in 0..TURNS {
        let response = list(&world, &mine).await;
        let length: usize = response.headers()["content-length"].to_str().unwrap().parse().unwrap();
        assert!(length > 64_000, "{length}");
        unread.push(response);
    }
    let mut ninth = list(&world, &mine);
    assert!(poll!(&mut ninth).is_pending());
    world.call_as(&other, "GET", "/v1/subscriptions", Body::empty()).await.expect(StatusCode::OK);
    assert!(poll!(&mut ninth).is_pending());
    drop(unread.pop());
    assert_eq!(ninth.await.status(), StatusCode::OK);
}

#[tokio::test]
async fn small_responses_that_are_not_read_keep_no_request_waiting() {
    let world = World::new();
    let mine = world.key("a", "admin").await;
    subscribe(&world, &mine, 1).await;
    let mut unread = Vec::new();
    for _ in 0..=TURNS {
        unread.push(list(&world, &mine).await);
    }
    assert_eq!(unread.len(), TURNS + 1);
}
