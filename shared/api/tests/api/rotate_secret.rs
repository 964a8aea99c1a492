//! Rotation of signing secrets.

use std::time::Duration;

use axum::http::StatusCode;
use holdfast_core::ports::{AttemptRequest, Clock};
use holdfast_core::rules::signing::{Secret, Signer};
use serde_json::{Value, json};

use crate::world::World;

fn header<'a>(request: &'a AttemptRequest, name: &str) -> &'a str {
    request.headers.iter().find(|(found, _)| *found == name).map_or("", |(_, value)| value)
}

async fn post_and_receive(world: &World) -> AttemptRequest {
    world.post("/v1/events", r#"{"type":"a","data":1}"#).await.expect(StatusCode::ACCEPTED);
    world.work().await;
    world.receiver.requests_to("a").pop().unwrap()
}

/// The expected signature header.
fn signed_by(world: &World, request: &AttemptRequest, secrets: &[&Value]) -> String {
    let secrets: Vec<_> = secrets
        .iter()
        .map(|value| Secret { value: value.as_str().unwrap().to_owned(), until_real: None })
        .collect();
    let id = header(request, "webhook-id");
    let mut signer = Signer::new(&secrets, id, world.clock.now_real(), request.body.clone());
    assert!(signer.step(usize::MAX));
    signer.finish()
}

#[tokio::test]
async fn a_rotated_secret_stays_valid_for_signing_for_a_day() {
    let world = World::new();
    let mut subscription = world.subscribe("a").await;
    let path = format!("/v1/subscriptions/{}", subscription["id"].as_str().unwrap());
    let first = subscription.as_object_mut().unwrap().remove("secret").unwrap();
    let request = post_and_receive(&world).await;
    assert_eq!(header(&request, "webhook-signature"), signed_by(&world, &request, &[&first]));

    let mut rotated = world.post(&format!("{path}/rotate-secret"), "").await.expect(StatusCode::OK);
    let second = rotated.as_object_mut().unwrap().remove("secret").unwrap();
    assert_eq!(rotated, subscription, "the other fields are unchanged");
    assert!(second.as_str().unwrap().starts_with("whsec_") && second != first);
    assert_eq!(world.get(&path).await.expect(StatusCode::OK), subscription, "the secret is not shown again");
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
async fn a_subscription_has_at_most_ten_secrets() {
    let world = World::new();
    let subscription = world.subscribe("a").await;
    let path = format!("/v1/subscriptions/{}/rotate-secret", subscription["id"].as_str().unwrap());
    for _ in 1..10 {
        world.post(&path, "").await.expect(StatusCode::OK);
    }
    let answer = world.post(&path, "").await;
    answer.problem(409);
    assert!(answer.detail().contains("10"), "{}", answer.detail());
    world.clock.advance(Duration::from_secs(24 * 3600));
    let rotated = world.post(&path, "").await.expect(StatusCode::OK);
    assert_ne!(rotated["secret"], json!(null), "expired ones do not count");
}
