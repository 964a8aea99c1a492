//! A signing secret is replaced while its receiver goes on.

use std::time::Duration;

use axum::http::StatusCode;
use holdfast_core::ports::{AttemptRequest, Clock};
use holdfast_core::rules::signing;
use holdfast_core::rules::signing::Secret;
use serde_json::{Value, json};

use crate::world::World;

fn header<'a>(request: &'a AttemptRequest, name: &str) -> &'a str {
    request.headers.iter().find(|(found, _)| *found == name).map_or("", |(_, value)| value)
}

async fn post_and_receive(world: &World) -> AttemptRequest {
    world.post("/v1/events", r#"{"type":"a","data":1}"#).await.expect(StatusCode::ACCEPTED);
    world.work().await;
    world.receiver.arrived("a").pop().unwrap()
}

/// What the holder of these secrets, in this order, would have signed.
fn signed_by(world: &World, request: &AttemptRequest, secrets: &[&Value]) -> String {
    let secrets: Vec<_> = secrets
        .iter()
        .map(|value| Secret { value: value.as_str().unwrap().to_owned(), until_real: None })
        .collect();
    signing::sign(&secrets, header(request, "webhook-id"), world.clock.now_real(), &request.body)
}

#[tokio::test]
async fn the_old_secret_signs_along_for_a_day() {
    let world = World::new();
    let mut subscription = world.subscribe("a").await;
    let path = format!("/v1/subscriptions/{}", subscription["id"].as_str().unwrap());
    let first = subscription.as_object_mut().unwrap().remove("secret").unwrap();
    let request = post_and_receive(&world).await;
    assert_eq!(header(&request, "webhook-signature"), signed_by(&world, &request, &[&first]));

    let mut rotated = world.post(&format!("{path}/rotate-secret"), "").await.expect(StatusCode::OK);
    let second = rotated.as_object_mut().unwrap().remove("secret").unwrap();
    assert_eq!(rotated, subscription, "the rest is shown as before");
    assert!(second.as_str().unwrap().starts_with("whsec_") && second != first);
    assert_eq!(world.get(&path).await.expect(StatusCode::OK), subscription, "and no secret ever again");
    let request = post_and_receive(&world).await;
    assert_eq!(header(&request, "webhook-signature"), signed_by(&world, &request, &[&second, &first]));
    assert_eq!(header(&request, "webhook-signature").split(' ').count(), 2);

    world.clock.advance(Duration::from_secs(24 * 3600 - 1));
    let request = post_and_receive(&world).await;
    assert_eq!(header(&request, "webhook-signature").split(' ').count(), 2);
    world.clock.advance(Duration::from_secs(1));
    let request = post_and_receive(&world).await;
    assert_eq!(header(&request, "webhook-signature"), signed_by(&world, &request, &[&second]));
}

#[tokio::test]
async fn ten_secrets_are_enough() {
    let world = World::new();
    let subscription = world.subscribe("a").await;
    let path = format!("/v1/subscriptions/{}/rotate-secret", subscription["id"].as_str().unwrap());
    for _ in 1..10 {
        world.post(&path, "").await.expect(StatusCode::OK);
    }
    let told = world.post(&path, "").await;
    told.problem(409);
    assert!(told.detail().contains("10"), "{}", told.detail());
    world.clock.advance(Duration::from_secs(24 * 3600));
    let rotated = world.post(&path, "").await.expect(StatusCode::OK);
    assert_ne!(rotated["secret"], json!(null), "lapsed ones do not count");
}
