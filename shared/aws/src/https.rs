//! The HTTP client of a function's connections to AWS.
//!
//! Not the one that comes with the SDK: that one reads and parses all certificates of the machine whenever a client of a service is
//! created, and again for the first request. That is most of a cold start. Here they are compiled in and shared by all clients.

use std::error::Error;
use std::fmt;
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use aws_smithy_runtime_api::client::connection::{CaptureSmithyConnection, ConnectionMetadata};
use aws_smithy_runtime_api::client::connector_metadata::ConnectorMetadata;
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::body::SdkBody;
use hyper_rustls::{DefaultServerNameResolver, HttpsConnector};
use hyper_util::client::legacy::connect::{self as connections, CaptureConnection, capture_connection};
use hyper_util::client::legacy::{self, Client};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::{ClientConfig, RootCertStore};

/// Makes one connector, for the first request, which all clients of services share. Its requests have no timeouts of their own: every
/// attempt of a request has one.
#[derive(Debug)]
pub(crate) struct Https {
    /// How long an unused connection is kept.
    max_idle: Duration,
    connector: OnceLock<SharedHttpConnector>,
}

impl Https {
    pub(crate) fn new(max_idle: Duration) -> Https {
        Https { max_idle, connector: OnceLock::new() }
    }
}

impl HttpClient for Https {
    fn http_connector(&self, _: &HttpConnectorSettings, _: &RuntimeComponents) -> SharedHttpConnector {
        self.connector
            .get_or_init(|| SharedHttpConnector::new(Connector::new(self.max_idle, public_roots())))
            .clone()
    }

    fn connector_metadata(&self) -> Option<ConnectorMetadata> {
        Some(ConnectorMetadata::new("hyper", Some("1.x".into())))
    }
}

struct Connector(Client<HttpsConnector<connections::HttpConnector>, SdkBody>);

impl Connector {
    fn new(max_idle: Duration, roots: RootCertStore) -> Connector {
        let mut tcp = connections::HttpConnector::new();
        // Otherwise it refuses `https`.
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        let names = Arc::new(DefaultServerNameResolver::default());
        let https = HttpsConnector::new(tcp, tls(roots), false, names);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(max_idle)
            .build(https);
        Connector(client)
    }
}

/// The public certificate authorities as of build time, already parsed.
fn public_roots() -> RootCertStore {
    RootCertStore::from_iter(webpki_roots::TLS_SERVER_ROOTS.iter().cloned())
}

fn tls(roots: RootCertStore) -> ClientConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring has the cipher suites of both versions")
        .with_root_certificates(roots)
        .with_no_client_auth()
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connector")
    }
}

impl HttpConnector for Connector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let mut request = match request.try_into_http1x() {
            Ok(request) => request,
            Err(error) => return HttpConnectorFuture::ready(Err(ConnectorError::user(error.into()))),
        };
        let connection = capture_connection(&mut request);
        if let Some(capture) = request.extensions().get::<CaptureSmithyConnection>() {
            capture.set_connection_retriever(move || metadata(&connection));
        }
        let responding = self.0.request(request);
        HttpConnectorFuture::new(async move {
            let response = responding.await.map_err(classify)?.map(SdkBody::from_body_1_x);
            HttpResponse::try_from(response).map_err(|error| ConnectorError::other(error.into(), None))
        })
    }
}

/// With it the SDK closes a connection on which a request failed, so that its repeat uses another one.
fn metadata(connection: &CaptureConnection) -> Option<ConnectionMetadata> {
    let is_proxied = connection.connection_metadata().as_ref()?.is_proxied();
    let connection = connection.clone();
    let poison = move || {
        if let Some(connected) = connection.connection_metadata().as_ref() {
            connected.poison();
        }
    };
    Some(ConnectionMetadata::builder().proxied(is_proxied).poison_fn(poison).build())
}

