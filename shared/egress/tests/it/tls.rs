//! Attempts over TLS.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use holdfast_core::ports::{AttemptResponse, FailureKind};
use holdfast_egress::EgressConfig;
use http_body_util::Full;
use hyper::service::service_fn;
use hyper::{Request, Response, body::Incoming};
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::{PATIENT, config, detail, request, send, sender, sender_with};

/// As most servers do.
const USUAL_TICKETS: usize = 2;

/// Responds 200 with the HTTP version of the request.
struct TlsReceiver {
    url: String,
    certificate: Vec<u8>,
    _server: JoinSet<()>,
}

impl TlsReceiver {
    async fn start(alpn: &[&[u8]]) -> TlsReceiver {
        TlsReceiver::with_intermediates(0, alpn).await
    }

    /// Sends this many further certificates with its own.
    async fn with_intermediates(count: usize, alpn: &[&[u8]]) -> TlsReceiver {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let chain = vec![made.cert.der().clone(); 1 + count];
        TlsReceiver::with_chain(chain, &made.signing_key, made.cert.der().to_vec(), alpn).await
    }

    /// `certificate`: the authority's.
    async fn with_chain(
        chain: Vec<CertificateDer<'static>>,
        key: &KeyPair,
        certificate: Vec<u8>,
        alpn: &[&[u8]],
    ) -> TlsReceiver {
        TlsReceiver::with_acceptor(acceptor(chain, key, alpn, USUAL_TICKETS), certificate).await
    }

    /// Sends this many session tickets after the handshake.
    async fn with_tickets(count: usize) -> TlsReceiver {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let certificate = made.cert.der().clone();
        let acceptor = acceptor(vec![certificate.clone()], &made.signing_key, &[], count);
        TlsReceiver::with_acceptor(acceptor, certificate.to_vec()).await
    }

    async fn with_acceptor(acceptor: TlsAcceptor, certificate: Vec<u8>) -> TlsReceiver {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}/hook?token=hidden", listener.local_addr().unwrap());
        let mut server = JoinSet::new();
        server.spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                open.spawn(serve(acceptor.clone(), stream));
            }
        });
        TlsReceiver { url, certificate, _server: server }
    }

    fn trusted(&self) -> EgressConfig {
        EgressConfig { extra_roots: vec![self.certificate.clone()], ..config(PATIENT) }
    }
}

fn acceptor(
    chain: Vec<CertificateDer<'static>>,
    key: &KeyPair,
    alpn: &[&[u8]],
    tickets: usize,
) -> TlsAcceptor {
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    config.send_tls13_tickets = tickets;
    TlsAcceptor::from(Arc::new(config))
}

/// For this machine, with its certificate.
pub(crate) fn acceptor_here() -> (TlsAcceptor, Vec<u8>) {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let certificate = made.cert.der().clone();
    (acceptor(vec![certificate.clone()], &made.signing_key, &[], USUAL_TICKETS), certificate.to_vec())
}

/// Errors are ignored: the sender's side of each test asserts them.
pub(crate) async fn serve(acceptor: TlsAcceptor, stream: TcpStream) {
    let Ok(stream) = acceptor.accept(stream).await else { return };
    let service = service_fn(|request: Request<Incoming>| async move {
        Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(format!("{:?}", request.version())))))
    });
    let stream = TokioIo::new(stream);
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(stream, service).await;
}

#[tokio::test]
async fn every_attempt_has_a_connection_of_its_own_also_where_http_2_is_offered() {
    for alpn in [&[b"h2".as_slice(), b"http/1.1"][..], &[b"http/1.1"], &[]] {
        let receiver = TlsReceiver::start(alpn).await;
        let response = send(&sender_with(receiver.trusted()), request(&receiver.url)).await.response;
        let excerpt = "HTTP/1.1".to_owned();
        assert_eq!(response, AttemptResponse::Status { status: 200, excerpt, retry_after: None });
    }
}

#[tokio::test]
async fn a_certificate_of_an_unknown_authority_is_a_tls_failure() {
    let receiver = TlsReceiver::start(&[]).await;
    let detail = detail(send(&sender(PATIENT), request(&receiver.url)).await, FailureKind::Tls);
    assert!(detail.starts_with("TLS failed: invalid peer certificate"), "{detail}");
}

