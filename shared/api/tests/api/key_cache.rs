//! How soon new and deleted keys take effect.

use std::time::Duration;

use axum::http::StatusCode;
use futures_util::{FutureExt, poll};
use holdfast_api::Keys;

use crate::world::World;

/// The id of the one key of this tenant.
async fn id_of(world: &World, tenant: &str) -> String {
    let listed = world.get(&format!("/v1/keys?tenant={tenant}")).await.expect(StatusCode::OK);
    listed["items"][0]["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_deleted_key_is_rejected_here_at_once_and_elsewhere_within_5_s() {
    let world = World::new();
    let other = world.another_process();
    let key = world.key("a", "admin").await;
    let id = id_of(&world, "a").await;
    for process in [&world, &other] {
        process.call_as(&key, "GET", "/v1/urls", "").await.expect(StatusCode::OK);
    }
    let deleted = world.call("DELETE", &format!("/v1/keys/{id}"), "").await;
    assert_eq!(deleted.status, StatusCode::NO_CONTENT);
    world.call_as(&key, "GET", "/v1/urls", "").await.problem(401);
    // The other process has it in its cache for 2 s.
    other.call_as(&key, "GET", "/v1/urls", "").await.expect(StatusCode::OK);
    world.clock.advance(Duration::from_secs(2));
    other.call_as(&key, "GET", "/v1/urls", "").await.problem(401);
}

#[tokio::test]
async fn a_new_key_is_valid_everywhere_at_once() {
    let world = World::new();
    let other = world.another_process();
    let key = world.key("a", "admin").await;
    other.call_as(&key, "GET", "/v1/urls", "").await.expect(StatusCode::OK);
    let tenant = other.get("/v1/urls?tenant=a").await;
    tenant.expect(StatusCode::OK);
}

#[tokio::test]
async fn an_expired_key_is_rejected_although_it_is_cached() {
    let world = World::new();
    let body = r#"{"tenant":"a","role":"admin","expires_at":"2026-01-01T00:00:01Z"}"#;
    let made = world.post("/v1/keys", body).await.expect(StatusCode::CREATED);
    let key = made["key"].as_str().unwrap();
    world.call_as(key, "GET", "/v1/urls", "").await.expect(StatusCode::OK);
    world.clock.advance(Duration::from_secs(1));
    world.call_as(key, "GET", "/v1/urls", "").await.problem(401);
}

#[tokio::test]
async fn a_malformed_key_is_rejected_without_a_read() {
    let world = World::new().another_process_with_pauses(Keys::single("hf_built_in", "default".into()));
    let long = format!("hf_{}", "x".repeat(254));
    for key in ["nonsense", "HF_x", "hf-x", &long] {
        let answer = world.call_as(key, "GET", "/v1/keys", "").now_or_never();
        answer.expect("no call to the store").problem(401);
    }
    assert!(world.call_as("hf_unknown", "GET", "/v1/keys", "").now_or_never().is_none(), "the store is read");
    world.call_as("hf_unknown", "GET", "/v1/keys", "").await.problem(401);
}

#[tokio::test]
async fn a_key_is_looked_up_again_after_2_s() {
    let world = World::new();
    let key = world.key("a", "admin").await;
    let paused = world.another_process_with_pauses(Keys::single("hf_built_in", "default".into()));
    // The id is malformed, so only the key is read.
    let call = async || {
        let mut call = paused.call_as(&key, "GET", "/v1/urls/x", "").boxed();
        let mut steps = 1;
        while poll!(&mut call).is_pending() {
            steps += 1;
        }
        steps
    };
    // One that finds the key, and one in the turn of its holder.
    let cached = 2;
    assert!(call().await > cached);
    assert_eq!(call().await, cached);
    world.clock.advance(Duration::from_secs(2));
    assert!(call().await > cached, "it is looked up again");
}
