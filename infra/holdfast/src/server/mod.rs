//! Serves HTTP, with bounds on connections and deadlines for slow peers.

mod accept;
mod activity;
mod connections;
mod deadlines;
mod displace;
mod head;
mod holders;
#[cfg(test)]
mod tests;
mod turns;

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::header::CONNECTION;
use axum::http::{HeaderValue, StatusCode};
use holdfast_core::engine::yield_now;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};

use accept::Accepted;
use activity::{Activity, Phase};
pub(crate) use connections::{Bounds, CLOSING_PARTS, Connections};
pub(crate) use deadlines::Deadlines;
use deadlines::{TimedBody, TimedStream};
use turns::ConnectionTurns;

/// Several times what a client sends, and more than API Gateway takes. Bounds the memory that a peer without a key can use, because no more than
/// this is read ahead; the buffer for it has up to three times as much room.
const MAX_HEAD_BYTES: usize = 16 << 10;
/// How many connections may wait to be accepted. Beyond it, clients try again only after a second.
const BACKLOG: u32 = 4_096;

/// Listens on this address.
pub(crate) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // A restart must not wait for the connections of the process before.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Accepts connections from here on. The future answers their requests until it is stopped, then those that are in flight.
pub(crate) fn serve(
    listener: TcpListener,
    router: Router,
    connections: Arc<Connections>,
    deadlines: Deadlines,
    stop: watch::Receiver<bool>,
) -> io::Result<impl Future<Output = ()> + use<>> {
    // Not in the future: a server that cannot accept must not greet as if it could.
    let accepted = accept::start(listener, connections, stop)?;
    Ok(answer(accepted, router, deadlines))
}

async fn answer(mut accepted: mpsc::UnboundedReceiver<Accepted>, router: Router, deadlines: Deadlines) {
    let running = GracefulShutdown::new();
    let turns = ConnectionTurns::new(Handle::current().metrics().num_workers());
    let mut http = http1::Builder::new();
    // The stream times the head itself, because hyper's deadline for it includes the time between two requests.
    http.timer(TokioTimer::new()).header_read_timeout(deadlines.idle).max_header_size(MAX_HEAD_BYTES);
    http.max_buf_size(MAX_HEAD_BYTES);
    while let Some(Accepted { stream, place }) = accepted.recv().await {
        let Ok(stream) = TcpStream::from_std(stream) else { continue };
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
                // Each request has a turn of its own: a peer that sends many ahead would otherwise keep a thread busy for many of them.
                yield_now().await;
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
        let connection = turns.run(place.peer, &place.activity, connection);
        tokio::spawn(async move {
            run_until_displaced(connection, &place.activity).await;
            drop(place);
        });
    }
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