/// The certificates in between come with the receiver's own, in any order, and the authority's may be among them.
#[tokio::test]
async fn an_authority_is_reached_by_way_of_others() {
    let authority = |name: &str| {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        (params, KeyPair::generate().unwrap())
    };
    let ((root, root_key), (middle, middle_key)) = (authority("root"), authority("middle"));
    let root_certificate = root.self_signed(&root_key).unwrap();
    let middle_certificate = middle.signed_by(&middle_key, &Issuer::new(root, root_key)).unwrap();
    let own = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    let key = KeyPair::generate().unwrap();
    let own = own.signed_by(&key, &Issuer::new(middle, middle_key)).unwrap();
    let root = root_certificate.der();
    let chain = vec![own.der().clone(), root.clone(), middle_certificate.der().clone()];
    let receiver = TlsReceiver::with_chain(chain, &key, root.to_vec(), &[]).await;
    let result = send(&sender_with(receiver.trusted()), request(&receiver.url)).await;
    assert!(result.response.is_success(), "{result:?}");
}

/// To try all ways in which many can be put in order would take seconds.
#[tokio::test]
async fn a_chain_of_many_certificates_is_a_tls_failure() {
    let most = TlsReceiver::with_intermediates(4, &[]).await;
    let result = send(&sender_with(most.trusted()), request(&most.url)).await;
    assert!(result.response.is_success(), "{result:?}");
    let too_many = TlsReceiver::with_intermediates(5, &[]).await;
    let result = send(&sender_with(too_many.trusted()), request(&too_many.url)).await;
    let detail = detail(result, FailureKind::Tls);
    assert!(
        detail.starts_with("TLS failed: the receiver sent more than 4 intermediate certificates"),
        "{detail}"
    );
}

/// A certificate may hold anything, also one that is not needed.
#[tokio::test]
async fn a_chain_of_large_certificates_is_a_tls_failure() {
    for (names, is_success) in [(150, true), (700, false)] {
        let names: Vec<String> = (0..names).map(|n| format!("receiver-{n:03}.example.com")).collect();
        let names: Vec<String> = ["127.0.0.1".to_owned()].into_iter().chain(names).collect();
        let made = rcgen::generate_simple_self_signed(names).unwrap();
        let certificate = made.cert.der().clone();
        let receiver =
            TlsReceiver::with_chain(vec![certificate.clone()], &made.signing_key, certificate.to_vec(), &[]);
        let receiver = receiver.await;
        let result = send(&sender_with(receiver.trusted()), request(&receiver.url)).await;
        assert_eq!(result.response.is_success(), is_success, "{} bytes: {result:?}", certificate.len());
        if !is_success {
            let detail = detail(result, FailureKind::Tls);
            assert!(detail.ends_with("or more than 16000 bytes of certificates"), "{detail}");
        }
    }
}

/// Each costs time, and rustls takes any number of them.
#[tokio::test]
async fn many_session_tickets_are_a_tls_failure() {
    let most = TlsReceiver::with_tickets(16).await;
    let sender = sender_with(most.trusted());
    for _ in 0..3 {
        let result = send(&sender, request(&most.url)).await;
        assert!(result.response.is_success(), "{result:?}");
    }
    for count in [17, 1_000] {
        let too_many = TlsReceiver::with_tickets(count).await;
        let result = send(&sender_with(too_many.trusted()), request(&too_many.url)).await;
        let detail = detail(result, FailureKind::Tls);
        assert_eq!(detail, "TLS failed: the receiver sent more than 16 session tickets", "{count}");
    }
}

#[tokio::test]
async fn a_certificate_for_another_name_is_a_tls_failure() {
    let receiver = TlsReceiver::start(&[]).await;
    let url = receiver.url.replace("127.0.0.1", "localhost");
    let detail = detail(send(&sender_with(receiver.trusted()), request(url)).await, FailureKind::Tls);
    assert!(!detail.contains("hidden"), "{detail}");
}

#[tokio::test]
async fn tls_to_a_plain_text_port_is_a_tls_failure() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/", listener.local_addr().unwrap());
    let mut server = JoinSet::<()>::new();
    server.spawn(async move {
        // Like a mail server, which sends the first line.
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"220 mail.example.com ESMTP\r\n").await.unwrap();
        std::future::pending().await
    });
    let detail = detail(send(&sender(PATIENT), request(url)).await, FailureKind::Tls);
    assert_eq!(detail, "TLS failed: the receiver does not speak TLS on this port");
}

#[tokio::test]
async fn a_connection_that_closes_during_the_handshake_is_a_tls_failure() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/", listener.local_addr().unwrap());
    let mut server = JoinSet::new();
    server.spawn(async move {
        // Dropping the connection with unread bytes resets it.
        let (stream, _) = listener.accept().await.unwrap();
        stream.readable().await.unwrap();
    });
    let detail = detail(send(&sender(PATIENT), request(url)).await, FailureKind::Tls);
    assert_eq!(detail, "the connection was closed during the TLS handshake");
}
