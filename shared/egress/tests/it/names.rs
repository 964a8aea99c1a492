//! Names that hang, and attempts to others meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::{join, join_all};
use holdfast_core::ports::{AttemptRequest, AttemptResponse, FailureKind, Sender};
use holdfast_core::rules::shortage::Shortage;
use holdfast_egress::{Answer, EgressConfig, HttpSender, Lookup, LookupError, LookupLimits};

use crate::receiver::{Receiver, Then};
use crate::{DEADLINE, PATIENT, StoppedClock, config, detail, guard_for, request, send};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

/// Names that begin with `hang` get no answer. All others lead to this machine.
#[derive(Default)]
struct Zone {
    asked: AtomicUsize,
}

#[async_trait]
impl Lookup for Zone {
    async fn addresses(&self, name: &str) -> Result<Answer, LookupError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        if name.starts_with("hang") {
            return std::future::pending().await;
        }
        Ok(Answer { addresses: vec![[127, 0, 0, 1].into()], ttl: Duration::from_secs(60) })
    }
}

fn sender_in(zone: &Arc<Zone>, config: EgressConfig) -> HttpSender {
    HttpSender::with_lookup(config, Arc::new(StoppedClock), Arc::clone(zone) as _).unwrap()
}

fn of_tenant(tenant: &str, url: String) -> AttemptRequest {
    AttemptRequest { tenant: tenant.into(), ..request(url) }
}

#[tokio::test]
async fn hanging_names_of_one_tenant_delay_no_other_tenant() {
    let receiver = Receiver::start(OK, Then::Closes).await;
    let port = receiver.address.port();
    let zone = Arc::new(Zone::default());
    let sender = sender_in(&zone, config(Duration::from_secs(5)));
    let attempts = (0..700)
        .map(|at| sender.send(of_tenant("attacker", format!("http://hang-{}.example:{port}/", at % 8))));
    let victim = async {
        for _ in 0..50 {
            let url = format!("http://healthy.example:{port}/");
            let result = sender.send(of_tenant("victim", url)).await.unwrap();
            assert!(result.response.is_success(), "{:?}", result.response);
        }
    };
    let both = tokio::time::timeout(DEADLINE, join(join_all(attempts), victim));
    let (attacked, ()) = both.await.unwrap();
    for result in attacked {
        let detail = detail(result.unwrap(), FailureKind::Dns);
        assert!(detail.ends_with(".example was not resolved within 2s"), "{detail}");
    }
    assert_eq!(receiver.connections(), 50);
    assert_eq!(zone.asked.load(Ordering::SeqCst), 9, "there is one look-up per name at a time");
}

#[tokio::test]
async fn a_limit_of_ours_is_a_shortage_and_only_of_the_tenant_that_reached_it() {
    let receiver = Receiver::start(OK, Then::Closes).await;
    let port = receiver.address.port();
    let lookups = LookupLimits { max_per_tenant: 1, ..LookupLimits::default() };
    let sender = sender_in(&Arc::default(), EgressConfig { lookups, ..config(PATIENT) });
    let mut hanging = Box::pin(sender.send(of_tenant("a", format!("http://hang.example:{port}/"))));
    assert!(futures_util::poll!(&mut hanging).is_pending());
    let url = format!("http://healthy.example:{port}/");
    assert_eq!(sender.send(of_tenant("a", url.clone())).await, Err(Shortage::Resolver));
    assert!(sender.send(of_tenant("b", url.clone())).await.unwrap().response.is_success());
    // A URL is not refused for it: the attempt checks the name again.
    assert_eq!(sender.check(&"a".into(), &format!("http://other.example:{port}/")).await, Ok(()));
    drop(hanging);
    assert!(sender.send(of_tenant("a", url)).await.unwrap().response.is_success());
}

#[tokio::test]
async fn cached_answers_are_used_and_checked_again() {
    let receiver = Receiver::start(OK, Then::Closes).await;
    let url = format!("http://healthy.example:{}/", receiver.address.port());
    let zone = Arc::new(Zone::default());
    let allowed = sender_in(&zone, config(PATIENT));
    for _ in 0..3 {
        assert!(send(&allowed, request(&url)).await.response.is_success());
    }
    assert_eq!((zone.asked.load(Ordering::SeqCst), receiver.connections()), (1, 3));
    let guard = guard_for("10.0.0.0/8");
    let refused = sender_in(&zone, EgressConfig { guard, ..config(PATIENT) });
    for _ in 0..3 {
        detail(send(&refused, request(&url)).await, FailureKind::Blocked);
    }
    assert_eq!((zone.asked.load(Ordering::SeqCst), receiver.connections()), (2, 3));
}

#[tokio::test]
async fn an_open_connection_needs_no_look_up() {
    let keeps = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
    let receiver = Receiver::start(keeps, Then::KeepsOpen).await;
    let zone = Arc::new(Zone::default());
    let lookups =
        LookupLimits { min_ttl: Duration::ZERO, max_ttl: Duration::ZERO, ..LookupLimits::default() };
    let sender = sender_in(&zone, EgressConfig { lookups, ..config(PATIENT) });
    let url = format!("http://healthy.example:{}/", receiver.address.port());
    for _ in 0..3 {
        let response = send(&sender, request(&url)).await.response;
        assert!(matches!(response, AttemptResponse::Status { status: 200, .. }), "{response:?}");
    }
    assert_eq!((zone.asked.load(Ordering::SeqCst), receiver.connections()), (1, 1));
}
