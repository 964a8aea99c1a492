//! `/readyz` and `/metrics`.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::time::Duration;

use holdfast_e2e::scene::Scene;
use holdfast_e2e::waiting::{SOON, until};
use holdfast_e2e::{Receiver, Reply};
use rustix::process::{Resource, Rlimit, getrlimit, prlimit};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::process::Server;

/// States are counted every 30 s.
const COUNTED: Duration = Duration::from_secs(60);

/// Every series with its value.
async fn metrics(server: &Server) -> anyhow::Result<BTreeMap<String, f64>> {
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
    for round in 1..=2_usize {
        scene.post("good").await.unwrap();
        scene.post("bad").await.unwrap();
        scene.arrivals(&good.path, round, SOON).await.unwrap();
        scene.arrivals(&bad.path, round, SOON).await.unwrap();
        // Reading them does not start them again from zero.
        let counted = async || {
            Ok(Some(metrics(&server).await?)
                .filter(|m| m[success] >= round as f64 && m[failure] >= round as f64))
        };
        let counted = until("the attempts are counted", SOON, counted).await.unwrap();
        assert_eq!(counted[success], round as f64, "{counted:?}");
        check_latencies(&counted);
        assert_eq!(counted["holdfast_events_accepted_total"], 2.0 * round as f64, "{counted:?}");
    }
    let found = metrics(&server).await.unwrap();
    for shortage in ["files", "ports", "memory", "resolver", "time", "network"] {
        assert_eq!(found[&format!("holdfast_attempts_not_made_total{{shortage=\"{shortage}\"}}")], 0.0);
    }
    assert!((1.0..1_000.0).contains(&found["holdfast_api_connections"]), "{found:?}");
    assert_eq!(found["holdfast_api_connections_refused_total"], 0.0);
    assert_eq!(found["holdfast_posts_over_quota_total"], 0.0);
    host.patch("/v1/tenants/default", r#"{"waiting_bytes": 1}"#).await.unwrap().expect(200).unwrap();
    // The failed deliveries wait.
    let refused = host.post("/v1/events", r#"{"type": "a", "data": 1}"#).await.unwrap();
    assert_eq!(refused.status, 429, "{refused:?}");
    assert_eq!(metrics(&server).await.unwrap()["holdfast_posts_over_quota_total"], 1.0);
    let labels: Vec<_> = found.keys().filter_map(|series| Some(series.split_once('{')?.1)).collect();
    let known = ["change=", "outcome=", "shortage=", "queue=", "le=", "state=", "version="];
    assert!(labels.iter().all(|label| known.iter().any(|known| label.starts_with(known))), "{labels:?}");
    let (first, retry) = ("holdfast_messages{queue=\"first\"}", "holdfast_messages{queue=\"retry\"}");
    let waiting = async || Ok(Some(metrics(&server).await?).filter(|m| m[first] == 0.0 && m[retry] == 2.0));
    until("only the retries of both failed deliveries wait", SOON, waiting).await.unwrap();
    let none = json!({"files": 0, "ports": 0, "memory": 0, "resolver": 0, "time": 0, "network": 0});
    assert_eq!(readyz(&server).await.unwrap(), (200, json!({"ready": true, "shortages": none})));
}

/// Every attempt is in the histogram, and each bucket has what the smaller ones have too.
fn check_latencies(found: &BTreeMap<String, f64>) {
    let attempts: f64 = ["success", "failure"]
        .iter()
        .map(|outcome| found[&format!("holdfast_attempts_total{{outcome=\"{outcome}\"}}")])
        .sum();
    assert_eq!(found["holdfast_attempt_seconds_count"], attempts, "{found:?}");
    assert!(found["holdfast_attempt_seconds_sum"] > 0.0, "{found:?}");
    let bucket = |le: &str| found[&format!("holdfast_attempt_seconds_bucket{{le=\"{le}\"}}")];
    let bounds = ["0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1", "2.5", "5", "10", "+Inf"];
    assert!(bounds.windows(2).all(|pair| bucket(pair[0]) <= bucket(pair[1])), "{found:?}");
    assert_eq!((bucket("+Inf"), bucket("10")), (attempts, attempts), "{found:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn deliveries_and_urls_are_counted_by_state_and_tenants_if_asked() {
    let folder = tempfile::tempdir().unwrap();
    let receiver = Receiver::start().await.unwrap();
    let server = Server::start(folder.path(), 1, &["--metrics-by-tenant"]);
    let host = server.host(&receiver);
    let scene = Scene::new(&host, "counts");
    let good = scene.subscribe("good", Reply::Status(200)).await.unwrap();
    let bad = scene.subscribe("bad", Reply::Status(500)).await.unwrap();
    let frozen = scene.subscribe("frozen", Reply::Status(200)).await.unwrap();
    scene.change_url_state(&frozen.url_id, "freeze", "to park").await.unwrap();
    for part in ["good", "bad", "frozen"] {
        scene.post(part).await.unwrap();
    }
    scene.arrivals(&good.path, 1, SOON).await.unwrap();
    scene.arrivals(&bad.path, 1, SOON).await.unwrap();
    let by_tenant = "holdfast_tenant_attempts_total{tenant=\"default\",outcome=\"failure\"}";
    let found = until("everything is counted", COUNTED, async || {
        let found = metrics(&server).await?;
        let is_counted = found["holdfast_deliveries{state=\"parked\"}"] == 1.0
            && found["holdfast_deliveries{state=\"waiting\"}"] == 1.0
            && found.get(by_tenant) == Some(&1.0);
        Ok(is_counted.then_some(found))
    });
    let found = found.await.unwrap();
    assert_eq!(found["holdfast_deliveries{state=\"dead\"}"], 0.0);
    let urls =
        ["enabled", "disabled", "frozen"].map(|state| found[&format!("holdfast_urls{{state=\"{state}\"}}")]);
    assert_eq!(urls, [2.0, 0.0, 1.0], "{found:?}");
    assert_eq!(found["holdfast_counts_truncated"], 0.0);
    assert!(found["holdfast_last_sweep_age_seconds"] <= 60.0, "{found:?}");
    let accepted = found["holdfast_tenant_events_accepted_total{tenant=\"default\"}"];
    assert_eq!(accepted, 4.0, "three posts, and the event about the frozen URL");
    assert_eq!(found["holdfast_tenant_deliveries_dead_total{tenant=\"default\"}"], 0.0);
}

/// Everything in a text that looks like the name of a metric.
fn metric_names(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("holdfast_")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_dashboard_and_the_guide_show_every_metric_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), 1, &["--metrics-by-tenant"]);
    let host = server.host(&Receiver::start().await.unwrap());
    host.post("/v1/events", r#"{"type": "a", "data": 1}"#).await.unwrap().expect(202).unwrap();
    let (_, text) = server.get_without_key("/metrics").await.unwrap();
    let read = |file: &str| std::fs::read_to_string(crate::guides::top().join(file)).unwrap();
    let dashboard = read("infra/grafana/dashboard.json");
    serde_json::from_str::<Value>(&dashboard).unwrap();
    let published = metric_names(&text);
    assert_eq!(metric_names(&dashboard), published);
    let guide = read("infra/docs/serving.md");
    assert!(metric_names(&guide).is_superset(&published), "{published:?}");
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
    assert!(found["holdfast_attempts_not_made_total{shortage=\"files\"}"] > 0.0, "{found:?}");
    assert_eq!(found["holdfast_attempts_total{outcome=\"failure\"}"], 0.0, "{found:?}");
    let url = scene.url(&good.url_id).await.unwrap();
    assert_eq!((&url["state"], &url["window_failures"]), (&"enabled".into(), &0.into()), "{url}");
}
