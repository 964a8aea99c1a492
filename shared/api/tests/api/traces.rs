//! `traceparent` and `tracestate` of a post go on to receivers.

use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use holdfast_core::ports::AttemptRequest;

use crate::world::{KEY, World};

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const RETRIED: Duration = Duration::from_secs(90);

async fn post(world: &World, headers: &[(&str, &str)], body: String) {
    let mut request = Request::post("/v1/events").header("authorization", format!("Bearer {KEY}"));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    world.send(request.body(Body::from(body)).unwrap()).await.expect(StatusCode::ACCEPTED);
}

fn header<'a>(request: &'a AttemptRequest, name: &str) -> Option<&'a str> {
    request.headers.iter().find(|(given, _)| *given == name).map(|(_, value)| value.as_str())
}

fn spans(requests: &[AttemptRequest]) -> Vec<String> {
    let span = |request: &AttemptRequest| {
        let parent = header(request, "traceparent").expect("it has a trace").to_owned();
        assert_eq!((&parent[..36], &parent[52..]), (&PARENT[..36], &PARENT[52..]));
        parent[36..52].to_owned()
    };
    let mut spans: Vec<String> = requests.iter().map(span).collect();
    spans.sort_unstable();
    spans.dedup();
    spans
}

#[tokio::test]
async fn every_attempt_of_every_kind_goes_on_with_the_trace() {
    let world = World::new();
    world.subscribe("good").await;
    world.subscribe("bad").await;
    world.receiver.respond_at("bad", 500);
    let headers = [("traceparent", PARENT), ("tracestate", "a=1"), ("tracestate", "b=2")];
    let large = format!(r#"{{"type":"a.b","data":"{}"}}"#, "x".repeat(160_000));
    post(&world, &headers, r#"[{"id":"one","type":"a.b","data":1},{"type":"a.b","data":2}]"#.to_owned())
        .await;
    post(&world, &headers, large).await;
    world.work().await;
    world.clock.advance(RETRIED);
    world.work().await;
    let shown = world.get("/v1/deliveries?event=one&state=delivered").await.expect(StatusCode::OK);
    let id = shown["items"][0]["id"].as_str().unwrap().to_owned();
    world.post(&format!("/v1/deliveries/{id}/replay"), "").await.expect(StatusCode::ACCEPTED);
    world.work().await;
    let (good, bad) = (world.receiver.requests_to("good"), world.receiver.requests_to("bad"));
    assert_eq!((good.len(), bad.len()), (4, 6), "three events, a replay, and three retries");
    assert!(good.iter().chain(&bad).all(|request| header(request, "tracestate") == Some("a=1,b=2")));
    let mut all = spans(&[good, bad].concat());
    assert_eq!(all.len(), 10, "each attempt has a span of its own");
    all.retain(|span| *span == PARENT[36..52]);
    assert!(all.is_empty(), "the producer's span is not an attempt's");
}

#[tokio::test]
async fn what_is_invalid_is_ignored() {
    let world = World::new();
    let path = world.subscribe("good").await["id"].as_str().unwrap().to_owned();
    let event = || r#"{"type":"a.b","data":1}"#.to_owned();
    post(&world, &[], event()).await;
    post(&world, &[("tracestate", "a=1")], event()).await;
    post(&world, &[("traceparent", "00-zero"), ("tracestate", "a=1")], event()).await;
    post(&world, &[("traceparent", PARENT), ("traceparent", PARENT)], event()).await;
    world.work().await;
    world.post(&format!("/v1/subscriptions/{path}/ping"), "").await.expect(StatusCode::OK);
    let requests = world.receiver.requests_to("good");
    assert_eq!(requests.len(), 5);
    assert!(requests.iter().all(|request| header(request, "traceparent").is_none()));
    assert!(requests.iter().all(|request| header(request, "tracestate").is_none()));
    post(&world, &[("traceparent", PARENT), ("tracestate", &"x".repeat(513))], event()).await;
    world.work().await;
    let traced = world.receiver.requests_to("good").pop().unwrap();
    assert_eq!(spans(std::slice::from_ref(&traced)).len(), 1);
    assert_eq!(header(&traced, "tracestate"), None, "one that is too long does not cost the trace");
}
