//! `/readyz` and `/metrics`.

use std::collections::BTreeMap;
use std::process::Command;

use holdfast_e2e::scene::Scene;
use holdfast_e2e::waiting::{SOON, until};
use holdfast_e2e::{Receiver, Reply};
use rustix::process::{Resource, Rlimit, getrlimit, prlimit};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::process::Server;

/// Every series with its value.
async fn metrics(server: &Server) -> anyhow::Result<BTreeMap<String, u64>> {
    let (head, text) = server.get_without_key("/metrics").await?;
    assert!(head.contains("content-type: text/plain; version=0.0.4; charset=utf-8"), "{head}");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    Ok(lines
        .map(|line| line.rsplit_once(' ').unwrap())
        .map(|(s, v)| (s.to_owned(), v.parse().unwrap()))
        .collect())
}

async fn readyz(server: &Server) -> anyhow::Result<(u16, Value)> {
    let (head, body) = server.get_without_key("/readyz").await?;
    let status = head.split(' ').nth(1).unwrap().parse()?;
    Ok((status, serde_json::from_str(&body)?))
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_count_from_the_start_and_name_no_tenant_or_url() {
    let folder = tempfile::tempdir().unwrap();
    let receiver = Receiver::start().await.unwrap();
    let server = Server::start(folder.path(), 1, &[]);
    let host = server.host(&receiver);
    let scene = Scene::new(&host, "status");
    let good = scene.subscribe("good", Reply::Status(200)).await.unwrap();
    let bad = scene.subscribe("bad", Reply::Status(500)).await.unwrap();
    let (success, failure) =
        ("holdfast_attempts_total{outcome=\"success\"}", "holdfast_attempts_total{outcome=\"failure\"}");
    for round in 1..=2_u64 {
        scene.post("good").await.unwrap();
        scene.post("bad").await.unwrap();
        scene.arrivals(&good.path, round as usize, SOON).await.unwrap();
        scene.arrivals(&bad.path, round as usize, SOON).await.unwrap();
        // Reading them does not start them again from zero.
        let counted =
            async || Ok(Some(metrics(&server).await?).filter(|m| m[success] >= round && m[failure] >= round));
        let counted = until("the attempts are counted", SOON, counted).await.unwrap();
        assert_eq!(counted[success], round, "{counted:?}");
    }
    let found = metrics(&server).await.unwrap();
    for shortage in ["files", "ports", "memory", "resolver", "time", "network"] {
        assert_eq!(found[&format!("holdfast_attempts_not_made_total{{shortage=\"{shortage}\"}}")], 0);
    }
    assert!((1..1_000).contains(&found["holdfast_api_connections"]), "{found:?}");
    assert_eq!(found["holdfast_api_connections_refused_total"], 0);
    assert_eq!(found["holdfast_posts_over_quota_total"], 0);
    host.patch("/v1/tenants/default", r#"{"waiting_bytes": 1}"#).await.unwrap().expect(200).unwrap();
    // The failed deliveries wait.
    let refused = host.post("/v1/events", r#"{"type": "a", "data": 1}"#).await.unwrap();
    assert_eq!(refused.status, 429, "{refused:?}");
    assert_eq!(metrics(&server).await.unwrap()["holdfast_posts_over_quota_total"], 1);
    let labels: Vec<_> = found.keys().filter_map(|series| Some(series.split_once('{')?.1)).collect();
    let known = ["outcome=", "shortage=", "queue="];
    assert!(labels.iter().all(|label| known.iter().any(|known| label.starts_with(known))), "{labels:?}");
    let (first, retry) = ("holdfast_messages{queue=\"first\"}", "holdfast_messages{queue=\"retry\"}");
    let waiting = async || Ok(Some(metrics(&server).await?).filter(|m| m[first] == 0 && m[retry] == 2));
    until("only the retries of both failed deliveries wait", SOON, waiting).await.unwrap();
    let none = json!({"files": 0, "ports": 0, "memory": 0, "resolver": 0, "time": 0, "network": 0});
    assert_eq!(readyz(&server).await.unwrap(), (200, json!({"ready": true, "shortages": none})));
}

/// Files must not grow for a while, as on a full disk.
#[tokio::test(flavor = "multi_thread")]
async fn it_is_ready_exactly_while_the_store_can_write() {
    let folder = tempfile::tempdir().unwrap();
    // Without the trap, a write beyond the limit would end the process instead of failing.
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' XFSZ && exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_holdfast")]);
    let server = Server::serve_as(&mut command, folder.path(), &[]);
    assert_eq!(readyz(&server).await.unwrap().0, 200);
    let none = Rlimit { current: Some(1), maximum: None };
    let before = prlimit(Some(server.pid()), Resource::Fsize, none).unwrap();
    let status = async |wanted: u16| Ok(Some(readyz(&server).await?).filter(|(status, _)| *status == wanted));
    let (_, shown) = until("it is not ready", SOON, async || status(503).await).await.unwrap();
    assert_eq!(shown["ready"], false, "{shown}");
    let (head, _) = server.get_without_key("/healthz").await.unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    prlimit(Some(server.pid()), Resource::Fsize, before).unwrap();
    until("it is ready again", SOON, async || status(200).await).await.unwrap();
}

/// The body of the response on a connection that stays open: without files, the server accepts no new one.
async fn ask(stream: &mut BufReader<TcpStream>, request: &str) -> anyhow::Result<String> {
    stream.write_all(request.as_bytes()).await?;
    let (mut line, mut length) = (String::new(), 0);
    while stream.read_line(&mut line).await? > 2 {
        length = line.strip_prefix("content-length: ").map_or(Ok(length), |n| n.trim().parse())?;
        line.clear();
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    Ok(String::from_utf8(body)?)
}

/// The server runs out of files while an event is accepted: it stays ready, shows the shortage, and delivers once there are files.
#[tokio::test(flavor = "multi_thread")]
async fn a_shortage_is_shown_and_leaves_it_ready() {
    let folder = tempfile::tempdir().unwrap();
    let receiver = Receiver::start().await.unwrap();
    let server = Server::start(folder.path(), 1, &[]);
    let host = server.host(&receiver);
    let scene = Scene::new(&host, "shortage");
    let good = scene.subscribe("good", Reply::Status(200)).await.unwrap();
    let stream = TcpStream::connect(server.base.trim_start_matches("http://")).await.unwrap();
    let mut open = BufReader::new(stream);
    ask(&mut open, "GET /readyz HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();

    let none = Rlimit { current: Some(1), ..getrlimit(Resource::Nofile) };
    let before = prlimit(Some(server.pid()), Resource::Nofile, none).unwrap();
    let event = json!({"type": scene.event_type("good"), "data": 1}).to_string();
    let (key, length) = (&server.key, event.len());
    let post = format!(
        "POST /v1/events HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\ncontent-length: {length}\r\n\r\n{event}"
    );
    let accepted = ask(&mut open, &post).await.unwrap();
    assert_eq!(serde_json::from_str::<Value>(&accepted).unwrap()["deliveries"], 1, "{accepted}");
    let shown = until("the shortage is shown", SOON, async || {
        let shown = ask(&mut open, "GET /readyz HTTP/1.1\r\nhost: x\r\n\r\n").await?;
        let shown: Value = serde_json::from_str(&shown)?;
        Ok(Some(shown).filter(|shown| shown["shortages"]["files"].as_u64() > Some(0)))
    });
    let shown = shown.await.unwrap();
    assert_eq!(shown["ready"], true, "{shown}");

    prlimit(Some(server.pid()), Resource::Nofile, before).unwrap();
    scene.arrivals(&good.path, 1, SOON).await.unwrap();
    let found = metrics(&server).await.unwrap();
    assert!(found["holdfast_attempts_not_made_total{shortage=\"files\"}"] > 0, "{found:?}");
    assert_eq!(found["holdfast_attempts_total{outcome=\"failure\"}"], 0, "{found:?}");
    let url = scene.url(&good.url_id).await.unwrap();
    assert_eq!((&url["state"], &url["window_failures"]), (&"enabled".into(), &0.into()), "{url}");
}
