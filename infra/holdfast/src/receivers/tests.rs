use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::header::HOST;
use axum::http::{HeaderMap, HeaderValue, Request, StatusCode};
use holdfast_core::ports::Clock;
use holdfast_core::time::Timestamp;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::{Receivers, router};

/// The schedule clock is a day ahead of real time.
struct StoppedClock;

impl Clock for StoppedClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(86_400_000)
    }

    fn now_real(&self) -> Timestamp {
        Timestamp::ZERO
    }

    fn to_schedule(&self, real: Duration) -> Duration {
        real
    }
}

struct Host(Router);

struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

impl Host {
    fn start() -> Host {
        Host(router(Arc::new(Receivers::new(Arc::new(StoppedClock)))))
    }

    async fn call(&self, mut request: Request<Body>) -> Answer {
        request.headers_mut().entry(HOST).or_insert(HeaderValue::from_static("127.0.0.1:8080"));
        let response = self.0.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = to_bytes(body, usize::MAX).await.unwrap();
        Answer {
            status: parts.status,
            headers: parts.headers,
            body: String::from_utf8(bytes.into()).unwrap(),
        }
    }

    async fn ask(&self, method: &str, name: &str, body: impl Into<Body>) -> Answer {
        let uri = format!("/dev/receiver{name}");
        self.call(Request::builder().method(method).uri(uri).body(body.into()).unwrap()).await
    }

    async fn post(&self, name: &str) -> u16 {
        self.ask("POST", name, "{}").await.status.as_u16()
    }

    async fn show(&self, name: &str) -> Value {
        self.ask("GET", name, "").await.json()
    }
}

#[tokio::test]
async fn a_receiver_named_by_a_status_responds_with_it() {
    let host = Host::start();
    for (name, status) in
        [("/200", 200), ("/500", 500), ("/410", 410), ("/204", 204), ("/302", 302), ("/599", 599)]
    {
        assert_eq!(host.post(name).await, status);
    }
    for name in ["/100", "/199", "/600", "/0200", "/99999", "/a%20b", "/%C3%A4"] {
        let rejected = host.ask("POST", name, "{}").await;
        assert_eq!(rejected.status, 400, "{name}");
        assert!(rejected.json()["detail"].as_str().unwrap().starts_with("name: "));
    }
}

#[tokio::test]
async fn requests_are_recorded() {
    let host = Host::start();
    let body = "{\"n\":1,\"n\":12345678901234567890123456789012345678901234567890,\"x\":\"\u{ffff}\"}";
    let request = Request::post("/dev/receiver/orders")
        .header("webhook-id", "d1")
        .header("authorization", "Bearer secret")
        .header("x-other", "left out")
        .body(Body::from(body))
        .unwrap();
    assert_eq!(host.call(request).await.status, 200);
    host.post("/orders").await;
    let shown = host.show("/orders").await;
    assert_eq!(
        (&shown["name"], &shown["answer"], &shown["received"], &shown["answered"]),
        (&json!("orders"), &json!(200), &json!(2), &json!({"200": 2}))
    );
    assert_eq!(shown["requests"][0]["seq"], 2);
    assert_eq!(
        shown["requests"][1],
        json!({
            "seq": 1, "at": "1970-01-01T00:00:00.000Z", "schedule_at": "1970-01-02T00:00:00.000Z",
            "headers": {"webhook-id": "d1"}, "authorization": true, "body": body, "answered": 200,
        })
    );
    assert!(!shown.to_string().contains("secret"));
}

