//! `holdfast serve`: what it refuses, and what flags allow.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use holdfast_e2e::scene::Scene;
use holdfast_e2e::waiting::{SOON, until};
use holdfast_e2e::{Host, Receiver, Reply};
use serde_json::{Value, json};

use crate::process::Server;
use crate::refusals::refused;

pub(crate) const THIS_MACHINE: [&str; 6] =
    ["--allow-target", "127.0.0.0/8", "--allow-target", "::1/128", "--http-targets", "allow"];

/// A client with a key to its own tenant, because the operator key has none.
pub(crate) async fn tenant_of(server: &Server, receiver: &Receiver) -> Host {
    server.host(receiver).in_own_tenant().await.unwrap()
}

/// Why a subscription to `url` is rejected.
async fn refusal(host: &Host, url: &str) -> String {
    let body = json!({"url": url, "event_types": ["*"]}).to_string();
    let problem = host.post("/v1/subscriptions", body).await.unwrap().expect(400).unwrap();
    assert_eq!(problem["errors"][0]["field"], "url", "{problem}");
    problem["errors"][0]["detail"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn missing_and_invalid_flags_are_reported() {
    let output = refused(&["serve"]).await;
    assert!(output.contains("--listen") && output.contains("--data"), "{output}");
    let output = refused(&["serve", "--listen", "127.0.0.1:0", "--data", "x", "--speed", "2"]).await;
    assert!(output.contains("--speed"), "{output}");
    let output = refused(&[
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--data",
        "x",
        "--allow-target",
        "10.0.0.1/8",
        "--allow-target",
        "here",
        "--deny-target",
        "there",
        "--ports",
        "0,443,x",
        "--proxy",
        "http://user:pa55word@proxy/path",
        "--http-timeout-ms",
        "40000",
    ])
    .await;
    for named in
        ["write 10.0.0.0/8", "\"here\"", "--deny-target: \"there\"", "\"0\"", "\"x\"", "--proxy", "timeout"]
    {
        assert!(output.contains(named), "{named} is not reported: {output}");
    }
    assert!(!output.contains("pa55word"), "{output}");
    let proxy = ["--proxy", "http://user:pa55word@proxy:3128"];
    let output = refused(&[&["serve", "--listen", "127.0.0.1:0", "--data", "x"][..], &proxy].concat()).await;
    assert!(output.contains("--proxy-password-file") && !output.contains("pa55word"), "{output}");
}

#[tokio::test]
async fn a_folder_with_an_accelerated_clock_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    Server::start(folder.path(), 3_600, &[]).kill();
    let data = folder.path().to_str().unwrap();
    let output = refused(&["serve", "--listen", "127.0.0.1:0", "--data", data]).await;
    assert!(output.contains("--speed") && output.contains(data), "{output}");
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
async fn only_public_targets_over_https_are_allowed() {
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
        let detail = refusal(&host, &url).await;
        assert!(detail.contains(rule), "{url}: {detail}");
        assert!(!detail.contains("--allow-target"), "a flag is named: {detail}");
    }
    let body = json!({"url": "https://8.8.8.8/", "event_types": ["*"]}).to_string();
    host.post("/v1/subscriptions", body).await.unwrap().expect(201).unwrap();
}

#[tokio::test]
async fn development_allows_this_machine_and_names_the_flag_for_others() {
    let folder = tempfile::tempdir().unwrap();
    let receiver = Receiver::start().await.unwrap();
    let server = Server::start(
        folder.path(),
        1,
        &["--allow-target", "192.168.0.0/16", "--deny-target", "192.168.9.0/24"],
    );
    let host = server.host(&receiver);
    for url in ["http://127.0.0.1:1/", "http://[::1]:1/", "http://localhost:1/", "http://192.168.7.7/"] {
        let body = json!({"url": url, "event_types": ["*"]}).to_string();
        host.post("/v1/subscriptions", body).await.unwrap().expect(201).unwrap();
    }
    let detail = refusal(&host, "http://192.168.9.7/").await;
    assert!(
        detail.ends_with("leads to an address that the operator of this server does not allow"),
        "{detail}"
    );
    let detail = refusal(&host, "http://10.0.0.1/").await;
    assert!(detail.ends_with("; start Holdfast with --allow-target 10.0.0.0/8 to allow it"), "{detail}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_allowed_target_is_delivered_to_and_blocked_once_it_is_not_allowed() {
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
        "a blocked URL was attempted"
    );
}

async fn first_attempt(host: &Host, event_id: &str) -> Value {
    let shown = until("an attempt is shown", SOON, async || {
        let path = format!("/v1/deliveries?event={event_id}");
        let found = host.get(&path).await?.expect(200)?;
        let Some(id) = found["items"][0]["id"].as_str() else { return Ok(None) };
        let shown = host.get(&format!("/v1/deliveries/{id}")).await?.expect(200)?;
        Ok(Some(shown["attempts"][0].clone()).filter(Value::is_object))
    });
    shown.await.unwrap()
}

#[tokio::test]
async fn only_the_owner_can_read_the_key_and_it_is_never_printed() {
    let folder = tempfile::tempdir().unwrap();
    let receiver = Receiver::start().await.unwrap();
    let mut server = Server::serve(folder.path(), &["--log-level", "debug", "--log-format", "json"]);
    let mode = std::fs::metadata(folder.path().join("operator-key")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let key = server.key.clone();
    assert!(key.starts_with("hf_op_"), "not an operator key");
    tenant_of(&server, &receiver).await;
    server.terminate();
    assert!(server.process.exit(Duration::from_secs(30)).await.success());
    let output = format!("{}{}", server.process.lines().concat(), server.process.stderr());
    assert!(output.contains("starting") && !output.contains(&key), "the key is printed");

    let server = Server::serve(folder.path(), &[]);
    assert_eq!(server.key, key, "the key changed over a restart");
}
