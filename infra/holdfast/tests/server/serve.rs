//! Strict mode: what it refuses, what it does not have, and what a flag allows.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use holdfast_e2e::scene::Scene;
use holdfast_e2e::waiting::{SOON, until};
use holdfast_e2e::{Host, Receiver, Reply};
use serde_json::{Value, json};

use crate::process::Server;
use crate::refusals::refused;

const THIS_MACHINE: [&str; 6] =
    ["--allow-target", "127.0.0.0/8", "--allow-target", "::1/128", "--http-targets", "allow"];

/// A client with a key to a tenant of its own: the operator's is at home nowhere.
async fn tenant_of(server: &Server, receiver: &Receiver) -> Host {
    server.host(receiver).in_own_tenant().await.unwrap()
}

/// What is wrong with `url` according to the answer to a subscription of it.
async fn refusal(host: &Host, url: &str) -> String {
    let body = json!({"url": url, "event_types": ["*"]}).to_string();
    let told = host.post("/v1/subscriptions", body).await.unwrap().expect(400).unwrap();
    assert_eq!(told["errors"][0]["field"], "url", "{told}");
    told["errors"][0]["detail"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn it_says_what_it_needs_and_what_it_does_not_take() {
    let said = refused(&["serve"]).await;
    assert!(said.contains("--listen") && said.contains("--data"), "{said}");
    let said = refused(&["serve", "--listen", "127.0.0.1:0", "--data", "x", "--speed", "2"]).await;
    assert!(said.contains("--speed"), "{said}");
    let said = refused(&[
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--data",
        "x",
        "--allow-target",
        "10.0.0.1/8",
        "--allow-target",
        "here",
        "--ports",
        "0,443,x",
        "--proxy",
        "http://user:pa55word@proxy/path",
        "--http-timeout-ms",
        "40000",
    ])
    .await;
    for named in ["write 10.0.0.0/8", "\"here\"", "\"0\"", "\"x\"", "--proxy", "timeout"] {
        assert!(said.contains(named), "{named} is not named: {said}");
    }
    assert!(!said.contains("pa55word"), "{said}");
}

#[tokio::test]
async fn a_folder_whose_clock_was_scaled_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    Server::start(folder.path(), 3_600, &[]).kill();
    let data = folder.path().to_str().unwrap();
    let said = refused(&["serve", "--listen", "127.0.0.1:0", "--data", data]).await;
    assert!(said.contains("--speed") && said.contains(data), "{said}");
}

#[tokio::test]
async fn there_are_no_built_in_receivers() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::serve(folder.path(), &[]);
    let host = server.host(&Receiver::start().await.unwrap());
    assert_eq!(host.get("/healthz").await.unwrap().status, 200);
    for path in ["/dev/receiver", "/dev/receiver/200"] {
        assert_eq!(host.get(path).await.unwrap().status, 404, "{path}");
        assert_eq!(host.post(path, "{}").await.unwrap().status, 404, "{path}");
    }
}

#[tokio::test]
async fn only_public_targets_over_https_are_taken() {
    let folder = tempfile::tempdir().unwrap();
    let receiver = Receiver::start().await.unwrap();
    let server = Server::serve(folder.path(), &[]);
    let host = tenant_of(&server, &receiver).await;
    let port = receiver.base.rsplit(':').next().unwrap();
    for (url, rule) in [
        (receiver.url("/"), "must start with https://"),
        (format!("https://127.0.0.1:{port}/"), "a loopback address"),
        (format!("https://localhost:{port}/"), "a loopback address"),
        ("https://[::ffff:169.254.169.254]/".to_owned(), "a metadata service"),
        ("https://10.0.0.1/".to_owned(), "a private address, which is not allowed (10.0.0.0/8)"),
        ("https://8.8.8.8:25/".to_owned(), "has the port 25"),
    ] {
        let told = refusal(&host, &url).await;
        assert!(told.contains(rule), "{url}: {told}");
        assert!(!told.contains("--allow-target"), "a stranger is told of flags: {told}");
    }
    let body = json!({"url": "https://8.8.8.8/", "event_types": ["*"]}).to_string();
    host.post("/v1/subscriptions", body).await.unwrap().expect(201).unwrap();
}