#[tokio::test]
async fn a_receiver_can_be_switched() {
    let host = Host::start();
    let switched = host.ask("PUT", "/orders", r#"{"answer": 503, "retry_after": 7, "fail_next": 2}"#).await;
    assert_eq!(switched.status, 200);
    assert_eq!(
        switched.json(),
        json!({"name": "orders", "answer": 503, "retry_after": 7, "fail_next": 2, "received": 0, "answered": {}})
    );
    for expected in [500, 500] {
        let failed = host.ask("POST", "/orders", "{}").await;
        assert_eq!(failed.status, expected);
        assert!(failed.headers.get("retry-after").is_none());
    }
    let postponed = host.ask("POST", "/orders", "{}").await;
    assert_eq!(postponed.status, 503);
    assert_eq!(postponed.headers["retry-after"], "7");
    assert_eq!(host.show("/orders").await["answered"], json!({"500": 2, "503": 1}));
    host.ask("PUT", "/orders", "{}").await;
    assert_eq!(host.post("/orders").await, 200);
}

#[tokio::test]
async fn an_invalid_switch_is_rejected() {
    let host = Host::start();
    for name in ["/200", "/hang"] {
        let rejected = host.ask("PUT", name, r#"{"answer": 500}"#).await;
        assert_eq!(rejected.status, 409);
        assert_eq!(rejected.headers["content-type"], "application/problem+json");
        let problem = rejected.json();
        assert_eq!((&problem["type"], &problem["status"]), (&json!("about:blank"), &json!(409)));
        assert_eq!(problem["title"], "Conflict");
    }
    for (body, field) in [
        (r#"{"answer": 100}"#, "answer"),
        (r#"{"answer": "503"}"#, "answer"),
        (r#"{"answer": null}"#, "answer"),
        (r#"{"answer": 500, "retry_after": -1}"#, "retry_after"),
        (r#"{"answer": 500, "fail_next": 1.5}"#, "fail_next"),
        (r#"{"anwser": 500}"#, "anwser"),
        ("[]", "body"),
        ("", "body"),
    ] {
        let rejected = host.ask("PUT", "/orders", body).await;
        assert_eq!(rejected.status, 400, "{body}");
        assert!(rejected.json()["detail"].as_str().unwrap().starts_with(&format!("{field}: ")), "{body}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hanging_receiver_keeps_the_request_open_for_a_minute() {
    let host = Host::start();
    let started = tokio::time::Instant::now();
    assert_eq!(host.post("/hang").await, 504);
    assert_eq!(started.elapsed().as_secs(), 60);
    host.ask("PUT", "/orders", r#"{"answer": "hang"}"#).await;
    // The request is recorded when it arrives, not when it ends.
    assert!(tokio::time::timeout(Duration::from_secs(5), host.post("/orders")).await.is_err());
    assert_eq!(host.show("/orders").await["answered"], json!({"hang": 1}));
}

#[tokio::test]
async fn the_list_shows_used_receivers() {
    let host = Host::start();
    assert_eq!(host.show("").await, json!({"receivers": []}));
    // Showing a receiver does not create it.
    host.show("/never").await;
    host.post("/orders").await;
    host.post("/500").await;
    assert_eq!(
        host.show("").await,
        json!({"receivers": [
            {"name": "500", "answer": 500, "received": 1, "answered": {"500": 1}},
            {"name": "orders", "answer": 200, "received": 1, "answered": {"200": 1}},
        ]})
    );
}

#[tokio::test]
async fn deleting_the_requests_keeps_the_setting() {
    let host = Host::start();
    host.ask("PUT", "/orders", r#"{"answer": 503}"#).await;
    for name in ["/orders", "/other", "/500"] {
        host.post(name).await;
        assert_eq!(host.ask("DELETE", name, "").await.status, 204);
        assert_eq!(host.show(name).await["received"], 0);
    }
    assert_eq!(host.post("/orders").await, 503);
    assert_eq!(host.show("").await["receivers"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn only_the_last_thousand_requests_are_kept() {
    let host = Host::start();
    for _ in 0..1_001 {
        host.post("/orders").await;
    }
    let shown = host.show("/orders?limit=1000").await;
    let requests = shown["requests"].as_array().unwrap();
    assert_eq!((shown["received"].as_u64(), requests.len()), (Some(1_001), 1_000));
    assert_eq!((&requests[0]["seq"], &requests[999]["seq"]), (&json!(1_001), &json!(2)));
    assert_eq!(host.show("/orders").await["requests"].as_array().unwrap().len(), 100);
    for limit in ["0", "1001", "", "-1", "all"] {
        let rejected = host.ask("GET", &format!("/orders?limit={limit}"), "").await;
        assert_eq!(rejected.status, 400);
        assert!(rejected.json()["detail"].as_str().unwrap().starts_with("limit: "));
    }
}

#[tokio::test]
async fn large_bodies_displace_older_requests() {
    let host = Host::start();
    let large = "x".repeat(1024 * 1024);
    for _ in 0..17 {
        host.ask("POST", "/orders", large.clone()).await;
    }
    let shown = host.show("/orders").await;
    assert_eq!((shown["received"].as_u64(), shown["requests"].as_array().unwrap().len()), (Some(17), 16));
}

#[tokio::test]
async fn the_number_of_receivers_is_limited() {
    let host = Host::start();
    for n in 0..1_000 {
        assert_eq!(host.post(&format!("/r{n}")).await, 200);
    }
    assert_eq!(host.post("/one-more").await, 507);
    assert_eq!(host.post("/r0").await, 200);
    assert_eq!(host.post("/500").await, 500);
    host.ask("DELETE", "/r0", "").await;
    assert_eq!(host.post("/one-more").await, 200);
}

#[tokio::test]
async fn another_host_is_refused() {
    let host = Host::start();
    for (method, path) in
        [("GET", ""), ("GET", "/a"), ("POST", "/a"), ("PUT", "/a"), ("DELETE", "/a"), ("POST", "/200")]
    {
        let request = Request::builder().method(method).uri(format!("/dev/receiver{path}"));
        let answer = host.call(request.header(HOST, "evil.example:8080").body(Body::empty()).unwrap()).await;
        assert_eq!(answer.status, 421, "{method} {path}");
        assert!(answer.json()["detail"].as_str().unwrap().contains("localhost"), "{}", answer.body);
    }
    assert_eq!(host.ask("GET", "", "").await.json()["receivers"], json!([]));
}
