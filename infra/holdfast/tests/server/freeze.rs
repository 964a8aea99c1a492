use std::time::Duration;

use holdfast_e2e::scene::Scene;
use holdfast_e2e::waiting::SOON;
use holdfast_e2e::{Receiver, Reply};

use crate::process::Server;

const SPEED: u32 = 3_600;
const EVENTS: usize = 3;

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_url_stays_frozen_over_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let receiver = Receiver::start().await.unwrap();
    let server = Server::start(folder.path(), SPEED, &[]);
    let host = server.host(&receiver);
    let scene = Scene::new(&host, "freeze");
    let frozen = scene.subscribe("frozen", Reply::Status(200)).await.unwrap();
    scene.change_url_state(&frozen.url_id, "freeze", "maintenance").await.unwrap();
    for id in scene.post_many("frozen", EVENTS).await.unwrap() {
        scene.delivery_when("it is parked", &id, SOON, |d| d.is("parked")).await.unwrap();
    }
    server.kill();

    let server = Server::start(folder.path(), SPEED, &[]);
    let host = server.host(&receiver);
    let scene = Scene::new(&host, "after");
    let url = scene.url(&frozen.url_id).await.unwrap();
    assert_eq!((&url["state"], &url["reason"]), (&"frozen".into(), &"maintenance".into()), "{url}");
    assert_eq!(url["parked"], EVENTS, "{url}");
    // Schedule time passes: another URL is retried several times.
    scene.subscribe("witness", Reply::Status(500)).await.unwrap();
    let witness = scene.post("witness").await.unwrap();
    let within = scene.within(Duration::from_secs(3600));
    scene.delivery_when("the witness fails", &witness, within, |d| d.attempts.len() >= 6).await.unwrap();
    assert_eq!(receiver.count(&frozen.path), 0, "a frozen URL was attempted");

    let enabled = scene.change_url_state(&frozen.url_id, "enable", "back").await.unwrap();
    assert_eq!(enabled["released"], EVENTS, "{enabled}");
    scene.arrivals(&frozen.path, EVENTS, SOON).await.unwrap();
}
