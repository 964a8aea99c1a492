//! Which addresses attempts may go to.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use holdfast_core::ports::{FailureKind, Refused, Sender};
use holdfast_core::rules::guard::Guard;
use holdfast_egress::{Answer, EgressConfig, HttpSender, Lookup, LookupError, LookupLimits};
use tokio::net::TcpListener;

use crate::receiver::{Receiver, Then};
use crate::{PATIENT, StoppedClock, detail, guard_for, request, send};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

/// Gives its answers one after the other, then repeats the last one.
pub(crate) struct Script {
    answers: Mutex<VecDeque<Vec<IpAddr>>>,
    pub(crate) asked: Mutex<Vec<String>>,
    ttl: Duration,
}

impl Script {
    pub(crate) fn of(answers: &[&[&str]]) -> Arc<Script> {
        let parse = |answer: &&[&str]| answer.iter().map(|text| text.parse().unwrap()).collect();
        let answers = answers.iter().map(parse).collect();
        Arc::new(Script { answers: Mutex::new(answers), asked: Mutex::default(), ttl: Duration::ZERO })
    }

    fn lookups(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

#[async_trait]
impl Lookup for Script {
    async fn addresses(&self, name: &str) -> Result<Answer, LookupError> {
        self.asked.lock().unwrap().push(name.to_owned());
        let mut answers = self.answers.lock().unwrap();
        let addresses = if answers.len() > 1 { answers.pop_front().unwrap() } else { answers[0].clone() };
        Ok(Answer { addresses, ttl: self.ttl })
    }
}

/// Nothing is cached, so that every attempt takes the next answer.
pub(crate) fn sender_looking_up(config: EgressConfig, lookup: Arc<dyn Lookup>) -> HttpSender {
    let lookups =
        LookupLimits { min_ttl: Duration::ZERO, failure_ttl: Duration::ZERO, ..LookupLimits::default() };
    let config = EgressConfig { lookups, ..config };
    HttpSender::with_lookup(config, Arc::new(StoppedClock), lookup).unwrap()
}

fn config(guard: Guard) -> EgressConfig {
    EgressConfig { timeout: PATIENT, guard, ..EgressConfig::default() }
}

/// Two receivers on the same port of two addresses, of which only the first may be attempted.
struct Pair {
    allowed: Receiver,
    forbidden: Receiver,
    guard: Guard,
}

impl Pair {
    async fn start() -> Pair {
        let allowed = Receiver::start(OK, Then::Closes).await;
        let other = TcpListener::bind(("127.0.0.2", allowed.address.port())).await.unwrap();
        Pair {
            allowed,
            forbidden: Receiver::start_on(other, OK, Then::Closes),
            guard: guard_for("127.0.0.1/32"),
        }
    }

    fn url(&self) -> String {
        format!("http://receiver.example:{}/hook?token=hidden", self.allowed.address.port())
    }
}

const BLOCKED: &str = "the URL leads to a loopback address, which is not allowed (127.0.0.0/8)";

#[tokio::test]
async fn dns_rebinding_is_blocked() {
    let pair = Pair::start().await;
    let lookup = Script::of(&[&["127.0.0.1"], &["127.0.0.2"]]);
    let sender = sender_looking_up(config(pair.guard.clone()), lookup.clone());
    // A second lookup for the connection would lead to the other address.
    assert!(send(&sender, request(pair.url())).await.response.is_success());
    assert_eq!(lookup.lookups(), 1);
    assert_eq!((pair.allowed.connections(), pair.forbidden.connections()), (1, 0));
    for _ in 0..2 {
        assert_eq!(detail(send(&sender, request(pair.url())).await, FailureKind::Blocked), BLOCKED);
    }
    assert_eq!(lookup.lookups(), 3);
    assert_eq!((pair.allowed.connections(), pair.forbidden.connections()), (1, 0));
}

#[tokio::test]
async fn a_name_that_was_checked_at_creation_is_checked_again_by_the_attempt() {
    let pair = Pair::start().await;
    let lookup = Script::of(&[&["127.0.0.1"], &["127.0.0.2"]]);
    let sender = sender_looking_up(config(pair.guard.clone()), lookup);
    assert_eq!(sender.check(&"default".into(), &pair.url()).await, Ok(()));
    detail(send(&sender, request(pair.url())).await, FailureKind::Blocked);
    assert_eq!((pair.allowed.connections(), pair.forbidden.connections()), (0, 0));
}

#[tokio::test]
async fn one_forbidden_address_refuses_the_name() {
    let pair = Pair::start().await;
    for answer in [["127.0.0.1", "127.0.0.2"], ["127.0.0.2", "127.0.0.1"], ["127.0.0.1", "::ffff:127.0.0.2"]]
    {
        let sender = sender_looking_up(config(pair.guard.clone()), Script::of(&[&answer]));
        assert_eq!(detail(send(&sender, request(pair.url())).await, FailureKind::Blocked), BLOCKED);
    }
    assert_eq!((pair.allowed.connections(), pair.forbidden.connections()), (0, 0));
}

#[tokio::test]
async fn a_host_that_is_an_address_is_checked_too() {
    let receiver = Receiver::start(OK, Then::Closes).await;
    let port = receiver.address.port();
    let lookup = Script::of(&[&["8.8.8.8"]]);
    let sender = sender_looking_up(config(guard_for("10.0.0.0/8")), lookup.clone());
    for host in [
        "127.0.0.1",
        "2130706433",
        "0x7f.1",
        "[::ffff:127.0.0.1]",
        "[::1]",
        "0.0.0.0",
        "localhost",
        "a.localhost.",
    ] {
        let url = format!("http://{host}:{port}/hook?token=hidden");
        let detail = detail(send(&sender, request(url)).await, FailureKind::Blocked);
        assert!(detail.contains("address, which is not allowed"), "{detail}");
        assert!(!detail.contains("hidden"), "{detail}");
    }
    assert_eq!((receiver.connections(), lookup.lookups()), (0, 0));
}

#[tokio::test]
async fn scheme_port_and_user_are_checked_at_every_attempt() {
    let sender = sender_looking_up(config(Guard::default()), Script::of(&[&["127.0.0.1"]]));
    for (url, expected) in [
        ("http://receiver.example/", "the URL must start with https://"),
        (
            "https://receiver.example:22/",
            "the URL has the port 22, but only these are allowed: 443, 1024-65535",
        ),
        ("https://u:p@receiver.example/", "the URL must not carry a user name or password; use auth_token"),
        ("https://receiver.example/", BLOCKED),
    ] {
        assert_eq!(detail(send(&sender, request(url)).await, FailureKind::Blocked), expected);
    }
}

#[tokio::test]
async fn names_are_also_checked_when_a_subscription_is_created() {
    for (answer, expected) in [
        (&["93.184.215.14"][..], Ok(())),
        (&["93.184.215.14", "2606:4700::1111"], Ok(())),
        // A name without an address may have one when it is needed.
        (&[], Ok(())),
        (
            &["93.184.215.14", "10.0.0.1"],
            Err("leads to a private address, which is not allowed (10.0.0.0/8)"),
        ),
        (&["64:ff9b::a00:1"], Err("leads to a private address, which is not allowed (10.0.0.0/8)")),
    ] {
        let sender = sender_looking_up(config(Guard::default()), Script::of(&[answer]));
        let checked = sender.check(&"default".into(), "https://receiver.example/").await;
        assert_eq!(checked, expected.map_err(|why: &str| Refused(why.to_owned())), "{answer:?}");
    }
}

/// Never responds.
struct Silence;

#[async_trait]
impl Lookup for Silence {
    async fn addresses(&self, _: &str) -> Result<Answer, LookupError> {
        std::future::pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_lookup_does_not_hold_up_a_subscription() {
    let sender = sender_looking_up(config(Guard::default()), Arc::new(Silence));
    let tenant = "default".into();
    let checked =
        tokio::time::timeout(Duration::from_secs(3), sender.check(&tenant, "https://receiver.example/"));
    assert_eq!(checked.await.unwrap(), Ok(()));
}
