//! Serves HTTP, with bounds on connections and deadlines for slow peers.

mod connections;
mod deadlines;
mod head;
#[cfg(test)]
mod tests;

use std::io::{ErrorKind, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

pub(crate) use connections::{Bounds, Connections};
pub(crate) use deadlines::Deadlines;
use deadlines::{Phase, TimedBody, TimedStream};

/// Many times what a client sends. Bounds the memory that a peer without a key can use.
const MAX_HEAD_BYTES: usize = 64 << 10;
/// Accepting usually fails because there are no files left. If no connection of the API ends, an attempt may.
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(100);

const TOO_MANY: &str = "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\nretry-after: 1\r\n\
    connection: close\r\n\r\n\
    {\"type\":\"about:blank\",\"title\":\"Service Unavailable\",\"status\":503,\"detail\":\"Too many connections are open; close some or retry later.\"}";

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
        let phase = Phase::new();
        let stream = TimedStream::new(stream, deadlines, phase.clone());
        let router = TowerToHyperService::new(router.clone());
        let service = service_fn(move |request: Request<Incoming>| {
            phase.head_complete();
            let answered = router.call(request.map(|body| TimedBody::new(body, deadlines.body)));
            let phase = phase.clone();
            async move {
                // A peer that sends many requests ahead would otherwise keep a thread busy for many of them at a time.
                tokio::task::yield_now().await;
                let response = answered.await;
                phase.request_answered();
                response
            }
        });
        let connection = running.watch(http.serve_connection(TokioIo::new(stream), service));
        tokio::spawn(async move {
            // An error means that the client disconnected, or was too slow.
            let _ = connection.await;
            drop(place);
        });
    }
    drop(listener);
    running.shutdown().await;
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
