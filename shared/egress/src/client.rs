use std::sync::Arc;
use std::time::Duration;

use reqwest::redirect::Policy;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};

use crate::config::EgressConfig;
use crate::resolver::GuardedResolver;
use crate::response::MAX_RESPONSE_BYTES;

/// Pings detect a dead HTTP/2 connection. Without them, every attempt on it would time out until the kernel closes it.
const PING_INTERVAL: Duration = Duration::from_secs(5);
const PING_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    #[error("the HTTP timeout must be more than zero")]
    ZeroTimeout,
    #[error("extra root certificate number {number} is invalid")]
    ExtraRoot { number: usize, source: rustls::Error },
    #[error("TLS cannot be set up")]
    Tls(#[from] rustls::Error),
    #[error("the resolver cannot be set up")]
    Resolver(#[from] hickory_resolver::net::NetError),
    #[error("the HTTP client cannot be set up")]
    Client(#[from] reqwest::Error),
}

pub(crate) fn build(config: &EgressConfig, resolver: GuardedResolver) -> Result<reqwest::Client, BuildError> {
    if config.timeout.is_zero() {
        return Err(BuildError::ZeroTimeout);
    }
    let client = reqwest::Client::builder().tls_backend_preconfigured(tls(config)?);
    // Removes the proxies of the environment, so it comes before the configured one is set.
    let client = client.no_proxy();
    let client = match &config.proxy {
        Some(proxy) => {
            let host = proxy.url().host_str().unwrap_or_default();
            let client = client.dns_resolver(resolver.for_proxy(host));
            client.proxy(reqwest::Proxy::all(proxy.url().clone())?)
        }
        None => client.dns_resolver(resolver),
    };
    let client = client
        .redirect(Policy::none())
        .referer(false)
        .tcp_nodelay(true)
        // The client divides this timeout between the addresses of a name, so that one dead address does not use up the
        // sender's own deadline.
        .connect_timeout(config.timeout)
        .pool_idle_timeout(config.pool_idle_timeout)
        .pool_max_idle_per_host(config.pool_max_idle_per_host)
        // A receiver need not send what is not read.
        .http2_initial_stream_window_size(u32::try_from(MAX_RESPONSE_BYTES).ok())
        .http2_keep_alive_interval(PING_INTERVAL)
        .http2_keep_alive_timeout(PING_TIMEOUT)
        .build()?;
    Ok(client)
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
    let mut tls = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(tls)
}
