//! The files of a running server: removed, backed up and restored.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use holdfast_e2e::scene::Scene;
use holdfast_e2e::views::text;
use holdfast_e2e::waiting::until;
use holdfast_e2e::{Host, Receiver, Reply};
use serde_json::json;

use crate::process::{Process, Server};
use crate::refusals::refused;

const SOON: Duration = Duration::from_secs(30);

async fn post(host: &Host) -> u16 {
    let event = json!({ "type": "order.created", "data": {} });
    host.post("/v1/events", event.to_string()).await.unwrap().status.as_u16()
}

/// Returns the id of the URL.
async fn subscribe(host: &Host, path: &str) -> String {
    let body = json!({ "url": host.receiver.url(path), "event_types": ["*"] });
    let answer = host.post("/v1/subscriptions", body.to_string()).await.unwrap().expect(201).unwrap();
    text(&answer, "url_id").unwrap().to_owned()
}

#[tokio::test]
async fn a_server_whose_database_was_removed_accepts_nothing_and_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start(folder.path(), 1, &[]);
    let host = server.host(&Receiver::start().await.unwrap());
    subscribe(&host, "/any").await;
    assert_eq!(post(&host).await, 202);
    fs::remove_file(folder.path().join("holdfast.db")).unwrap();
    for _ in 0..3 {
        assert_eq!(post(&host).await, 503);
    }
    let said = |log: &String| log.contains("holdfast.db was removed") && log.contains("restore a backup");
    let logged = until("it says why", SOON, async || Ok(Some(server.process.stderr()).filter(said)));
    logged.await.unwrap();
    server.terminate();
    server.process.exit(SOON).await;
    let output =
        refused(&["dev", "--listen", "127.0.0.1:0", "--data", folder.path().to_str().unwrap()]).await;
    assert!(output.contains("holdfast.db is missing"), "{output}");
}

#[tokio::test]
async fn a_flipped_byte_is_found_by_the_background_check_and_the_rest_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let receiver = Receiver::start().await.unwrap();
    let mut server = Server::start(folder.path(), 1, &[]);
    subscribe(&server.host(&receiver), "/damaged").await;
    let intact = subscribe(&server.host(&receiver), "/intact").await;
    server.terminate();
    assert!(server.process.exit(SOON).await.success());
    let file = folder.path().join("holdfast.db");
    let mut bytes = fs::read(&file).unwrap();
    let places: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(b"/damaged")).collect();
    assert!(!places.is_empty());
    for at in places {
        bytes[at + 1] ^= 0x01;
    }
    fs::write(&file, bytes).unwrap();

    let server = Server::start(folder.path(), 1, &[]);
    let found = until("the damage is logged", SOON, async || {
        Ok(server.process.stderr().contains("stored data is damaged").then_some(()))
    });
    found.await.unwrap();
    let host = server.host(&receiver);
    assert_eq!(host.get(&format!("/v1/urls/{intact}")).await.unwrap().status, 200);
}

async fn back_up(data: &Path, to: &Path) {
    let args = ["backup", "--data", data.to_str().unwrap(), "--to", to.to_str().unwrap()];
    let mut process = Process::spawn(&args);
    let status = process.exit(SOON).await;
    assert!(status.success(), "{}", process.stderr());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_of_a_running_server_restores_what_was_accepted_before_it() {
    let (folder, parent) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let receiver = Receiver::start().await.unwrap();
    let server = Server::start(folder.path(), 1, &[]);
    let host = server.host(&receiver);
    // It fails, so that the restored server has everything still to deliver.
    receiver.switch("/shop", Reply::Status(500));
    let url_id = subscribe(&host, "/shop").await;
    let mut accepted = BTreeSet::new();
    for _ in 0..20 {
        let event = json!({ "type": "order.created", "data": {} }).to_string();
        let answer = host.post("/v1/events", event).await.unwrap().expect(202).unwrap();
        accepted.insert(text(&answer, "id").unwrap().to_owned());
    }
    let backup = parent.path().join("backup");
    tokio::select! {
        () = back_up(folder.path(), &backup) => {}
        // Writes go on meanwhile.
        () = async { while post(&host).await == 202 {} } => panic!("an event was refused during the backup"),
    }
    let key = server.key.clone();
    server.kill();

    let restored = Server::start(&backup, 1, &[]);
    assert_eq!(restored.key, key);
    let host = restored.host(&receiver);
    let scene = Scene::new(&host, "backup");
    let found = until("every accepted event is there", SOON, async || {
        let shown = scene.deliveries(&format!("url={url_id}")).await?;
        let shown: BTreeSet<String> = shown.into_iter().map(|delivery| delivery.event_id).collect();
        Ok(accepted.is_subset(&shown).then_some(()))
    });
    found.await.unwrap();
}
