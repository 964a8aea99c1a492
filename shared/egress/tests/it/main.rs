//! Attempts against real sockets on this machine.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic, as tests may")]

mod failures;
mod floods;
mod guarded;
mod names;
mod overtaken;
mod proxied;
mod receiver;
mod requests;
mod responses;
mod tls;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use holdfast_core::ports::{AttemptRequest, AttemptResponse, AttemptResult, Clock, FailureKind, Sender};
use holdfast_core::rules::guard::{Cidr, Guard, Ports};
use holdfast_core::time::Timestamp;
use holdfast_egress::{EgressConfig, HttpSender};

/// Only a test that hangs takes this long.
const DEADLINE: Duration = Duration::from_secs(30);
/// Long enough for a busy machine.
const PATIENT: Duration = Duration::from_secs(20);
const IMPATIENT: Duration = Duration::from_millis(200);
/// 2015-10-21T07:28:00Z
const NOW: Timestamp = Timestamp::from_millis(1_445_412_480_000);

struct StoppedClock;

impl Clock for StoppedClock {
    fn now(&self) -> Timestamp {
        Timestamp::ZERO
    }

    fn now_real(&self) -> Timestamp {
        NOW
    }

    fn to_schedule(&self, real: Duration) -> Duration {
        real
    }
}

fn sender_with(config: EgressConfig) -> HttpSender {
    HttpSender::new(config, Arc::new(StoppedClock)).unwrap()
}

/// Allows these networks, and `http`.
fn guard_for(networks: &str) -> Guard {
    let allow = Cidr::list(networks).unwrap();
    Guard { allow, ports: Ports::any(), http_allowed: true, ..Guard::default() }
}

/// Allows this machine, where the receivers of these tests are.
fn config(timeout: Duration) -> EgressConfig {
    EgressConfig { timeout, guard: guard_for("127.0.0.0/8,::1"), ..EgressConfig::default() }
}

fn sender(timeout: Duration) -> HttpSender {
    sender_with(config(timeout))
}

fn request(url: impl Into<String>) -> AttemptRequest {
    AttemptRequest {
        tenant: "default".into(),
        url: url.into(),
        body: Bytes::from_static(b"{}"),
        headers: vec![("content-type", "application/json".into()), ("user-agent", "Holdfast/test".into())],
    }
}

async fn send(sender: &HttpSender, request: AttemptRequest) -> AttemptResult {
    let sent = tokio::time::timeout(DEADLINE, sender.send(request)).await;
    sent.expect("the attempt has a deadline of its own").expect("this machine has what an attempt needs")
}

/// The detail of a failure that must be of this kind.
#[track_caller]
fn detail(result: AttemptResult, expected: FailureKind) -> String {
    match result.response {
        AttemptResponse::Failed { kind, detail, .. } if kind == expected => detail,
        other => panic!("expected a failure of kind {expected}, got {other:?}"),
    }
}
