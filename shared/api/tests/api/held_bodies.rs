//! The memory that the bodies of requests take together.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use axum::body::Body;
use axum::http::{Request, StatusCode};
use bytes::Bytes;
use futures_util::future::{BoxFuture, join_all};
use futures_util::{FutureExt, StreamExt, poll, stream};

use crate::world::{Answer, Hangs, KEY, World};

const SMALL: &str = r#"{"type":"a","data":1}"#;
/// So many bodies of a million bytes are a quarter of what all may hold.
const SHARE: usize = 32;

static MILLION: LazyLock<Bytes> =
    LazyLock::new(|| format!(r#"{{"type":"a","data":"{}"}}"#, "x".repeat(1_000_000 - 23)).into());

/// Nearly all of a body, of which the rest never arrives.
fn unfinished() -> Body {
    let pieces = [MILLION.slice(..500_000), MILLION.slice(500_000..999_999)];
    Body::from_stream(stream::iter(pieces.map(Ok::<_, std::io::Error>)).chain(stream::pending()))
}

/// Starts so many posts, which read what there is of their bodies and then wait.
async fn start<'a>(
    world: &'a World,
    key: &'a str,
    count: usize,
    body: impl Fn() -> Body,
) -> Vec<BoxFuture<'a, Answer>> {
    let mut posts = Vec::new();
    for _ in 0..count {
        let mut post = world.call_as(key, "POST", "/v1/events", body()).boxed();
        // The first step finds the key, and the next ones read the body.
        for _ in 0..8 {
            assert!(poll!(&mut post).is_pending());
        }
        posts.push(post);
    }
    posts
}

#[tokio::test(start_paused = true)]
async fn slow_bodies_of_a_tenant_take_a_quarter_of_the_memory_and_others_get_through() {
    let world = World::new();
    let (mine, other, operator) =
        (world.key("a", "ingest").await, world.key("b", "ingest").await, world.key("", "operator").await);
    let slow = start(&world, &mine, SHARE + 10, unfinished).await;
    let refused = world.call_as(&mine, "POST", "/v1/events", SMALL).await;
    refused.problem(429);
    assert_eq!(refused.header("retry-after"), "1");
    assert!(refused.detail().contains("of this tenant"), "{}", refused.detail());
    world.call_as(&other, "POST", "/v1/events", SMALL).await.expect(StatusCode::ACCEPTED);
    world.call_as(&operator, "POST", "/v1/events?tenant=a", SMALL).await.expect(StatusCode::ACCEPTED);
    // Those that were refused say so when their time is over, not that they were slow.
    let answers = join_all(slow).await;
    let count = |status: u16| answers.iter().filter(|answer| answer.status.as_u16() == status).count();
    assert_eq!((count(408), count(429)), (SHARE, 10));
    world.call_as(&mine, "POST", "/v1/events", SMALL).await.expect(StatusCode::ACCEPTED);
}

#[tokio::test(start_paused = true)]
async fn bodies_count_until_their_requests_are_answered_or_gone() {
    let world = World::new();
    world.subscribe("a").await;
    *world.queue.hangs.lock().unwrap() = Some(Hangs::Before);
    let whole = start(&world, KEY, SHARE, || Body::from(MILLION.clone())).await;
    *world.queue.hangs.lock().unwrap() = None;
    let refused = world.post("/v1/events", MILLION.clone()).await;
    refused.problem(429);
    assert!(refused.detail().contains("with operator keys"), "{}", refused.detail());
    drop(whole);
    world.post("/v1/events", MILLION.clone()).await.expect(StatusCode::ACCEPTED);
}

/// A body of many small pieces is joined, and takes no more memory than its length.
#[tokio::test(start_paused = true)]
async fn a_body_in_pieces_counts_once() {
    let world = World::new();
    let pieces = || {
        let pieces: Vec<_> = MILLION.chunks(10_000).map(Bytes::copy_from_slice).map(Ok).collect();
        Body::from_stream(stream::iter(pieces).map(|piece: Result<_, std::io::Error>| piece))
    };
    let _slow = start(&world, KEY, SHARE - 1, unfinished).await;
    world.post("/v1/events", pieces()).await.expect(StatusCode::ACCEPTED);
}

#[tokio::test]
async fn nothing_is_read_of_the_body_of_a_stranger() {
    let world = World::new();
    let read = Arc::new(AtomicUsize::new(0));
    for (method, path) in [
        ("POST", "/v1/events"),
        ("POST", "/v1/subscriptions"),
        ("PATCH", "/v1/subscriptions/x"),
        ("POST", "/v1/urls/x/freeze"),
        ("POST", "/v1/urls/x/replay"),
        ("POST", "/v1/keys"),
        ("PATCH", "/v1/tenants/x"),
        ("GET", "/v1/urls"),
        ("GET", "/healthz"),
        ("POST", "/v1/unknown"),
    ] {
        let count = Arc::clone(&read);
        let body = stream::repeat_with(move || {
            count.fetch_add(1, Ordering::Relaxed);
            Ok::<_, std::io::Error>(MILLION.clone())
        });
        let request = Request::builder().method(method).uri(path).header("authorization", "Bearer hf_other");
        world.send(request.body(Body::from_stream(body)).unwrap()).await;
        assert_eq!(read.load(Ordering::Relaxed), 0, "{method} {path}");
    }
}
