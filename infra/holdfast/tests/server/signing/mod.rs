//! The official libraries verify our signatures, with their default tolerance of five minutes.

mod front;
mod language;

use std::time::Duration;

use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderValue};
use holdfast_e2e::clock::real_ms;
use holdfast_e2e::scene::Scene;
use holdfast_e2e::waiting::{SOON, until};
use holdfast_e2e::{Host, Receiver};
use serde_json::{Value, json};
use standardwebhooks::Webhook;

use crate::process::Server;
use front::{Arrival, Front};
use language::{Language, LibraryReceiver};

/// Retry 3 is due a tenth of a real second after the first attempt, and signed with real time.
const SPEED: u32 = 3_600;
/// The first attempt, and retries 1 and 2.
const FAILING: usize = 3;
const DATA: &str = r#"{"number":1}"#;
const VERIFIED: u16 = 204;
const REJECTED: u16 = 400;
const ANOTHER_SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

#[tokio::test(flavor = "multi_thread")]
async fn the_library_for_rust_verifies() {
    verified_by(Language::Rust).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_library_for_python_verifies() {
    verified_by(Language::Python).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_library_for_node_verifies() {
    verified_by(Language::Node).await;
}

async fn verified_by(language: Language) {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), SPEED, &["--log-level", "warn"]);
    let host = server.host(&Receiver::start().await.unwrap());
    let front = Front::start(host.client().clone()).await;
    let subscription = subscribe(&host, &front.url).await;
    let secret = subscription["secret"].as_str().unwrap();
    let right = LibraryReceiver::start(language, secret);
    let wrong = LibraryReceiver::start(language, ANOTHER_SECRET);

    front.forward_to(&[&right.url, &wrong.url], FAILING);
    post(&host, "order-1").await;
    let scene = Scene::new(&host, "signing");
    let within = scene.within(Duration::from_secs(600)) + SOON;
    let delivery =
        scene.delivery_when("it is delivered", "order-1", within, |d| d.is("delivered")).await.unwrap();
    assert_eq!(delivery.attempts.len(), FAILING + 1, "{delivery:?}");
    host.post(&format!("/v1/deliveries/{}/replay", delivery.id), "").await.unwrap().expect(202).unwrap();
    // Attempts 0 to 3, and the replay.
    let arrivals = arrived(&front, FAILING + 2).await;
    for (number, arrival) in arrivals.iter().enumerate() {
        assert_eq!(arrival.statuses, [VERIFIED, REJECTED], "number {number}: {arrival:?}");
        assert_eq!(arrival.headers["webhook-id"], delivery.id.as_str());
    }
    rejects_changed_requests(&front, &right, secret, &arrivals[FAILING + 1]).await;

    let id = subscription["id"].as_str().unwrap();
    both_verify_after_a_rotation(&host, &front, language, id, [&right, &wrong]).await;
    // The first event arrived six times, and each of the two events was handled once.
    handled(&right, 2).await;
    handled(&wrong, 0).await;
}

/// Receivers with the old secret and with the new one.
async fn both_verify_after_a_rotation(
    host: &Host,
    front: &Front,
    language: Language,
    subscription: &str,
    [old, wrong]: [&LibraryReceiver; 2],
) {
    let path = format!("/v1/subscriptions/{subscription}/rotate-secret");
    let rotated = host.post(&path, "").await.unwrap().expect(200).unwrap();
    let new = LibraryReceiver::start(language, rotated["secret"].as_str().unwrap());
    front.forward_to(&[&new.url, &old.url, &wrong.url], 0);
    let before = front.arrivals().len();
    post(host, "order-2").await;
    let arrival = arrived(front, before + 1).await.remove(before);
    assert_eq!(arrival.statuses, [VERIFIED, VERIFIED, REJECTED], "{arrival:?}");
    handled(&new, 1).await;

    let signatures: Vec<&str> = arrival.headers["webhook-signature"].to_str().unwrap().split(' ').collect();
    assert_eq!(signatures.len(), 2, "{signatures:?}");
    let newest_alone = with(&arrival.headers, &[("webhook-signature", signatures[0])]);
    assert_eq!(front.forward(&new.url, &newest_alone, arrival.body.clone()).await, VERIFIED);
    assert_eq!(front.forward(&old.url, &newest_alone, arrival.body.clone()).await, REJECTED);
}

async fn subscribe(host: &Host, url: &str) -> Value {
    let body = json!({ "url": url, "event_types": ["order.*"] });
    host.post("/v1/subscriptions", body.to_string()).await.unwrap().expect(201).unwrap()
}

async fn post(host: &Host, id: &str) {
    let body = format!(r#"{{"id":"{id}","type":"order.created","data":{DATA}}}"#);
    host.post("/v1/events", body).await.unwrap().expect(202).unwrap();
}

async fn arrived(front: &Front, count: usize) -> Vec<Arrival> {
    let arrivals = until("all requests arrive", SOON, async || {
        Ok(Some(front.arrivals()).filter(|arrivals| arrivals.len() >= count))
    });
    let arrivals = arrivals.await.unwrap();
    assert_eq!(arrivals.len(), count, "{arrivals:?}");
    arrivals
}

/// A receiver prints an event before it responds, so once this many lines are read there are no others.
async fn handled(receiver: &LibraryReceiver, count: usize) {
    let mut lines = Vec::new();
    let all = until("the receiver prints the events", SOON, async || {
        lines.extend(receiver.handled());
        Ok((lines.len() >= count).then_some(()))
    });
    all.await.unwrap();
    assert_eq!(lines.len(), count, "{lines:?}");
    assert!(lines.iter().all(|line| line.contains("order.created")), "{lines:?}");
}

/// The request is valid as it arrived, and invalid as soon as one part of it changes.
async fn rejects_changed_requests(front: &Front, right: &LibraryReceiver, secret: &str, arrival: &Arrival) {
    let (headers, body) = (&arrival.headers, &arrival.body);
    assert_eq!(front.forward(&right.url, headers, body.clone()).await, VERIFIED);

    let body_text = std::str::from_utf8(body).unwrap();
    let other_body = body_text.replace(DATA, r#"{"number":2}"#);
    assert_ne!(body_text, other_body);
    assert_eq!(front.forward(&right.url, headers, Bytes::from(other_body)).await, REJECTED, "another body");

    let signed_secs: i64 = headers["webhook-timestamp"].to_str().unwrap().parse().unwrap();
    let later = (signed_secs + 1).to_string();
    for (name, value) in [("webhook-id", "dlv_other"), ("webhook-timestamp", later.as_str())] {
        let headers = with(headers, &[(name, value)]);
        assert_eq!(front.forward(&right.url, &headers, body.clone()).await, REJECTED, "another {name}");
    }

    // A valid signature that is too old. This shows that the other timestamps were close to real time.
    let long_ago = i64::try_from(real_ms()).unwrap() / 1_000 - 310;
    let id = headers["webhook-id"].to_str().unwrap();
    let signature = Webhook::new(secret).unwrap().sign(id, long_ago, body).unwrap();
    let old =
        with(headers, &[("webhook-timestamp", &long_ago.to_string()), ("webhook-signature", &signature)]);
    assert_eq!(front.forward(&right.url, &old, body.clone()).await, REJECTED, "signed five minutes ago");
}

fn with(headers: &HeaderMap, changes: &[(&'static str, &str)]) -> HeaderMap {
    let mut headers = headers.clone();
    for &(name, value) in changes {
        headers.insert(name, HeaderValue::from_str(value).unwrap());
    }
    headers
}
