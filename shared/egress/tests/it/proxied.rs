//! Attempts through the operator's proxy.

use std::sync::Arc;

use holdfast_core::ports::FailureKind;
use holdfast_core::rules::guard::Ports;
use holdfast_egress::EgressConfig;

use crate::guarded::{Script, sender_looking_up};
use crate::receiver::{Receiver, Then};
use crate::{PATIENT, detail, guard_for, request, send};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

/// Public addresses and `http` only: the proxy itself, on this machine, would be refused.
fn config(proxy: &str) -> EgressConfig {
    let mut guard = guard_for("192.0.2.0/24");
    guard.ports = Ports::usual(true);
    EgressConfig { timeout: PATIENT, guard, proxy: Some(proxy.parse().unwrap()), ..EgressConfig::default() }
}

#[tokio::test]
async fn attempts_go_to_the_proxy_after_the_name_was_checked() {
    let mut proxy = Receiver::start(OK, Then::KeepsOpen).await;
    let lookup = Script::of(&[&["192.0.2.7"]]);
    let url = format!("http://user:secret@{}", proxy.address);
    let sender = sender_looking_up(config(&url), lookup.clone());
    assert!(send(&sender, request("http://receiver.example/hook")).await.response.is_success());
    let seen = proxy.next_request().await;
    assert!(seen.head.starts_with("POST http://receiver.example/hook HTTP/1.1\r\n"), "{}", seen.head);
    assert_eq!(seen.header("proxy-authorization").len(), 1);
    assert_eq!(*lookup.asked.lock().unwrap(), ["receiver.example"]);
}

#[tokio::test]
async fn only_the_proxys_own_name_may_have_any_address() {
    let mut proxy = Receiver::start(OK, Then::KeepsOpen).await;
    let lookup = Script::of(&[&["192.0.2.7"], &["127.0.0.1"]]);
    let url = format!("http://proxy.example:{}", proxy.address.port());
    let sender = sender_looking_up(config(&url), lookup.clone());
    assert!(send(&sender, request("http://receiver.example/")).await.response.is_success());
    proxy.next_request().await;
    assert_eq!(*lookup.asked.lock().unwrap(), ["receiver.example", "proxy.example"]);
    // From now on every name leads to this machine.
    for url in [
        "http://receiver.example/",
        "http://proxy.example/",
        "https://receiver.example/",
        "http://127.0.0.1/",
    ] {
        let detail = detail(send(&sender, request(url)).await, FailureKind::Blocked);
        assert!(detail.contains("loopback"), "{detail}");
    }
    assert_eq!(proxy.connections(), 1);
}

#[tokio::test]
async fn a_name_without_an_address_is_not_left_to_the_proxy() {
    let proxy = Receiver::start(OK, Then::KeepsOpen).await;
    let url = format!("http://{}", proxy.address);
    let sender = sender_looking_up(config(&url), Arc::clone(&Script::of(&[&[]])) as _);
    let detail = detail(send(&sender, request("http://receiver.example/")).await, FailureKind::Dns);
    assert_eq!(detail, "the name receiver.example has no address");
    assert_eq!(proxy.connections(), 0);
}

#[tokio::test]
async fn tls_goes_through_a_tunnel() {
    let mut proxy = Receiver::start("HTTP/1.1 200 OK\r\n\r\n", Then::Closes).await;
    let url = format!("http://{}", proxy.address);
    let sender = sender_looking_up(config(&url), Script::of(&[&["192.0.2.7"]]));
    detail(send(&sender, request("https://receiver.example/")).await, FailureKind::Tls);
    let head = proxy.next_request().await.head;
    assert!(head.starts_with("CONNECT receiver.example:443 HTTP/1.1\r\n"), "{head}");
}
