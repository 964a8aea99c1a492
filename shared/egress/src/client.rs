use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::{Either, select};
use http::header::PROXY_AUTHORIZATION;
use http::{HeaderValue, Request, Response, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::client::legacy::connect::capture_connection;
use hyper_util::client::legacy::{self, Client};
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::TokioTimer;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};

use crate::busy::BusySteps;
use crate::certificates::ShortChains;
use crate::config::EgressConfig;
use crate::connector::{Connector, ProxyRoute};
use crate::idle::IdleConnections;
use crate::meter::{Meter, MeteredAttempt};
use crate::resolver::GuardedResolver;
use crate::tasks::ConnectionTasks;

/// How much of a response's head is held at a time.
pub(crate) const MAX_HEAD_BYTES: usize = 64 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    #[error("the HTTP timeout must be more than zero")]
    ZeroTimeout,
    #[error("extra root certificate number {number} is invalid")]
    ExtraRoot { number: usize, source: rustls::Error },
    #[error("TLS cannot be set up")]
    Tls(#[from] rustls::Error),
    #[error("there are no root certificates")]
    Roots,
    #[error("the proxy's URL cannot be used")]
    Proxy,
    #[error("the resolver cannot be set up")]
    Resolver(#[from] hickory_resolver::net::NetError),
}

/// Sends requests on connections that are reused.
pub(crate) struct HttpClient {
    client: Client<Connector, Full<Bytes>>,
    /// For requests that the proxy reads itself. A tunnel is authorized when it is opened.
    proxy_auth: Option<HeaderValue>,
}

/// A response whose body is still to be read.
pub(crate) struct Received {
    pub(crate) response: Response<Incoming>,
    /// To be kept until the body is read.
    pub(crate) metered: Option<MeteredAttempt>,
}

impl HttpClient {
    pub(crate) fn new(config: &EgressConfig, resolver: GuardedResolver) -> Result<HttpClient, BuildError> {
        if config.timeout.is_zero() {
            return Err(BuildError::ZeroTimeout);
        }
        let proxy = proxy_route(config)?;
        let resolver = match &config.proxy {
            Some(proxy) => resolver.for_proxy(proxy.url().host_str().unwrap_or_default()),
            None => resolver,
        };
        let proxy_auth = proxy.as_ref().and_then(|proxy| proxy.auth.clone());
        let idle = IdleConnections::new(config.pool_max_idle);
        let busy = BusySteps::new(std::thread::available_parallelism().map_or(1, usize::from));
        let connector = Connector::new(resolver, tls(config)?, proxy, config.timeout, idle, busy.clone());
        let client = Client::builder(ConnectionTasks::new(busy))
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(config.pool_idle_timeout)
            .pool_max_idle_per_host(config.pool_max_idle_per_host)
            .http1_max_buf_size(MAX_HEAD_BYTES)
            .build(connector);
        Ok(HttpClient { client, proxy_auth })
    }

    pub(crate) async fn execute(&self, mut request: Request<Full<Bytes>>) -> Result<Received, legacy::Error> {
        if let Some(auth) = &self.proxy_auth
            && request.uri().scheme_str() == Some("http")
        {
            request.headers_mut().insert(PROXY_AUTHORIZATION, auth.clone());
        }
        let mut connection = capture_connection(&mut request);
        let metered = pin!(async {
            let connected = connection.wait_for_connection_metadata().await;
            connected.as_ref().and_then(Meter::of).map(Meter::start_attempt)
        });
        match select(self.client.request(request), metered).await {
            Either::Left((response, _)) => Ok(Received { response: response?, metered: None }),
            Either::Right((metered, response)) => Ok(Received { response: response.await?, metered }),
        }
    }
}

fn proxy_route(config: &EgressConfig) -> Result<Option<ProxyRoute>, BuildError> {
    let Some(proxy) = &config.proxy else { return Ok(None) };
    let all = Matcher::builder().all(proxy.url().as_str()).build();
    let intercepted = all.intercept(&Uri::from_static("http://receiver.example")).ok_or(BuildError::Proxy)?;
    Ok(Some(ProxyRoute { uri: intercepted.uri().clone(), auth: intercepted.basic_auth().cloned() }))
}

/// Trusts the public certificate authorities as of build time: the same ones on every machine, and none has to be installed.
fn tls(config: &EgressConfig) -> Result<ClientConfig, BuildError> {
    let mut roots = RootCertStore::from_iter(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    for (at, der) in config.extra_roots.iter().enumerate() {
        roots
            .add(CertificateDer::from(der.clone()))
            .map_err(|source| BuildError::ExtraRoot { number: at + 1, source })?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = ShortChains::new(roots, &provider)?;
    let mut tls = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    // Not HTTP/2: all tenants with URLs on one host would share a connection, and one whose requests hang could take all of its streams.
    tls.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(tls)
}
