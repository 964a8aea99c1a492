//! The URL that Holdfast posts to: forwards each request to receivers, records their statuses, and fails as often as configured.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use tokio::net::TcpListener;

/// A request, and the status of each receiver's response.
#[derive(Clone, Debug)]
pub(super) struct Arrival {
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    pub(super) statuses: Vec<u16>,
}

#[derive(Default)]
struct Inside {
    receivers: Vec<String>,
    /// How many requests get a 500, regardless of the receivers.
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

    /// From now on requests are forwarded to these receivers, and the next `failing` get a 500.
    pub(super) fn forward_to(&self, receivers: &[&str], failing: usize) {
        let mut inside = self.inside.lock().unwrap();
        inside.receivers = receivers.iter().map(|&url| url.to_owned()).collect();
        inside.failing = failing;
    }

    pub(super) fn arrivals(&self) -> Vec<Arrival> {
        self.inside.lock().unwrap().arrivals.clone()
    }

    /// Forwards the signed parts and the signature. Returns the status of the receiver's response.
    pub(super) async fn forward(&self, receiver: &str, headers: &HeaderMap, body: Bytes) -> u16 {
        let mut request = self.client.post(receiver).body(body);
        for name in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
            request = request.header(name, headers.get(name).unwrap_or(&HeaderValue::from_static("")));
        }
        request.send().await.unwrap().status().as_u16()
    }
}

async fn receive(State(front): State<Front>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let receivers = front.inside.lock().unwrap().receivers.clone();
    let mut statuses = Vec::new();
    for receiver in receivers {
        statuses.push(front.forward(&receiver, &headers, body.clone()).await);
    }
    let mut inside = front.inside.lock().unwrap();
    let status = if inside.failing > 0 { 500 } else { statuses.first().copied().unwrap_or(500) };
    inside.failing = inside.failing.saturating_sub(1);
    inside.arrivals.push(Arrival { headers, body, statuses });
    StatusCode::from_u16(status).unwrap()
}
