//! The receiver of `infra/stacks/receiver.yaml`, for a host that cannot reach this process.

use std::collections::HashSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use data_encoding::BASE64;
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::task::block_in_place;
use tokio::time::{Instant, MissedTickBehavior};

use super::{Arrival, Receiver, Reply};
use crate::clock::real_ms;
use crate::views::{items, number, text};

const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Arrivals are read again for this long: their order is by the clocks of several machines.
const OVERLAP_MS: u64 = 10_000;
const MAX_TRIES: usize = 5;

/// Where the receiver is, and what it wants to be told so by.
#[derive(Clone)]
pub(super) struct Remote {
    pub(super) base: String,
    pub(super) key: String,
    pub(super) client: reqwest::Client,
}

impl Remote {
    /// Sets how a path responds. Returns when that is certain, because the next request may follow at once.
    pub(super) fn switch(&self, path: &str, reply: Reply) {
        let body = json!({ "path": path, "reply": to_json(reply) }).to_string();
        let set = async {
            let mut failed = None;
            for _ in 0..MAX_TRIES {
                match self.ask(reqwest::Method::PUT, "reply", body.clone()).await {
                    Ok(_) => return Ok(()),
                    Err(error) => failed = Some(error),
                }
            }
            failed.map_or(Ok(()), Err)
        };
        let result = block_in_place(|| Handle::current().block_on(set));
        // Every later check of the scenario would be about another response.
        assert!(result.is_ok(), "the receiver does not take a response: {result:?}");
    }

    /// Reads arrivals into `receiver` until the runtime ends.
    pub(super) async fn read_all(self, receiver: Receiver) {
        let mut seen = HashSet::new();
        let mut newest = real_ms();
        let mut ticks = tokio::time::interval(POLL_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            // A failed poll is made up for by the next.
            if let Err(error) = self.read_new(&receiver, &mut seen, &mut newest).await {
                eprintln!("the receiver does not answer: {error:#}");
            }
        }
    }

    async fn read_new(
        &self,
        receiver: &Receiver,
        seen: &mut HashSet<String>,
        newest: &mut u64,
    ) -> Result<()> {
        let mut after = format!("{:015}", newest.saturating_sub(OVERLAP_MS));
        loop {
            let page =
                self.ask(reqwest::Method::GET, &format!("arrivals?after={after}"), String::new()).await?;
            let found = items(&page)?;
            let Some(last) = found.last() else { return Ok(()) };
            text(last, "at")?.clone_into(&mut after);
            for item in found {
                if seen.insert(text(item, "at")?.to_owned()) {
                    let arrival = arrival(item)?;
                    *newest = (*newest).max(arrival.real_ms);
                    receiver.keep(text(item, "path")?, arrival);
                }
            }
        }
    }

    async fn ask(&self, method: reqwest::Method, path: &str, body: String) -> Result<Value> {
        let request = self.client.request(method, format!("{}/_control/{path}", self.base));
        let response = request.header("x-receiver-key", &self.key).body(body).send().await?;
        let status = response.status();
        let answer = response.text().await?;
        ensure!(status.is_success(), "{path}: {status} {answer}");
        Ok(serde_json::from_str(&answer).unwrap_or_default())
    }
}

fn to_json(reply: Reply) -> Value {
    match reply {
        Reply::Status(status) => json!({ "status": status }),
        Reply::Later(status, secs) => json!({ "status": status, "retry_after": secs }),
        Reply::Slow(wait) => {
            json!({ "status": 200, "wait_ms": u64::try_from(wait.as_millis()).unwrap_or(0) })
        }
        Reply::Hang => json!({ "status": null }),
        // Only tests of one machine use it.
        Reply::Flaky => json!({ "status": 500 }),
    }
}

fn arrival(item: &Value) -> Result<Arrival> {
    let mut headers = HeaderMap::new();
    for (name, value) in item["headers"].as_object().context("an arrival without headers")? {
        let value = HeaderValue::from_str(value.as_str().unwrap_or_default())?;
        headers.insert(HeaderName::from_bytes(name.as_bytes())?, value);
    }
    let arrived_ms = number(item, "real_ms")?;
    let age = Duration::from_millis(real_ms().saturating_sub(arrived_ms));
    Ok(Arrival {
        headers,
        body: Bytes::from(BASE64.decode(text(item, "body")?.as_bytes())?),
        at: Instant::now().checked_sub(age).unwrap_or_else(Instant::now),
        real_ms: arrived_ms,
        status: item["status"].as_u64().and_then(|status| u16::try_from(status).ok()),
    })
}
