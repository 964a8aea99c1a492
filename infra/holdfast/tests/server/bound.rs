use std::time::Duration;

use holdfast_e2e::scene::Scene;
use holdfast_e2e::waiting::SOON;
use holdfast_e2e::{Receiver, Reply};

use crate::process::Server;

const EVENTS: usize = 500;
const AT_ONE_URL: usize = 8;
/// No attempt ends by itself while the test looks, so that what arrived is what is out.
const FLAGS: [&str; 8] = [
    "--url-concurrency",
    "8",
    "--first-concurrency",
    "16",
    "--http-timeout-ms",
    "20000",
    "--log-level",
    "warn",
];

/// A URL that hangs takes its own places and no others.
#[tokio::test(flavor = "multi_thread")]
async fn one_url_has_only_so_many_attempts_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let receiver = Receiver::start().await.unwrap();
    let server = Server::start(folder.path(), 1, &FLAGS);
    let host = server.host(&receiver);
    let scene = Scene::new(&host, "bound");
    let hanging = scene.subscribe("hanging", Reply::Hang).await.unwrap();
    let good = scene.subscribe("good", Reply::Status(200)).await.unwrap();
    scene.post_many("hanging", EVENTS).await.unwrap();
    scene.arrivals(&hanging.path, AT_ONE_URL, SOON).await.unwrap();
    for number in 1..=20 {
        scene.post("good").await.unwrap();
        scene.arrivals(&good.path, number, Duration::from_secs(2)).await.unwrap();
    }
    assert_eq!(receiver.count(&hanging.path), AT_ONE_URL);
}
