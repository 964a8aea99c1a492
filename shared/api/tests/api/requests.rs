//! Keys, paths, methods, and the size and duration of requests.

use std::sync::atomic::Ordering;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use serde_json::json;

use crate::world::{KEY, World};

#[tokio::test]
async fn health_is_public() {
    let answer = World::new().send(Request::get("/healthz").body(Body::empty()).unwrap()).await;
    assert_eq!(answer.expect(StatusCode::OK), json!({"status": "ok"}));
    assert_eq!(answer.header("content-type"), "application/json");
}

#[tokio::test]
async fn everything_else_needs_a_valid_key() {
    let world = World::new();
    let calls = [
        ("POST", "/v1/events"),
        ("GET", "/v1/events/x"),
        ("GET", "/v1/subscriptions?limit=wrong"),
        ("POST", "/v1/subscriptions"),
        ("PATCH", "/v1/subscriptions/x"),
        ("DELETE", "/v1/subscriptions/x"),
        ("POST", "/v1/subscriptions/x/rotate-secret"),
        ("POST", "/v1/subscriptions/x/ping"),
        ("GET", "/v1/urls"),
        ("POST", "/v1/urls/x/enable"),
        ("GET", "/v1/deliveries"),
        ("POST", "/v1/deliveries/x/replay"),
        ("POST", "/v1/keys"),
        ("GET", "/v1/keys?tenant="),
        ("DELETE", "/v1/keys/x"),
        ("GET", "/v1/overview"),
        ("GET", "/v1/attempts"),
    ];
    for (method, path) in calls {
        for key in ["", "Bearer", "Bearer ", "Bearer hf_tesT", "Bearer hf_test2", "Basic hf_test", "hf_test"]
        {
            let request = Request::builder().method(method).uri(path).header("authorization", key);
            let answer = world.send(request.body(Body::from("{}")).unwrap()).await;
            answer.problem(401);
            assert_eq!(answer.header("www-authenticate"), "Bearer");
        }
    }
    let without = Request::get("/v1/urls").body(Body::empty()).unwrap();
    world.send(without).await.problem(401);
    let other_case = Request::get("/v1/urls").header("authorization", format!("bearer  {KEY}"));
    world.send(other_case.body(Body::empty()).unwrap()).await.expect(StatusCode::OK);
}

/// Even if both are the same or only one is valid: a proxy in front may have checked the other.
#[tokio::test]
async fn two_authorization_headers_are_a_bad_request() {
    let world = World::new();
    let valid = format!("Bearer {KEY}");
    for (first, second) in [(&*valid, &*valid), (&valid, "Bearer hf_other"), ("Basic x", &valid), ("", "")] {
        for (method, path) in [("GET", "/v1/urls"), ("POST", "/v1/events"), ("GET", "/v1/events/x")] {
            let request = Request::builder().method(method).uri(path);
            let request = request.header("authorization", first).header("authorization", second);
            let answer = world.send(request.body(Body::from("{}")).unwrap()).await;
            answer.problem(400);
        }
    }
}

#[tokio::test]
async fn unknown_paths_and_methods_are_problems() {
    let world = World::new();
    for path in [
        "/index.html",
        "/console/app.js",
        "/v1",
        "/v1/events/a/b",
        "/v1/events/",
        "/v1/overview/x",
        "/v1/urls/x/explode",
    ] {
        world.get(path).await.problem(404);
    }
    for (method, path, allowed) in [
        ("PUT", "/v1/events", "GET,HEAD,POST"),
        ("DELETE", "/v1/events/x", "GET,HEAD"),
        ("PUT", "/v1/subscriptions", "GET,HEAD,POST"),
        ("PUT", "/v1/subscriptions/x", "GET,HEAD,PATCH,DELETE"),
        ("GET", "/v1/subscriptions/x/ping", "POST"),
        ("GET", "/v1/urls/x/freeze", "POST"),
        ("POST", "/healthz", "GET,HEAD"),
    ] {
        let answer = world.call(method, path, "").await;
        answer.problem(405);
        let mut given: Vec<_> = answer.header("allow").split(',').collect();
        let mut wanted: Vec<_> = allowed.split(',').collect();
        given.sort_unstable();
        wanted.sort_unstable();
        assert_eq!(given, wanted, "{method} {path}");
    }
}

#[tokio::test]
async fn unknown_ids_are_not_found() {
    let world = World::new();
    let short = "a".repeat(26);
    let whole = [format!("sub_{short}"), format!("url_{short}"), format!("dlv_{short}{short}")];
    for id in whole.iter().map(String::as_str).chain(["x", "%FF", "%00", "sub_", "a%23b", "a%20b"]) {
        for path in ["events", "subscriptions", "urls", "deliveries"] {
            world.get(&format!("/v1/{path}/{id}")).await.problem(404);
        }
        world.call("DELETE", &format!("/v1/subscriptions/{id}"), "").await.problem(404);
        world.patch(&format!("/v1/subscriptions/{id}"), "{}").await.problem(404);
        for action in ["rotate-secret", "ping"] {
            world.post(&format!("/v1/subscriptions/{id}/{action}"), "").await.problem(404);
        }
        for action in ["enable", "freeze", "disable"] {
            world.post(&format!("/v1/urls/{id}/{action}"), "").await.problem(404);
        }
        world.post(&format!("/v1/deliveries/{id}/replay"), "").await.problem(404);
    }
    world.get(&format!("/v1/events/{}", "x".repeat(3_000))).await.problem(404);
}

/// Without a length, in pieces of `size` bytes.
fn streamed(text: &str, size: usize) -> Body {
    let pieces: Vec<_> = text.as_bytes().chunks(size).map(Bytes::copy_from_slice).collect();
    Body::from_stream(stream::iter(pieces.into_iter().map(Ok::<_, std::io::Error>)))
}

fn event_of_bytes(length: usize) -> String {
    let (head, tail) = (r#"{"type":"a","data":""#, r#""}"#);
    format!("{head}{}{tail}", "x".repeat(length - head.len() - tail.len()))
}

#[tokio::test]
async fn a_body_has_at_most_a_million_bytes() {
    let world = World::new();
    let (most, more) = (event_of_bytes(1_000_000), event_of_bytes(1_000_001));
    for size in [1_000, 999_999, 2_000_000] {
        world.post("/v1/events", streamed(&most, size)).await.expect(StatusCode::ACCEPTED);
        world.post("/v1/events", streamed(&more, size)).await.problem(413);
    }
    world.post("/v1/events", more).await.problem(413);
    world.post("/v1/subscriptions", event_of_bytes(9_000_000)).await.problem(413);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_arrive_times_out() {
    let world = World::new();
    let started = stream::iter([Ok::<_, std::io::Error>(Bytes::from_static(b"{"))]);
    let answer = world.post("/v1/events", Body::from_stream(started.chain(stream::pending()))).await;
    answer.problem(408);
    let broken = stream::iter([Ok(Bytes::from_static(b"{")), Err(std::io::Error::other("gone"))]);
    world.post("/v1/events", Body::from_stream(broken)).await.problem(400);
}

#[tokio::test]
async fn when_a_dependency_fails_the_answer_asks_to_retry() {
    let world = World::new();
    world.subscribe("a").await;
    world.queue.broken.store(true, Ordering::Relaxed);
    let answer = world.post("/v1/events", r#"{"type":"a","data":1}"#).await;
    answer.problem(503);
    assert_eq!(answer.header("retry-after"), "1");
    assert_eq!(answer.detail(), "A dependency is unavailable; retry later.");
}
