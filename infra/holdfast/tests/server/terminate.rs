use std::time::Duration;

use holdfast_e2e::scene::Scene;
use holdfast_e2e::waiting::SOON;
use holdfast_e2e::{Receiver, Reply};

use crate::process::Server;

const FLAGS: [&str; 2] = ["--http-timeout-ms", "4000"];
/// How long the stop waits for attempts, and then for closing the store.
const STOPPING: Duration = Duration::from_secs(3);

#[tokio::test(flavor = "multi_thread")]
async fn attempts_in_flight_are_finished() {
    let folder = tempfile::tempdir().unwrap();
    let receiver = Receiver::start().await.unwrap();
    let mut server = Server::start(folder.path(), 1, &FLAGS);
    let host = server.host(&receiver);
    let scene = Scene::new(&host, "slow");
    let slow = scene.subscribe("slow", Reply::Slow(Duration::from_secs(1))).await.unwrap();
    let id = scene.post("slow").await.unwrap();
    scene.arrivals(&slow.path, 1, SOON).await.unwrap();
    server.terminate();
    let status = server.process.exit(STOPPING).await;
    assert!(status.success(), "{status}: {}", server.process.stderr());

    let server = Server::start(folder.path(), 1, &FLAGS);
    let host = server.host(&receiver);
    let scene = Scene::new(&host, "slow");
    let shown = scene.delivery_when("it is delivered", &id, SOON, |d| d.is("delivered")).await.unwrap();
    assert_eq!((shown.attempts.len(), receiver.count(&slow.path)), (1, 1), "{shown:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn new_events_are_attempted_while_the_stop_waits_for_a_hanging_receiver() {
    let folder = tempfile::tempdir().unwrap();
    let receiver = Receiver::start().await.unwrap();
    let mut server = Server::start(folder.path(), 1, &FLAGS);
    let host = server.host(&receiver);
    let scene = Scene::new(&host, "stopping");
    let hanging = scene.subscribe("hanging", Reply::Hang).await.unwrap();
    let healthy = scene.subscribe("healthy", Reply::Status(200)).await.unwrap();
    scene.post("hanging").await.unwrap();
    scene.arrivals(&hanging.path, 1, SOON).await.unwrap();
    server.terminate();
    scene.post("healthy").await.unwrap();
    let status = server.process.exit(STOPPING).await;
    assert!(status.success(), "{status}: {}", server.process.stderr());
    assert_eq!(receiver.count(&healthy.path), 1, "it did not wait for the next start");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hanging_receiver_does_not_delay_the_stop() {
    let folder = tempfile::tempdir().unwrap();
    let receiver = Receiver::start().await.unwrap();
    let mut server = Server::start(folder.path(), 1, &FLAGS);
    let host = server.host(&receiver);
    let scene = Scene::new(&host, "hanging");
    let hanging = scene.subscribe("hanging", Reply::Hang).await.unwrap();
    scene.post("hanging").await.unwrap();
    scene.arrivals(&hanging.path, 1, SOON).await.unwrap();
    server.terminate();
    let status = server.process.exit(STOPPING).await;
    assert!(status.success(), "{status}: {}", server.process.stderr());
}
