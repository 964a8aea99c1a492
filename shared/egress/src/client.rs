use std::sync::Arc;
use std::time::Duration;

use reqwest::redirect::Policy;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};

use crate::answer::MAX_READ;
use crate::config::EgressConfig;
use crate::resolver::GuardedResolver;

/// A dead HTTP/2 connection is noticed after the interval and the timeout; without the pings, every attempt to its receiver
/// would run into the deadline until the kernel gives the connection up.
const PING_INTERVAL: Duration = Duration::from_secs(5);
const PING_TIMEOUT: Duration = Duration::from_secs(5);

/// Why no sender could be made of a configuration.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    #[error("the timeout of an attempt must not be zero")]
    ZeroTimeout,
    #[error("extra root certificate number {number} cannot be used")]
    ExtraRoot { number: usize, source: rustls::Error },
    #[error("TLS cannot be set up")]
    Tls(#[from] rustls::Error),
    #[error("the HTTP client cannot be set up")]
    Client(#[from] reqwest::Error),
}

pub(crate) fn build(config: &EgressConfig, resolver: GuardedResolver) -> Result<reqwest::Client, BuildError> {
    if config.timeout.is_zero() {
        return Err(BuildError::ZeroTimeout);
    }
    let client = reqwest::Client::builder().tls_backend_preconfigured(tls(config)?);
    // Before a proxy is set: this one clears them all, those of the environment too.
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
        // The sender has a deadline of its own. This one is here because it is shared out over the addresses of a name, so
        // that one dead address does not take the time of those after it.
        .connect_timeout(config.timeout)
        .pool_idle_timeout(config.pool_idle_timeout)
        .pool_max_idle_per_host(config.pool_max_idle_per_host)
        // A receiver need not send what nobody will read.
        .http2_initial_stream_window_size(u32::try_from(MAX_READ).ok())
        .http2_keep_alive_interval(PING_INTERVAL)
        .http2_keep_alive_timeout(PING_TIMEOUT)
        .build()?;
    Ok(client)
}

/// Trusts the public authorities as they were at build time, so that every machine trusts the same ones and a bare container
/// needs nothing installed.
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
