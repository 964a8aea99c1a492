//! Plants secrets everywhere, uses every feature, and searches the server's log and answers for them.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use holdfast_e2e::views::{items, text};
use holdfast_e2e::waiting::until;
use holdfast_e2e::{Host, Receiver, Reply};
use reqwest::Method;
use serde_json::{Value, json};

use crate::process::Server;

/// Retry 3 is due after a sixth of a second.
const SPEED: u32 = 3_600;
const SOON: Duration = Duration::from_secs(30);
/// In payloads, subjects, tokens, wrong keys and URLs.
const CANARY: &str = "canary-5f1d";
/// Every attempt logs a line with this: it shows that there is a log to search.
const ATTEMPTED: &str = "delivery.attempted";

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_and_no_payload_is_logged_or_shown_again() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["--log-level", "debug", "--log-format", "json"];
    let mut server = Server::start(folder.path(), SPEED, &flags);
    let host = server.host(&Receiver::start().await.unwrap());
    let secrets = everything(&host).await.unwrap_or_else(|error| panic!("{error:#}"));
    server.terminate();
    assert!(server.process.exit(SOON).await.success());
    let log = server.process.stderr();
    assert!(log.matches(ATTEMPTED).count() >= 5, "there is no log to search: {log}");
    let has_line = |parts: &[&str]| log.lines().any(|line| parts.iter().all(|part| line.contains(part)));
    assert!(
        has_line(&[ATTEMPTED, "\"WARN\"", "\"order.created\"", "/bad\"", "\"one\""]),
        "a failure is a warning: {log}"
    );
    assert!(has_line(&[ATTEMPTED, "\"INFO\"", "/good\""]) && !has_line(&[ATTEMPTED, "\"WARN\"", "/good\""]));
    assert!(has_line(&["api.request", "\"/v1/urls\"", "401"]), "a refused key is logged: {log}");
    assert!(secrets.len() >= 6);
    for secret in secrets.iter().map(String::as_str).chain([CANARY, server.key.as_str()]) {
        let found = log.lines().find(|line| line.contains(secret));
        assert_eq!(found, None, "{secret} is in the log");
    }
}

/// Uses every feature. Returns the secrets that this created.
async fn everything(host: &Host) -> Result<Vec<String>> {
    let mut secrets = Vec::new();
    let key = host.post("/v1/keys", json!({"tenant": "default", "role": "admin"}).to_string()).await?;
    secrets.push(text(&key.expect(201)?, "key")?.to_owned());
    for (name, reply) in [("good", Reply::Status(200)), ("bad", Reply::Status(500)), ("slow", Reply::Hang)] {
        let subscription = subscribe(host, name, reply).await?;
        secrets.push(text(&subscription, "secret")?.to_owned());
        let path = format!("/v1/subscriptions/{}", text(&subscription, "id")?);
        let rotated = host.post(&format!("{path}/rotate-secret"), "").await?.expect(200)?;
        secrets.push(text(&rotated, "secret")?.to_owned());
        host.post(&format!("{path}/ping"), "").await?.expect(200)?;
        let shown = host.get(&path).await?.expect(200)?.to_string();
        ensure!(!secrets.iter().any(|secret| shown.contains(secret)), "a secret is shown again: {shown}");
        ensure!(!shown.contains(&format!("{CANARY}-token")), "a token is shown again: {shown}");
    }
    deliver_and_replay(host).await?;
    mistakes(host).await?;
    Ok(secrets)
}

async fn subscribe(host: &Host, name: &str, reply: Reply) -> Result<Value> {
    let path = format!("/{name}");
    host.receiver.switch(&path, reply);
    let url = format!("{}?token={CANARY}", host.receiver.url(&path));
    let body = json!({"url": url, "event_types": ["*"], "auth_token": format!("{CANARY}-token"), "description": CANARY});
    host.post("/v1/subscriptions", body.to_string()).await?.expect(201)
}

async fn deliver_and_replay(host: &Host) -> Result<()> {
    let event = json!({"id": "one", "type": "order.created", "subject": CANARY, "data": {"card": CANARY}});
    host.post("/v1/events", event.to_string()).await?.expect(202)?;
    let delivered = until("one is delivered and one has been retried", SOON, async || {
        let listed = host.get("/v1/deliveries?event=one").await?.expect(200)?;
        let all = items(&listed)?;
        let retried = all.iter().any(|d| d["attempts"].as_array().is_some_and(|a| a.len() >= 4));
        let delivered = all.iter().find(|delivery| delivery["state"] == "delivered");
        Ok(delivered.filter(|_| retried && all.len() == 3).cloned())
    });
    let delivered = delivered.await?;
    host.post(&format!("/v1/deliveries/{}/replay", text(&delivered, "id")?), "").await?.expect(202)?;
    let url = format!("/v1/urls/{}", text(&delivered, "url_id")?);
    for action in ["replay", "disable", "freeze", "enable"] {
        let body = if action == "replay" { json!({}) } else { json!({ "reason": "canaries" }) };
        let answer = host.post(&format!("{url}/{action}"), body.to_string()).await?;
        ensure!(answer.status.is_success(), "{action}: {answer:?}");
    }
    for path in ["/v1/overview", "/v1/attempts", "/v1/events/one", "/v1/keys"] {
        host.get(path).await?.expect(200).context(path)?;
    }
    Ok(())
}

/// Errors do not repeat secrets.
async fn mistakes(host: &Host) -> Result<()> {
    let wrong_key = format!("hf_{CANARY}");
    let answer = host.send(Method::GET, "/v1/urls", Some(&wrong_key), Vec::new()).await?;
    ensure!(answer.status == 401 && !answer.text.contains(CANARY), "a wrong key: {answer:?}");
    for body in [
        format!(r#"{{"type": "a", "data": "{CANARY}""#),
        format!(r#"{{"type": "a", "data": 1, "secret": "{CANARY}"}}"#),
        format!(r#"[{{"type": "not a type", "data": "{CANARY}"}}]"#),
    ] {
        let answer = host.post("/v1/events", body).await?;
        ensure!(answer.status == 400 && !answer.text.contains(CANARY), "a bad event: {answer:?}");
    }
    let url = json!({"url": format!("http://user:{CANARY}@127.0.0.1/"), "event_types": ["*"], "auth_token": format!("{CANARY} \n")});
    let answer = host.post("/v1/subscriptions", url.to_string()).await?;
    ensure!(answer.status == 400 && !answer.text.contains(CANARY), "a bad subscription: {answer:?}");
    Ok(())
}
