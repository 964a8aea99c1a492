//! `holdfast listen`: a receiver on this machine, for as long as the command runs.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use bytes::Bytes;
use clap::Args;
use serde_json::{Value, json};
use standardwebhooks::Webhook;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use url::Url;

use super::api::{Api, path};
use super::output::{Output, on_one_line, paint, print_text, text};

/// An event has at most a million bytes, and a body its id, type and time besides.
const MAX_BODY_BYTES: usize = 2_000_000;
/// As long as Holdfast waits for an answer, by default.
const FORWARD_TIMEOUT: Duration = Duration::from_secs(5);
/// What a local server needs to verify the signature itself.
const FORWARDED_HEADERS: [&str; 5] =
    ["content-type", "webhook-id", "webhook-timestamp", "webhook-signature", "traceparent"];

#[derive(Args)]
pub(crate) struct Listen {
    /// An event type to receive, such as order.created, order.* or * for all. Can be given more than once.
    #[arg(long = "event-type", value_name = "TYPE", value_delimiter = ',', default_value = "*")]
    event_types: Vec<String>,
    /// Pass on what arrives to this server, and answer as it answers. For example localhost:3000 or <http://localhost:3000/webhooks>.
    #[arg(long, value_name = "URL", value_parser = parse_target)]
    forward_to: Option<Url>,
    /// The address to listen on.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// The URL at which Holdfast reaches this machine, such as that of a tunnel [default: the address that is listened on]
    #[arg(long, value_name = "URL")]
    public_url: Option<String>,
}

/// What the handler of requests needs.
struct Receiver {
    secret: Webhook,
    forward: Option<(reqwest::Client, Url)>,
    output: Output,
}

pub(super) async fn run(command: Listen, api: Api, output: Output) -> Result<()> {
    let listener = TcpListener::bind(command.listen).await.with_context(|| {
        format!("cannot listen on {}; choose another address with --listen", command.listen)
    })?;
    let url = match &command.public_url {
        Some(url) => url.clone(),
        None => format!("http://{}/", listener.local_addr()?),
    };
    let new = json!({ "url": url, "event_types": command.event_types, "description": "holdfast listen" });
    // Before it subscribes, so that a script that ends it leaves no subscription behind.
    let terminate = signal(SignalKind::terminate())?;
    let subscription = api.post("/v1/subscriptions", &new).await?;
    let id = text(&subscription["id"]);
    let served = serve(listener, &command, &subscription, &url, output, terminate).await;
    // Also after an error: it would get events that this machine does not take.
    let deleted = api.delete(&path(&["v1", "subscriptions", &id], "")).await;
    served
        .and(deleted.map(|_| ()).with_context(|| format!("the subscription {id} is still there; delete it")))
}

async fn serve(
    listener: TcpListener,
    command: &Listen,
    subscription: &Value,
    url: &str,
    output: Output,
    mut terminate: Signal,
) -> Result<()> {
    let secret = text(&subscription["secret"]);
    if !output.is_json() {
        let types = command.event_types.join(", ");
        print_text(&format!(
            "Listening for {types} at {url} as {}. Ctrl-C ends it.\n",
            text(&subscription["id"])
        ))?;
        print_text(&format!("Secret: {secret}\n"))?;
    }
    let forward = match &command.forward_to {
        Some(target) => {
            let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none());
            Some((client.timeout(FORWARD_TIMEOUT).build()?, target.clone()))
        }
        None => None,
    };
    let secret = Webhook::new(&secret).context("the server's secret is not one of Standard Webhooks")?;
    let router = Router::new().fallback(receive).with_state(Arc::new(Receiver { secret, forward, output }));
    axum::serve(listener, router)
        .with_graceful_shutdown(async move {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminate.recv() => {}
            }
        })
        .await?;
    Ok(())
}

async fn receive(State(receiver): State<Arc<Receiver>>, request: Request<Body>) -> (StatusCode, Bytes) {
    let (head, body) = request.into_parts();
    let Ok(body) = to_bytes(body, MAX_BODY_BYTES).await else {
        return (StatusCode::PAYLOAD_TOO_LARGE, Bytes::new());
    };
    if receiver.secret.verify(&body, &head.headers).is_err() {
        receiver.report(&Value::Null, "failure", "the signature is not valid; answered 401");
        return (StatusCode::UNAUTHORIZED, Bytes::new());
    }
    let event = serde_json::from_slice(&body).unwrap_or_default();
    let (status, answer, what) = receiver.forward(&head.headers, body).await;
    receiver.report(&event, if status.is_success() { "success" } else { "failure" }, &what);
    (status, answer)
}

impl Receiver {
    /// The answer of the local server, and what to print about it.
    async fn forward(&self, headers: &HeaderMap, body: Bytes) -> (StatusCode, Bytes, String) {
        let Some((client, target)) = &self.forward else {
            return (StatusCode::OK, Bytes::new(), String::new());
        };
        let kept = FORWARDED_HEADERS.iter().filter_map(|name| Some((*name, headers.get(*name)?)));
        let request =
            kept.fold(client.post(target.clone()), |request, (name, value)| request.header(name, value));
        let response = match request.body(body).send().await {
            Ok(response) => response,
            Err(error) => {
                let what = format!(
                    "{target} does not answer: {}",
                    holdfast_core::ports::chain(&error.without_url())
                );
                return (StatusCode::BAD_GATEWAY, Bytes::new(), what);
            }
        };
        let status = response.status();
        (status, response.bytes().await.unwrap_or_default(), format!("{target} answered {status}"))
    }

    fn report(&self, event: &Value, outcome: &str, what: &str) {
        let line = if self.output.is_json() {
            json!({ "outcome": outcome, "detail": what, "event": event }).to_string()
        } else {
            let (event_type, id) = (text(&event["type"]), text(&event["id"]));
            format!(
                "{}  {}  {}  {}  {}",
                text(&event["timestamp"]),
                paint(outcome),
                on_one_line(&event_type),
                on_one_line(&id),
                on_one_line(what)
            )
        };
        // The command ends with its reader.
        let _ = print_text(&format!("{}\n", line.trim_end()));
    }
}

/// `localhost:3000` is enough.
fn parse_target(input: &str) -> Result<Url, String> {
    let with_scheme = if input.contains("://") { input.to_owned() } else { format!("http://{input}") };
    Url::parse(&with_scheme)
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
        .ok_or_else(|| "write HOST:PORT or a URL, such as localhost:3000".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_and_port_are_enough_to_forward_to() {
        assert_eq!(parse_target("localhost:3000").unwrap().as_str(), "http://localhost:3000/");
        assert_eq!(parse_target("https://a.example/hooks").unwrap().as_str(), "https://a.example/hooks");
        for refused in ["", "ftp://a.example", "http://"] {
            assert!(parse_target(refused).is_err(), "{refused}");
        }
    }
}
