//! What arrives at the receiver.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use holdfast_egress::{EgressConfig, HttpSender};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::receiver::{Receiver, Then};
use crate::{DEADLINE, PATIENT, config, request, send, sender, sender_with};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

#[tokio::test]
async fn the_body_arrives_byte_for_byte() {
    let mut receiver = Receiver::start(OK, Then::KeepsOpen).await;
    let all_bytes: Vec<u8> = (0..=255).cycle().take(1_000_000).collect();
    let mut request = request(receiver.url());
    request.body = Bytes::from(all_bytes.clone());
    assert!(send(&sender(PATIENT), request).await.response.is_success());
    assert!(receiver.next_request().await.body == all_bytes);
}

#[tokio::test]
async fn headers_arrive_as_given_and_only_the_usual_ones_are_added() {
    let mut receiver = Receiver::start(OK, Then::KeepsOpen).await;
    let mut request = request(receiver.url());
    request.headers.push(("authorization", "Bearer secret".into()));
    request.headers.push(("webhook-signature", "v1,a v1,b".into()));
    send(&sender(PATIENT), request).await;
    let seen = receiver.next_request().await;
    assert!(seen.head.starts_with("POST /hook?token=hidden HTTP/1.1\r\n"));
    for (name, values) in [
        ("content-type", vec!["application/json"]),
        ("user-agent", vec!["Holdfast/test"]),
        ("authorization", vec!["Bearer secret"]),
        ("webhook-signature", vec!["v1,a v1,b"]),
        ("content-length", vec!["2"]),
        ("host", vec![receiver.address.to_string().as_str()]),
        ("accept", vec!["*/*"]),
        ("accept-encoding", vec![]),
        ("cookie", vec![]),
        ("referer", vec![]),
    ] {
        assert_eq!(seen.header(name), values, "{name}");
    }
    assert_eq!(seen.head.trim_end().lines().skip(1).count(), 7, "{}", seen.head);
}

#[tokio::test]
async fn a_connection_is_used_again() {
    let receiver = Receiver::start(OK, Then::KeepsOpen).await;
    let sender = sender(PATIENT);
    for _ in 0..2 {
        assert!(send(&sender, request(receiver.url())).await.response.is_success());
    }
    assert_eq!(receiver.connections(), 1);
}

#[tokio::test]
async fn few_connections_are_kept_for_all_receivers_together() {
    let mut receivers = Vec::new();
    for _ in 0..3 {
        receivers.push(Receiver::start(OK, Then::KeepsOpen).await);
    }
    // Only the limit closes them.
    let sender =
        sender_with(EgressConfig { pool_max_idle: 2, pool_idle_timeout: DEADLINE, ..config(PATIENT) });
    for receiver in &receivers {
        assert!(send(&sender, request(receiver.url())).await.response.is_success());
    }
    receivers[0].closed().await;
    for receiver in receivers.iter().rev() {
        assert!(send(&sender, request(receiver.url())).await.response.is_success());
    }
    let connections: Vec<usize> = receivers.iter().map(Receiver::connections).collect();
    assert_eq!(connections, [2, 1, 1]);
}

/// How the sender closes the connection on which it got this response.
async fn closing_after(response: &str, sender: &HttpSender) -> io::Result<usize> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let receiver = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut buffer = [0; 4096];
        let mut seen = Vec::new();
        while !seen.ends_with(b"{}") {
            let read = stream.read(&mut buffer).await.unwrap();
            seen.extend_from_slice(&buffer[..read]);
        }
        stream.write_all(response.as_bytes()).await.unwrap();
        stream.read(&mut buffer).await
    };
    let (closing, result) = tokio::join!(receiver, send(sender, request(url)));
    assert!(result.response.is_success(), "{result:?}");
    closing
}

/// Otherwise a receiver could make this machine keep a port for a minute after each attempt.
#[tokio::test]
async fn a_connection_that_the_receiver_leaves_to_be_closed_keeps_no_port() {
    let sender =
        sender_with(EgressConfig { pool_idle_timeout: Duration::from_millis(10), ..config(PATIENT) });
    let ended = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
    let reset = closing_after(ended, &sender).await.unwrap_err();
    assert_eq!(reset.kind(), io::ErrorKind::ConnectionReset);
    let idle = closing_after("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", &sender).await;
    assert_eq!(idle.unwrap(), 0, "one that was kept is closed in order");
}

#[tokio::test]
async fn cookies_are_not_kept() {
    let cookie = "HTTP/1.1 200 OK\r\nset-cookie: a=b\r\ncontent-length: 0\r\n\r\n";
    let mut receiver = Receiver::start(cookie, Then::KeepsOpen).await;
    let sender = sender(PATIENT);
    for _ in 0..2 {
        send(&sender, request(receiver.url())).await;
        assert!(receiver.next_request().await.header("cookie").is_empty());
    }
}

/// Environment variables can be set safely only for another process, so this test runs its other half in one.
#[tokio::test]
async fn proxies_of_the_environment_are_not_used() {
    let receiver = Receiver::start(OK, Then::KeepsOpen).await;
    let sent = tokio::task::spawn_blocking({
        let url = receiver.url();
        move || {
            std::process::Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "requests::sends_to_the_url_of_the_environment", "--nocapture"])
                .env("HOLDFAST_TEST_URL", url)
                // Nothing listens there.
                .envs(
                    ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]
                        .map(|name| (name, "http://127.0.0.1:1")),
                )
                .env_remove("REQUEST_METHOD")
                .output()
        }
    });
    let output = sent.await.unwrap().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(receiver.connections(), 1);
}

/// The other half of the test above; it does nothing on its own.
#[tokio::test]
async fn sends_to_the_url_of_the_environment() {
    if let Some(url) = std::env::var_os("HOLDFAST_TEST_URL") {
        let url = url.into_string().unwrap();
        assert!(send(&sender(PATIENT), request(url)).await.response.is_success());
    }
}
