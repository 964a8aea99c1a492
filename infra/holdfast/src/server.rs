//! Serves HTTP, with a limit on connections and a timeout for idle ones.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};

/// Many times what a busy producer opens. Further connections wait in the kernel.
const MAX_CONNECTIONS: usize = 8_192;
/// For the head of a request to arrive, and so also for idle connections. Load balancers reuse a connection for 60 s, and it must
/// not be closed before.
const HEAD_TIMEOUT: Duration = Duration::from_secs(65);
/// Accepting usually fails because there are no file descriptors left; there may be some soon.
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// Runs until it is stopped, then until all requests in flight are answered.
pub(crate) async fn serve(listener: TcpListener, router: Router, mut stop: watch::Receiver<bool>) {
    let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let connections = GracefulShutdown::new();
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
    loop {
        let accepted = tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => break,
            accepted = accept(&listener, &permits) => accepted,
        };
        let Some((stream, permit)) = accepted else { continue };
        let service = TowerToHyperService::new(router.clone());
        let connection = connections.watch(http.serve_connection(TokioIo::new(stream), service));
        tokio::spawn(async move {
            // An error means that the client disconnected.
            let _ = connection.await;
            drop(permit);
        });
    }
    drop(listener);
    connections.shutdown().await;
}

async fn accept(
    listener: &TcpListener,
    permits: &Arc<Semaphore>,
) -> Option<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let permit = Arc::clone(permits).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, _)) => {
            // Sends answers without delay.
            let _ = stream.set_nodelay(true);
            Some((stream, permit))
        }
        Err(error) => {
            tracing::warn!(%error, "a connection could not be accepted");
            let _ = tokio::time::timeout(ACCEPT_RETRY_INTERVAL, std::future::pending::<()>()).await;
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    const SOON: Duration = Duration::from_secs(30);

    async fn start(
        router: Router,
    ) -> (std::net::SocketAddr, watch::Sender<bool>, tokio::task::JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = watch::channel(false);
        (address, stop, tokio::spawn(serve(listener, router, stopped)))
    }

    #[tokio::test]
    async fn requests_in_flight_are_answered_before_it_stops() {
        let started = Arc::new(tokio::sync::Notify::new());
        let finish = Arc::new(tokio::sync::Notify::new());
        let (s, f) = (Arc::clone(&started), Arc::clone(&finish));
        let router = Router::new().route(
            "/",
            get(|| async move {
                s.notify_one();
                f.notified().await;
                "done"
            }),
        );
        let (address, stop, server) = start(router).await;
        let mut idle = TcpStream::connect(address).await.unwrap();
        let mut busy = TcpStream::connect(address).await.unwrap();
        busy.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        tokio::time::timeout(SOON, started.notified()).await.unwrap();
        stop.send(true).unwrap();
        finish.notify_one();
        let mut answer = String::new();
        tokio::time::timeout(SOON, busy.read_to_string(&mut answer)).await.unwrap().unwrap();
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("done"), "{answer}");
        tokio::time::timeout(SOON, server).await.unwrap().unwrap();
        assert_eq!(idle.read(&mut [0; 1]).await.unwrap(), 0, "an unused connection is closed");
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_that_does_not_end_times_out() {
        let (address, _stop, _server) = start(Router::new()).await;
        let mut slow = TcpStream::connect(address).await.unwrap();
        slow.write_all(b"GET / HTTP/1.1\r\nhost:").await.unwrap();
        let mut answer = Vec::new();
        // The paused clock of the test advances while all tasks wait.
        tokio::time::timeout(HEAD_TIMEOUT * 2, slow.read_to_end(&mut answer)).await.unwrap().unwrap();
    }
}
