//! Requests of a tenant that does not read its responses.

use axum::body::Body;
use axum::http::{Request, StatusCode};
use axum::response::Response;
use futures_util::future::{BoxFuture, join_all};
use futures_util::{FutureExt, poll};
use serde_json::json;
use tower::ServiceExt;

use crate::world::World;

/// So many requests of a tenant are worked on at a time.
const TURNS: usize = 8;

/// A list of subscriptions of which the client has read nothing.
fn list<'a>(world: &'a World, key: &str) -> BoxFuture<'a, Response> {
    let request =
        Request::get("/v1/subscriptions?limit=100").header("authorization", format!("Bearer {key}"));
    let answered = world.router.clone().oneshot(request.body(Body::empty()).unwrap());
    answered.map(Result::unwrap).boxed()
}

/// Whether the request is not answered though it could go on. The first step finds the key, and the next ones wait for a turn.
async fn waits(request: &mut BoxFuture<'_, Response>) -> bool {
    for _ in 0..4 {
        if poll!(&mut *request).is_ready() {
            return false;
        }
    }
    true
}

async fn subscribe(world: &World, key: &str, count: usize) {
    subscribe_to(world, key, count, &"x".repeat(60)).await;
}

async fn subscribe_to(world: &World, key: &str, count: usize, prefix: &str) {
    for n in 0..count {
        let types: Vec<_> = (0..100).map(|t| format!("{prefix}.{t}")).collect();
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
    assert!(waits(&mut ninth).await);
    world.call_as(&other, "GET", "/v1/subscriptions", Body::empty()).await.expect(StatusCode::OK);
    assert!(waits(&mut ninth).await);
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

#[tokio::test]
async fn beyond_those_that_wait_a_request_is_refused() {
    const MAX_WAITING: usize = 128;
    let world = World::new();
    let (mine, other) = (world.key("a", "admin").await, world.key("b", "admin").await);
    subscribe(&world, &mine, 15).await;
    let unread = join_all((0..TURNS).map(|_| list(&world, &mine))).await;
    let mut waiting: Vec<_> = (0..MAX_WAITING).map(|_| list(&world, &mine)).collect();
    for request in &mut waiting {
        assert!(waits(request).await);
    }
    for (method, path) in
        [("GET", "/v1/subscriptions"), ("GET", "/v1/urls"), ("POST", "/v1/subscriptions/x/ping")]
    {
        let refused = world.call_as(&mine, method, path, Body::empty()).await;
        refused.problem(429);
        assert_eq!(refused.header("retry-after"), "1");
        assert!(refused.detail().contains("128 more wait"), "{}", refused.detail());
    }
    let event = r#"{"type":"a","data":1}"#;
    world.call_as(&mine, "POST", "/v1/events", event).await.expect(StatusCode::ACCEPTED);
    world.call_as(&other, "GET", "/v1/subscriptions", Body::empty()).await.expect(StatusCode::OK);
    drop((unread, waiting));
    world.call_as(&mine, "GET", "/v1/urls", Body::empty()).await.expect(StatusCode::OK);
}

#[tokio::test]
async fn large_responses_that_are_not_read_take_a_few_megabytes() {
    let world = World::new();
    let mine = world.key("a", "admin").await;
    // A page of a hundred would have 10 MB.
    subscribe_to(&world, &mine, 100, &vec!["x".repeat(64); 15].join(".")).await;
    let unread = join_all((0..TURNS).map(|_| list(&world, &mine))).await;
    for response in &unread {
        assert_eq!(response.status(), StatusCode::OK);
        let bytes: usize = response.headers()["content-length"].to_str().unwrap().parse().unwrap();
        assert!((400_000..700_000).contains(&bytes), "{bytes}");
    }
    assert!(waits(&mut list(&world, &mine)).await, "the next one waits");
}