/// The SDK repeats requests whose connection failed, and none that cannot be sent at all.
fn classify(error: legacy::Error) -> ConnectorError {
    let of_hyper = find_source::<hyper::Error>(&error);
    let is_lost =
        |error: &hyper::Error| error.is_closed() || error.is_canceled() || error.is_incomplete_message();
    if of_hyper.is_some_and(hyper::Error::is_user) {
        return ConnectorError::user(error.into());
    }
    if of_hyper.is_some_and(hyper::Error::is_timeout) {
        return ConnectorError::timeout(error.into());
    }
    if error.is_connect() || of_hyper.is_some_and(is_lost) || find_source::<io::Error>(&error).is_some() {
        return ConnectorError::io(error.into());
    }
    ConnectorError::other(error.into(), None)
}

fn find_source<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    std::iter::successors(Some(error), |&error| error.source()).find_map(|error| error.downcast_ref())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use rustls::ServerConfig;
    use rustls::crypto::ring;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;

    use super::*;
    use crate::connect::{Timeouts, to_emulator};

    const MAX_IDLE: Duration = Duration::from_secs(60);

    async fn get(connector: &Connector, url: &str) -> Result<u16, ConnectorError> {
        let mut request = HttpRequest::empty();
        request.set_uri(url).unwrap();
        connector.call(request).await.map(|response| response.status().as_u16())
    }

    /// Responds to every request of a connection with an empty object.
    async fn respond(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
        let mut request = Vec::new();
        while stream.read_buf(&mut request).await.is_ok_and(|read| read > 0) {
            if is_complete(&request) {
                request.clear();
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").await.unwrap();
            }
        }
    }

    fn is_complete(request: &[u8]) -> bool {
        let text = String::from_utf8_lossy(request);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        body.len() == length.map_or(0, |length| length.parse().unwrap())
    }

    /// Returns the URL of a server with TLS, and its certificate.
    async fn tls_server() -> (String, CertificateDer<'static>) {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let certificate = made.cert.der().clone();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}/", listener.local_addr().unwrap());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        respond(stream).await;
                    }
                });
            }
        });
        (url, certificate)
    }

    #[tokio::test]
    async fn only_a_server_with_a_trusted_certificate_is_used() {
        let (url, certificate) = tls_server().await;
        let public = Connector::new(MAX_IDLE, public_roots());
        let error = get(&public, &url).await.unwrap_err();
        assert!(format!("{:?}", error.into_source()).contains("UnknownIssuer"));

        let mut roots = RootCertStore::empty();
        roots.add(certificate).unwrap();
        let private = Connector::new(MAX_IDLE, roots);
        assert_eq!(get(&private, &url).await.unwrap(), 200);
        let other_name = url.replace("127.0.0.1", "localhost");
        assert!(get(&private, &other_name).await.is_err());
    }

    #[tokio::test]
    async fn all_services_share_the_connections() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let opened = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&opened);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(respond(stream));
            }
        });
        let sdk = to_emulator(&url, Timeouts { attempt: MAX_IDLE, operation: MAX_IDLE }).await;
        let dynamo = aws_sdk_dynamodb::Client::new(&sdk);
        dynamo.list_tables().send().await.unwrap();
        let sqs = aws_sdk_sqs::Client::new(&sdk);
        sqs.list_queues().send().await.unwrap();
        dynamo.list_tables().send().await.unwrap();
        assert_eq!(opened.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn a_request_whose_connection_fails_can_be_repeated() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let closing = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            assert!(stream.read_buf(&mut Vec::new()).await.unwrap() > 0, "the request arrived");
        });
        let connector = Connector::new(MAX_IDLE, public_roots());
        let closed = get(&connector, &url).await.unwrap_err();
        assert!(closed.is_io(), "{closed:?}");
        closing.await.unwrap();
        let refused = get(&connector, &url).await.unwrap_err();
        assert!(refused.is_io(), "{refused:?}");
    }
}
