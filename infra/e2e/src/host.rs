//! The host under test, over HTTP.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use reqwest::{Method, StatusCode};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;

use crate::clock;
use crate::receiver::Receiver;

const LONGEST_ANSWER: Duration = Duration::from_secs(60);

/// Where the host is, how its schedule's clock runs, and the receiver that it delivers to.
pub struct Host {
    pub base: String,
    pub key: String,
    pub speed: u32,
    pub receiver: Receiver,
    /// Tells this run from earlier ones on the same host.
    pub run: String,
    client: reqwest::Client,
}

/// What the host answered.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub content_type: String,
    pub text: String,
}

impl Answer {
    pub fn json(&self) -> Result<Value> {
        serde_json::from_str(&self.text).with_context(|| format!("not JSON: {self:?}"))
    }

    /// The answer as JSON, if it has this status.
    pub fn expect(&self, status: u16) -> Result<Value> {
        ensure!(self.status.as_u16() == status, "expected {status}, got {self:?}");
        if self.text.is_empty() { Ok(Value::Null) } else { self.json() }
    }
}

impl Host {
    pub async fn new(base: &str, key: &str, speed: u32) -> Result<Host> {
        Host::with(base, key, speed, Receiver::start().await?)
    }

    /// With a receiver that is there already, so that a host that was restarted finds the old one.
    pub fn with(base: &str, key: &str, speed: u32, receiver: Receiver) -> Result<Host> {
        let client = reqwest::Client::builder()
            .tls_backend_preconfigured(tls()?)
            .timeout(LONGEST_ANSWER)
            .no_proxy()
            .build()?;
        let run = format!("r{:x}", clock::real_ms());
        Ok(Host {
            base: base.trim_end_matches('/').to_owned(),
            key: key.to_owned(),
            speed,
            receiver,
            run,
            client,
        })
    }

    pub async fn get(&self, path: &str) -> Result<Answer> {
        self.send(Method::GET, path, Some(&self.key), Vec::new()).await
    }

    pub async fn post(&self, path: &str, body: impl Into<Vec<u8>>) -> Result<Answer> {
        self.send(Method::POST, path, Some(&self.key), body.into()).await
    }

    pub async fn delete(&self, path: &str) -> Result<Answer> {
        self.send(Method::DELETE, path, Some(&self.key), Vec::new()).await
    }

    pub async fn send(&self, method: Method, path: &str, key: Option<&str>, body: Vec<u8>) -> Result<Answer> {
        let what = format!("{method} {path}");
        let mut request = self.client.request(method, format!("{}{path}", self.base)).body(body);
        if let Some(key) = key {
            request = request.bearer_auth(key);
        }
        let response = request.send().await.with_context(|| what.clone())?;
        let content_type =
            response.headers().get("content-type").and_then(|v| v.to_str().ok()).unwrap_or_default();
        let (status, content_type) = (response.status(), content_type.to_owned());
        let text = response.text().await.with_context(|| what)?;
        Ok(Answer { status, content_type, text })
    }

    /// How much of the schedule's time passes in so much real time.
    #[must_use]
    pub fn schedule_ms(&self, real: Duration) -> i64 {
        i64::try_from((real * self.speed).as_millis()).unwrap_or(i64::MAX)
    }

    /// How much real time passes in so much of the schedule's time.
    #[must_use]
    pub fn real(&self, schedule: Duration) -> Duration {
        schedule / self.speed
    }
}

/// Built by hand, because no process-wide provider is installed.
fn tls() -> Result<ClientConfig> {
    let roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}
