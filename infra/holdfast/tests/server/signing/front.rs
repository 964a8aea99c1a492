//! What Holdfast posts to: hands each request on to receivers, notes what they say, and fails as often as it is told.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use tokio::net::TcpListener;

/// A request as it arrived, and what each receiver answered to it.
#[derive(Clone, Debug)]
pub(super) struct Arrival {
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    pub(super) verdicts: Vec<u16>,
}

#[derive(Default)]
struct Inside {
    receivers: Vec<String>,
    /// How many requests are answered 500, whatever the receivers say.
    failing: usize,
    arrivals: Vec<Arrival>,
}

#[derive(Clone)]
pub(super) struct Front {
    pub(super) url: String,
    client: reqwest::Client,
    inside: Arc<Mutex<Inside>>,
}

impl Front {
    /// Listens until the runtime ends.
    pub(super) async fn start(client: reqwest::Client) -> Front {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let front = Front { url, client, inside: Arc::default() };
        let router = Router::new().fallback(receive).with_state(front.clone());
        tokio::spawn(axum::serve(listener, router).into_future());
        front
    }

    /// From now on requests go to these receivers, and the next `failing` are answered 500.
    pub(super) fn lead_to(&self, receivers: &[&str], failing: usize) {
        let mut inside = self.inside.lock().unwrap();
        inside.receivers = receivers.iter().map(|&url| url.to_owned()).collect();
        inside.failing = failing;
    }

    pub(super) fn arrivals(&self) -> Vec<Arrival> {
        self.inside.lock().unwrap().arrivals.clone()
    }

    /// What a receiver answers to this request. Only what is signed, and the signature, is sent on.
    pub(super) async fn ask(&self, receiver: &str, headers: &HeaderMap, body: Bytes) -> u16 {
        let mut request = self.client.post(receiver).body(body);
        for name in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
            request = request.header(name, headers.get(name).unwrap_or(&HeaderValue::from_static("")));
        }
        request.send().await.unwrap().status().as_u16()
    }
}

async fn receive(State(front): State<Front>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let receivers = front.inside.lock().unwrap().receivers.clone();
    let mut verdicts = Vec::new();
    for receiver in receivers {
        verdicts.push(front.ask(&receiver, &headers, body.clone()).await);
    }
    let mut inside = front.inside.lock().unwrap();
    let answer = if inside.failing > 0 { 500 } else { verdicts.first().copied().unwrap_or(500) };
    inside.failing = inside.failing.saturating_sub(1);
    inside.arrivals.push(Arrival { headers, body, verdicts });
    StatusCode::from_u16(answer).unwrap()
}
