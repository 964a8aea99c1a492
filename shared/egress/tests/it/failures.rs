//! Attempts that get no response.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use holdfast_core::ports::{FailureKind, Sender};
use holdfast_core::rules::shortage::Shortage;
use holdfast_egress::{BuildError, EgressConfig, HttpSender};
use tokio::net::TcpListener;

use crate::receiver::{Receiver, Then};
use crate::{PATIENT, StoppedClock, detail, request, send, sender};

#[tokio::test]
async fn a_refused_connection_is_a_connect_failure() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let url = format!("http://{address}/hook?token=hidden");
    let detail = detail(send(&sender(PATIENT), request(url)).await, FailureKind::Connect);
    assert!(detail.starts_with("could not connect: Connection refused"), "{detail}");
}

#[tokio::test]
async fn a_name_without_an_address_is_a_dns_failure() {
    let result = send(&sender(PATIENT), request("https://nothing.invalid/hook?token=hidden")).await;
    assert_eq!(detail(result, FailureKind::Dns), "the name nothing.invalid has no address");
}

#[tokio::test]
async fn a_connection_that_closes_is_a_body_failure() {
    for response in ["", "HTTP/1.1 200", "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf"] {
        let receiver = Receiver::start(response, Then::Closes).await;
        let detail = detail(send(&sender(PATIENT), request(receiver.url())).await, FailureKind::Body);
        assert!(detail.starts_with("no complete HTTP response: "), "{detail}");
        assert!(!detail.contains("hidden"), "{detail}");
    }
}

#[tokio::test]
async fn a_response_that_is_not_http_is_a_body_failure() {
    let receiver = Receiver::start("220 mail.example.com ESMTP\r\n\r\n", Then::KeepsOpen).await;
    let detail = detail(send(&sender(PATIENT), request(receiver.url())).await, FailureKind::Body);
    assert!(!detail.contains("mail.example.com"), "{detail}");
}

#[tokio::test]
async fn an_invalid_request_is_not_sent() {
    let sender = sender(PATIENT);
    for url in ["", "nowhere", "http://", "ftp://127.0.0.1/", "http://[::1", "mailto:a@b"] {
        let detail = detail(send(&sender, request(url)).await, FailureKind::Connect);
        assert!(detail.starts_with("the request is invalid: the URL"), "{detail}");
    }
    let mut invalid = request("http://127.0.0.1:1/");
    invalid.headers.push(("authorization", "Bearer hid\nden".into()));
    assert_eq!(
        detail(send(&sender, invalid).await, FailureKind::Connect),
        "the request is invalid: the header authorization cannot be encoded"
    );
}

/// The response may have come in time, and nobody was there to see it.
#[tokio::test]
async fn a_timeout_that_is_noticed_late_is_our_shortage_of_time() {
    for response in ["", "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf"] {
        let mut receiver = Receiver::start(response, Then::Hangs).await;
        let sender = sender(PATIENT);
        let mut attempt = pin!(sender.send(request(receiver.url())));
        tokio::select! {
            ended = &mut attempt => panic!("{ended:?}"),
            _ = receiver.next_request() => {}
        }
        tokio::time::pause();
        tokio::time::advance(PATIENT * 2).await;
        tokio::time::resume();
        assert_eq!(attempt.await, Err(Shortage::Time));
    }
}

#[test]
fn an_invalid_configuration_is_refused() {
    let error = |config| HttpSender::new(config, Arc::new(StoppedClock)).err();
    let no_time = EgressConfig { timeout: Duration::ZERO, ..EgressConfig::default() };
    assert!(matches!(error(no_time), Some(BuildError::ZeroTimeout)));
    let bad_root = EgressConfig { extra_roots: vec![b"?".to_vec()], ..EgressConfig::default() };
    assert!(matches!(error(bad_root), Some(BuildError::ExtraRoot { number: 1, .. })));
}
