//! Opens connections: to receivers, or through the operator's proxy.

use std::error::Error;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{HeaderValue, Uri};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_rustls::{DefaultServerNameResolver, HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use tokio::net::TcpStream;
use tower_service::Service;

use crate::busy::BusySteps;
use crate::idle::IdleConnections;
use crate::meter::Metered;
use crate::overtaken::Overtaken;
use crate::resolver::{self, GuardedResolver};

/// Finds dead connections that HTTP/1.1 keeps open, in seconds.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// How many TLS session tickets a receiver may send on a connection; two are usual. For each, a key is derived and the certificates are
/// copied, at once, and rustls has no limit of its own.
const MAX_TICKETS: u32 = 16;

#[derive(Debug, thiserror::Error)]
#[error("the receiver sent more than {MAX_TICKETS} session tickets")]
pub(crate) struct TooManyTickets;

pub(crate) type BoxError = Box<dyn Error + Send + Sync>;
type Connecting<T> = Pin<Box<dyn Future<Output = Result<T, BoxError>> + Send>>;

/// The proxy as the client uses it.
#[derive(Clone)]
pub(crate) struct ProxyRoute {
    pub(crate) uri: Uri,
    pub(crate) auth: Option<HeaderValue>,
}

#[derive(Clone)]
pub(crate) struct Connector {
    route: Route,
    /// Ends a connection that is still opened after its attempt has ended.
    timeout: Duration,
    busy: BusySteps,
    overtaken: Overtaken,
}

#[derive(Clone)]
enum Route {
    Direct {
        resolver: GuardedResolver,
        to_receiver: HttpsConnector<MeteredConnector>,
    },
    Proxy {
        uri: Uri,
        to_proxy: HttpsConnector<MeteredConnector>,
        tunnel: Box<HttpsConnector<Tunnel<HttpsConnector<MeteredConnector>>>>,
    },
}

impl Connector {
    pub(crate) fn new(
        resolver: GuardedResolver,
        tls: ClientConfig,
        proxy: Option<ProxyRoute>,
        timeout: Duration,
        idle: Arc<IdleConnections>,
        busy: BusySteps,
    ) -> Connector {
        let mut tcp = HttpConnector::new_with_resolver(resolver.clone());
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(KEEP_ALIVE_INTERVAL));
        // Divided between the addresses of a name, so that one dead address does not use up the deadline of the attempt.
        tcp.set_connect_timeout(Some(timeout));
        let metered = MeteredConnector { tcp, idle };
        let route = match proxy {
            None => Route::Direct { resolver, to_receiver: with_tls(metered, tls) },
            Some(proxy) => {
                // The tunnel is asked for in HTTP/1.1.
                let mut proxy_tls = tls.clone();
                proxy_tls.alpn_protocols.clear();
                let to_proxy = with_tls(metered, proxy_tls);
                let mut tunnel = Tunnel::new(proxy.uri.clone(), to_proxy.clone());
                if let Some(auth) = proxy.auth {
                    tunnel = tunnel.with_auth(auth);
                }
                Route::Proxy { uri: proxy.uri, to_proxy, tunnel: Box::new(with_tls(tunnel, tls)) }
            }
        };
        Connector { route, timeout, busy, overtaken: Overtaken::new() }
    }
}

fn with_tls<T>(connector: T, tls: ClientConfig) -> HttpsConnector<T> {
    HttpsConnector::new(connector, tls, false, Arc::new(DefaultServerNameResolver::default()))
}

impl Service<Uri> for Connector {
    type Response = Stream;
    type Error = BoxError;
    type Future = Connecting<Stream>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, receiver: Uri) -> Self::Future {
        let is_https = |uri: &Uri| uri.scheme_str() == Some("https");
        let has_tls = is_https(&receiver) || matches!(&self.route, Route::Proxy { uri, .. } if is_https(uri));
        let connecting: Connecting<Stream> = match &mut self.route {
            Route::Direct { resolver, to_receiver } => {
                let checked = resolver.check_reachable(receiver.host());
                let connecting = to_receiver.call(receiver);
                Box::pin(async {
                    checked?;
                    Ok(Stream::new(connecting.await?, false))
                })
            }
            Route::Proxy { tunnel, .. } if is_https(&receiver) => {
                let connecting = tunnel.call(receiver);
                Box::pin(async { Ok(Stream::new(connecting.await?, false)) })
            }
            Route::Proxy { uri, to_proxy, .. } => {
                let connecting = to_proxy.call(uri.clone());
                Box::pin(async { Ok(Stream::new(connecting.await?, true)) })
            }
        };
        let timeout = self.timeout;
        let tenant = resolver::current_tenant();
        // Without TLS there is nothing to verify, and nothing to wait for others with.
        let connecting: Connecting<Stream> =
            if has_tls { Box::pin(self.busy.in_turns(tenant.clone(), connecting)) } else { connecting };
        let connecting = self.overtaken.limit(tenant, connecting);
        Box::pin(async move {
            let connected = tokio::time::timeout(timeout, connecting).await;
            connected.unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut).into()))
        })
    }
}

/// Counts what is read from the first byte, before TLS.
#[derive(Clone)]
struct MeteredConnector {
    tcp: HttpConnector<GuardedResolver>,
    idle: Arc<IdleConnections>,
}

impl Service<Uri> for MeteredConnector {
    type Response = TokioIo<Metered<TcpStream>>;
    type Error = BoxError;
    type Future = Connecting<Self::Response>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.tcp.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let (connecting, idle) = (self.tcp.call(uri), Arc::clone(&self.idle));
        Box::pin(async { Ok(TokioIo::new(Metered::new(connecting.await?.into_inner(), idle))) })
    }
}

/// A connection on any of the routes.
pub(crate) struct Stream {
    io: Box<dyn Io>,
    /// The other side is a proxy, which is told the whole URL.
    is_proxied: bool,
}

trait Io: Read + Write + Connection + Send + Unpin {
    /// How many TLS session tickets the receiver has sent.
    fn tickets(&self) -> u32;
}

impl<T: Read + Write + Connection + Send + Unpin> Io for MaybeHttpsStream<T> {
    fn tickets(&self) -> u32 {
        match self {
            MaybeHttpsStream::Http(_) => 0,
            MaybeHttpsStream::Https(tls) => tls.inner().get_ref().1.tls13_tickets_received(),
        }
    }
}

impl Stream {
    fn new(io: impl Io + 'static, is_proxied: bool) -> Stream {
        Stream { io: Box::new(io), is_proxied }
    }
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        self.io.connected().proxy(self.is_proxied)
    }
}

impl Read for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut *self.io).poll_read(cx, buf);
        if self.io.tickets() > MAX_TICKETS {
            return Poll::Ready(Err(io::Error::other(TooManyTickets)));
        }
        read
    }
}

impl Write for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.io).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.io).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.io).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}