#[tokio::test]
async fn development_allows_this_machine_and_names_the_flag_for_others() {
    let folder = tempfile::tempdir().unwrap();
    let receiver = Receiver::start().await.unwrap();
    let server = Server::start(folder.path(), 1, &["--allow-target", "192.168.0.0/16"]);
    let host = server.host(&receiver);
    for url in ["http://127.0.0.1:1/", "http://[::1]:1/", "http://localhost:1/", "http://192.168.7.7/"] {
        let body = json!({"url": url, "event_types": ["*"]}).to_string();
        host.post("/v1/subscriptions", body).await.unwrap().expect(201).unwrap();
    }
    let told = refusal(&host, "http://10.0.0.1/").await;
    assert!(told.ends_with("; start Holdfast with --allow-target 10.0.0.0/8 to allow it"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_allowed_is_delivered_and_what_is_no_longer_allowed_is_blocked() {
    let folder = tempfile::tempdir().unwrap();
    let receiver = Receiver::start().await.unwrap();
    let server = Server::serve(folder.path(), &THIS_MACHINE);
    let host = tenant_of(&server, &receiver).await;
    let scene = Scene::new(&host, "strict");
    let literal = scene.subscribe("literal", Reply::Status(200)).await.unwrap();
    let name_url = receiver.url("/name").replace("127.0.0.1", "localhost");
    let named = json!({"url": name_url, "event_types": [scene.event_type("name")]}).to_string();
    host.post("/v1/subscriptions", named).await.unwrap().expect(201).unwrap();
    scene.post("literal").await.unwrap();
    scene.post("name").await.unwrap();
    scene.arrivals(&literal.path, 1, SOON).await.unwrap();
    scene.arrivals("/name", 1, SOON).await.unwrap();
    server.kill();

    let server = Server::serve(folder.path(), &["--http-targets", "allow"]);
    let mut after = server.host(&receiver);
    (after.key, after.tenant, after.run) = (host.key.clone(), host.tenant.clone(), host.run.clone());
    let scene = Scene::new(&after, "strict");
    for part in ["literal", "name"] {
        let id = scene.post(part).await.unwrap();
        let attempt = first_attempt(&after, &id).await;
        assert_eq!(attempt["outcome"], "failure", "{attempt}");
        let error = attempt["error"].as_str().unwrap();
        let expected = "blocked: the URL leads to a loopback address, which is not allowed (127.0.0.0/8)";
        assert_eq!(error, expected, "{attempt}");
    }
    assert_eq!(
        (receiver.count(&literal.path), receiver.count("/name")),
        (1, 1),
        "it was attempted all the same"
    );
}

async fn first_attempt(host: &Host, event_id: &str) -> Value {
    let shown = until("an attempt can be seen", SOON, async || {
        let path = format!("/v1/deliveries?event={event_id}");
        let found = host.get(&path).await?.expect(200)?;
        let Some(id) = found["items"][0]["id"].as_str() else { return Ok(None) };
        let shown = host.get(&format!("/v1/deliveries/{id}")).await?.expect(200)?;
        Ok(Some(shown["attempts"][0].clone()).filter(Value::is_object))
    });
    shown.await.unwrap()
}

#[tokio::test]
async fn the_key_is_kept_for_its_owner_and_never_printed() {
    let folder = tempfile::tempdir().unwrap();
    let receiver = Receiver::start().await.unwrap();
    let mut server = Server::serve(folder.path(), &["--log-level", "debug", "--log-format", "json"]);
    let mode = std::fs::metadata(folder.path().join("operator-key")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let key = server.key.clone();
    assert!(key.starts_with("hf_op_"), "another kind of key");
    tenant_of(&server, &receiver).await;
    server.terminate();
    assert!(server.process.exit(Duration::from_secs(30)).await.success());
    let said = format!("{}{}", server.process.lines().concat(), server.process.stderr());
    assert!(said.contains("starting") && !said.contains(&key), "the key is printed");

    let server = Server::serve(folder.path(), &[]);
    assert_eq!(server.key, key, "it stays the same over a restart");
}
