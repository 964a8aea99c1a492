//! The receiver of infra/docs/subscribing.md.

#![expect(clippy::disallowed_methods, reason = "a receiver reads its own settings")]

use std::collections::HashSet;
use std::env;
use std::error::Error;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use serde_json::Value;
use standardwebhooks::Webhook;
use tokio::net::TcpListener;

struct Receiver {
    webhook: Webhook,
    seen: Mutex<HashSet<String>>, // a table of your database
}

async fn receive(State(receiver): State<Arc<Receiver>>, headers: HeaderMap, body: Bytes) -> StatusCode {
    if receiver.webhook.verify(&body, &headers).is_err() {
        return StatusCode::BAD_REQUEST;
    }
    let Ok(event) = serde_json::from_slice::<Value>(&body) else {
        return StatusCode::BAD_REQUEST;
    };
    let id = String::from_utf8_lossy(headers["webhook-id"].as_bytes()).into_owned();
    if receiver.seen.lock().expect("a lock that no panic broke").insert(id) {
        println!("{} {}", event["type"], event["data"]); // put it where your own workers find it
    }
    StatusCode::NO_CONTENT
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let webhook = Webhook::new(&env::var("WEBHOOK_SECRET")?)?;
    let receiver = Arc::new(Receiver { webhook, seen: Mutex::default() });
    let listener = TcpListener::bind(format!("127.0.0.1:{}", env::var("PORT")?)).await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, Router::new().route("/", post(receive)).with_state(receiver)).await?;
    Ok(())
}
