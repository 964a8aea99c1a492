//! Spans of traces arrive at a collector.

use std::process::Command;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::routing::post;
use holdfast_e2e::scene::Scene;
use holdfast_e2e::waiting::{SOON, until};
use holdfast_e2e::{Receiver, Reply};
use serde_json::json;
use tokio::net::TcpListener;

use crate::process::Server;

const TRACE_ID: [u8; 16] = *b"\x4b\xf9\x2f\x35\x77\xb3\x4d\xa6\xa3\xce\x92\x9d\x0e\x0e\x47\x36";
const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const UNSAMPLED: &str = "00-11112222333344445555666677778888-00f067aa0ba902b7-00";

/// All requests of the exporter, one after the other.
type Received = Arc<Mutex<Vec<u8>>>;

async fn collector() -> (String, Received) {
    let received = Received::default();
    let keep = async |State(received): State<Received>, body: Bytes| {
        received.lock().unwrap().extend_from_slice(&body);
    };
    let router = Router::new().route("/v1/traces", post(keep)).with_state(Arc::clone(&received));
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(axum::serve(listener, router).into_future());
    (base, received)
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[tokio::test(flavor = "multi_thread")]
async fn accepting_and_every_attempt_are_spans_of_the_trace() {
    let folder = tempfile::tempdir().unwrap();
    let (endpoint, received) = collector().await;
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint).env("OTEL_BSP_SCHEDULE_DELAY", "100");
    let allow = ["--http-targets", "allow", "--allow-target", "127.0.0.0/8", "--ports", "any"];
    let mut server = Server::serve_as(&mut command, folder.path(), &allow);
    let receiver = Receiver::start().await.unwrap();
    let host = server.host(&receiver).in_own_tenant().await.unwrap();
    let scene = Scene::new(&host, "otlp");
    let good = scene.subscribe("one", Reply::Status(200)).await.unwrap();
    let post = async |parent: &str, id: &str| {
        let event = json!({ "id": id, "type": scene.event_type("one"), "data": 1 }).to_string();
        let host = host.clone().with_header("traceparent", parent).unwrap();
        host.post("/v1/events", event).await.unwrap().expect(202).unwrap();
    };
    post(UNSAMPLED, "unsampled-event").await;
    post(PARENT, "sampled-event").await;
    let arrivals = scene.arrivals(&good.path, 2, SOON).await.unwrap();
    let sampled =
        arrivals.iter().map(|arrival| arrival.header("traceparent")).find(|p| p.ends_with("-01")).unwrap();
    let sent = u64::from_str_radix(&sampled[36..52], 16).unwrap().to_be_bytes();
    let spans = until("both spans arrive", SOON, async || {
        let received = received.lock().unwrap().clone();
        let all =
            [&TRACE_ID[..], b"accept", b"attempt", &sent, b"sampled-event", b"http.response.status_code"];
        Ok(all.iter().all(|part| contains(&received, part)).then_some(received))
    });
    let spans = spans.await.unwrap_or_else(|error| panic!("{error}; the log: {}", server.process.stderr()));
    assert!(contains(&spans, b"service.name") && contains(&spans, b"holdfast"));
    assert!(!contains(&spans, b"unsampled-event"), "its producer does not record that trace");
    server.terminate();
    assert!(server.process.exit(SOON).await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_down_delays_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9");
    let mut server = Server::serve_as(&mut command, folder.path(), &[]);
    let (head, _) = server.get_without_key("/healthz").await.unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    server.terminate();
    assert!(server.process.exit(SOON).await.success());
}
