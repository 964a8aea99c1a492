//! The host under test, over HTTP.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use reqwest::header::{HOST, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, StatusCode};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};

use crate::clock;
use crate::key::Key;
use crate::receiver::Receiver;
use crate::timing::Timing;
use crate::waiting::until;

const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// The host under test, its timing, and the receiver that it delivers to.
#[derive(Clone)]
pub struct Host {
    pub base: String,
    /// For every request that does not name another.
    pub key: String,
    /// The key's tenant.
    pub tenant: String,
    /// The operator key, which creates and deletes other keys.
    pub operator: String,
    pub timing: Timing,
    pub receiver: Receiver,
    /// Distinguishes this run from earlier ones on the same host.
    pub run: String,
    /// Whether calls of the host to its own dependencies fail on purpose: then it may answer 5xx, and requests are repeated.
    pub faulty: bool,
    client: reqwest::Client,
    /// Sent with every request.
    headers: HeaderMap,
}

/// What the host answered.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub content_type: String,
    pub text: String,
    /// Whether an earlier try was answered 5xx. It may have had its effect.
    pub repeated: bool,
}

impl Answer {
    pub fn json(&self) -> Result<Value> {
        serde_json::from_str(&self.text).with_context(|| format!("not JSON: {self:?}"))
    }

    /// The answer as JSON, if it has this status.
    pub fn expect(&self, status: u16) -> Result<Value> {
        // Deleted or created by the earlier try.
        let done_before = self.repeated && matches!((status, self.status.as_u16()), (204, 404) | (201, 409));
        ensure!(self.status.as_u16() == status || done_before, "expected {status}, got {self:?}");
        if self.text.is_empty() { Ok(Value::Null) } else { self.json() }
    }
}

impl Host {
    /// A server on one machine. The receiver is given, so that a restarted host delivers to the same one.
    pub fn with(base: &str, key: &str, speed: u32, receiver: Receiver) -> Result<Host> {
        let client = client()?;
        let run = format!("r{:x}", clock::real_ms());
        Ok(Host {
            base: base.trim_end_matches('/').to_owned(),
            key: key.to_owned(),
            // The tenant of the development key.
            tenant: "default".to_owned(),
            operator: key.to_owned(),
            timing: Timing::on_one_machine(speed),
            receiver,
            run,
            faulty: false,
            client,
            headers: HeaderMap::new(),
        })
    }

    #[must_use]
    pub fn with_timing(self, timing: Timing) -> Host {
        Host { timing, ..self }
    }

    /// The same host, whose calls to its dependencies fail on purpose.
    #[must_use]
    pub fn under_faults(self) -> Host {
        Host { faulty: true, timing: self.timing.under_faults(), ..self }
    }

    /// Sends this name as the `host` header of every request.
    pub fn named(self, name: &str) -> Result<Host> {
        self.with_header(HOST.as_str(), name)
    }

    /// Sends this header with every request.
    pub fn with_header(mut self, name: &str, value: &str) -> Result<Host> {
        let invalid = || format!("not a header: {name}: {value:?}");
        let name: HeaderName = name.parse().with_context(invalid)?;
        self.headers.insert(name, HeaderValue::from_str(value).with_context(invalid)?);
        Ok(self)
    }

    /// The same host, with a key to a tenant of its own.
    pub async fn in_own_tenant(&self) -> Result<Host> {
        self.in_tenant(format!("e2e-{}", self.run)).await
    }

    /// The same host, with an admin key of this tenant.
    pub async fn in_tenant(&self, tenant: String) -> Result<Host> {
        let key = Key::create(self, json!({ "tenant": tenant, "role": "admin" })).await?.text;
        Ok(Host { key, tenant, ..self.clone() })
    }

    /// For requests to other servers.
    #[must_use]
    pub fn client(&self) -> &reqwest::Client {
        &self.client
    }

    pub async fn get(&self, path: &str) -> Result<Answer> {
        self.send(Method::GET, path, Some(&self.key), Vec::new()).await
    }

    pub async fn post(&self, path: &str, body: impl Into<Vec<u8>>) -> Result<Answer> {
        self.send(Method::POST, path, Some(&self.key), body.into()).await
    }

    pub async fn patch(&self, path: &str, body: impl Into<Vec<u8>>) -> Result<Answer> {
        self.send(Method::PATCH, path, Some(&self.key), body.into()).await
    }

    pub async fn delete(&self, path: &str) -> Result<Answer> {
        self.send(Method::DELETE, path, Some(&self.key), Vec::new()).await
    }

    /// Where the host may answer 5xx, the request is repeated as a producer repeats it.
    pub async fn send(&self, method: Method, path: &str, key: Option<&str>, body: Vec<u8>) -> Result<Answer> {
        if !self.faulty {
            return self.send_once(method, path, key, body).await;
        }
        let mut repeated = false;
        until(&format!("{method} {path} is answered"), self.timing.soon, async || {
            let answer = self.send_once(method.clone(), path, key, body.clone()).await?;
            let is_answered = !answer.status.is_server_error();
            let answer = is_answered.then_some(Answer { repeated, ..answer });
            repeated = true;
            Ok(answer)
        })
        .await
    }

    async fn send_once(
        &self,
        method: Method,
        path: &str,
        key: Option<&str>,
        body: Vec<u8>,
    ) -> Result<Answer> {
        let what = format!("{method} {path}");
        let mut request = self.client.request(method, format!("{}{path}", self.base)).body(body);
        if let Some(key) = key {
            request = request.bearer_auth(key);
        }
        let response = request.headers(self.headers.clone()).send().await.with_context(|| what.clone())?;
        let content_type =
            response.headers().get("content-type").and_then(|v| v.to_str().ok()).unwrap_or_default();
        let (status, content_type) = (response.status(), content_type.to_owned());
        let text = response.text().await.with_context(|| what)?;
        Ok(Answer { status, content_type, text, repeated: false })
    }
}

/// For requests to any server.
pub fn client() -> Result<reqwest::Client> {
    let client = reqwest::Client::builder().tls_backend_preconfigured(tls()?).timeout(REQUEST_TIMEOUT);
    Ok(client.no_proxy().build()?)
}

/// Configured explicitly, because no process-wide provider is installed.
fn tls() -> Result<ClientConfig> {
    let roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}
