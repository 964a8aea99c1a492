//! Serves HTTP, with bounds on connections and deadlines for slow peers.

mod activity;
mod connections;
mod deadlines;
mod displace;
mod head;
#[cfg(test)]
mod tests;

use std::io::{self, ErrorKind, Write};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::header::CONNECTION;
use axum::http::{HeaderValue, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;

use activity::{Activity, Phase};
pub(crate) use connections::{Bounds, CLOSING_PARTS, Connections};
pub(crate) use deadlines::Deadlines;
use deadlines::{TimedBody, TimedStream};

/// Many times what a client sends. Bounds the memory that a peer without a key can use, because no more than this is read ahead.
const MAX_HEAD_BYTES: usize = 64 << 10;
/// How many connections may wait to be accepted. Beyond it, clients try again only after a second.
const BACKLOG: u32 = 4_096;
/// Accepting usually fails because there are no files left. If no connection of the API ends, an attempt may.
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(100);

const TOO_MANY: &str = "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\nretry-after: 1\r\n\
    connection: close\r\n\r\n\
    {\"type\":\"about:blank\",\"title\":\"Service Unavailable\",\"status\":503,\"detail\":\"Too many connections are open; close some or retry later.\"}";

/// Listens on this address.
pub(crate) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // A restart must not wait for the connections of the process before.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Runs until it is stopped, then until all requests in flight are answered.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    connections: Arc<Connections>,
    deadlines: Deadlines,
    mut stop: watch::Receiver<bool>,
) {
    let running = GracefulShutdown::new();
    let mut http = http1::Builder::new();
    // The stream times the head itself, because hyper's deadline for it includes the time between two requests.
    http.timer(TokioTimer::new()).header_read_timeout(deadlines.idle).max_header_size(MAX_HEAD_BYTES);
    http.max_buf_size(MAX_HEAD_BYTES);
    loop {
        let accepted = tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => break,
            accepted = accept(&listener, &connections) => accepted,
        };
        let Some((stream, address)) = accepted else { continue };
        let Some(place) = connections.admit(address.ip()) else {
            refuse(stream);
            continue;
        };
        // Sends answers without delay.
        let _ = stream.set_nodelay(true);
        let activity = Arc::clone(&place.activity);
        let stream = TimedStream::new(stream, deadlines, Arc::clone(&activity));
        let router = TowerToHyperService::new(router.clone());
        let service = service_fn(move |mut request: Request<Incoming>| {
            activity.head_complete();
            request.extensions_mut().insert(activity.key_use());
            let timed = |body| TimedBody::new(body, deadlines.body, Arc::clone(&activity));
            let answered = router.call(request.map(timed));
            let activity = Arc::clone(&activity);
            async move {
                // A peer that sends many requests ahead would otherwise keep a thread busy for many of them at a time.
                tokio::task::yield_now().await;
                let mut response = answered.await;
                activity.request_answered();
                if let Ok(response) = &mut response
                    && activity.is_last_request(response.status() == StatusCode::UNAUTHORIZED)
                {
                    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                }
                response
            }
        });
        let connection = running.watch(http.serve_connection(TokioIo::new(stream), service));
        tokio::spawn(async move {
            run_until_displaced(connection, &place.activity).await;
            drop(place);
        });
    }
    drop(listener);
    running.shutdown().await;
}

/// An error of the connection means that the client disconnected, or was too slow.
async fn run_until_displaced<T>(connection: impl Future<Output = T>, activity: &Activity) {
    let mut connection = pin!(connection);
    tokio::select! {
        _ = connection.as_mut() => {}
        // A request that arrived in the meantime is answered, and closes the connection. One whose body is incomplete is not.
        () = activity.displaced() => if activity.is(Phase::Busy) {
            connection.await;
        }
    }
}

async fn accept(listener: &TcpListener, connections: &Connections) -> Option<(TcpStream, SocketAddr)> {
    match listener.accept().await {
        Ok(accepted) => Some(accepted),
        // The client was gone before.
        Err(error) if matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset) => {
            None
        }
        Err(error) => {
            tracing::warn!(%error, "a connection could not be accepted");
            let _ = tokio::time::timeout(ACCEPT_RETRY_INTERVAL, connections.one_ended()).await;
            None
        }
    }
}

/// Closes the connection at once, so that those behind it do not wait. The answer is sent if that is possible without waiting.
fn refuse(stream: TcpStream) {
    let _ = stream.into_std().and_then(|mut stream| stream.write_all(TOO_MANY.as_bytes()));
}
