//! `--secret-overlap-hours` sets how long a rotated secret stays valid for signing.

use holdfast_e2e::views::text;
use holdfast_e2e::{Host, Receiver};
use serde_json::json;

use crate::process::Server;

/// How many signatures a ping has after its subscription's secret was rotated.
async fn signatures(flags: &[&str]) -> usize {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), 1, flags);
    let host: Host = server.host(&Receiver::start().await.unwrap());
    let body = json!({ "url": host.receiver.url("/shop"), "event_types": ["*"] }).to_string();
    let subscription = host.post("/v1/subscriptions", body).await.unwrap().expect(201).unwrap();
    let path = format!("/v1/subscriptions/{}", text(&subscription, "id").unwrap());
    for action in ["rotate-secret", "ping"] {
        host.post(&format!("{path}/{action}"), "").await.unwrap().expect(200).unwrap();
    }
    let arrived = host.receiver.arrivals("/shop");
    assert_eq!(arrived.len(), 1);
    arrived[0].header("webhook-signature").split(' ').count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rotated_secret_stays_valid_for_signing_as_long_as_configured() {
    assert_eq!(signatures(&[]).await, 2);
    assert_eq!(signatures(&["--secret-overlap-hours", "0"]).await, 1);
}
