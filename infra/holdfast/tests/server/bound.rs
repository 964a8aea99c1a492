use std::time::Duration;

use holdfast_e2e::scene::Scene;
use holdfast_e2e::waiting::SOON;
use holdfast_e2e::{Receiver, Reply};

use crate::process::Server;

const EVENTS: usize = 500;
const URL_CONCURRENCY: usize = 8;
/// The timeout is longer than the test, so that all arrivals are in flight.
const FLAGS: [&str; 8] = [
    "--url-concurrency",
    "8",
    "--first-concurrency",
    "32",
    "--http-timeout-ms",
    "20000",
    "--log-level",
    "warn",
];

/// A URL that hangs does not use up the concurrency of others.
#[tokio::test(flavor = "multi_thread")]
async fn concurrent_attempts_to_one_url_are_limited() {
    let folder = tempfile::tempdir().unwrap();
    let receiver = Receiver::start().await.unwrap();
    let server = Server::start(folder.path(), 1, &FLAGS);
    let host = server.host(&receiver);
    let scene = Scene::new(&host, "bound");
    let hanging = scene.subscribe("hanging", Reply::Hang).await.unwrap();
    let good = scene.subscribe("good", Reply::Status(200)).await.unwrap();
    scene.post_many("hanging", EVENTS).await.unwrap();
    scene.arrivals(&hanging.path, URL_CONCURRENCY, SOON).await.unwrap();
    for number in 1..=20 {
        scene.post("good").await.unwrap();
        scene.arrivals(&good.path, number, Duration::from_secs(2)).await.unwrap();
    }
    assert_eq!(receiver.count(&hanging.path), URL_CONCURRENCY);
}
