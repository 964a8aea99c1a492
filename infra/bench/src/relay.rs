//! What Holdfast is compared with: a handler that posts what it got to the receiver with one `reqwest` client. It has no queue, no store, no
//! signature and no retry.

use anyhow::Result;
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use tokio::net::TcpListener;

#[derive(Clone)]
struct Relay {
    client: reqwest::Client,
    target: String,
}

async fn relay(State(relay): State<Relay>, body: Bytes) -> StatusCode {
    let request = relay.client.post(&relay.target).header("content-type", "application/json").body(body);
    match request.send().await {
        Ok(answer) if answer.status().is_success() => StatusCode::ACCEPTED,
        _ => StatusCode::BAD_GATEWAY,
    }
}

/// Prints its address and serves until it is killed.
pub(crate) async fn run(target: String) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    let relay_to = Relay { client: reqwest::Client::builder().no_proxy().build()?, target };
    let router = Router::new().route("/v1/events", post(relay)).with_state(relay_to);
    Ok(axum::serve(listener, router).await?)
}
