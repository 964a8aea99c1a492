//! Serves HTTP: so many connections at a time, and none that is only held.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};

/// Many times what a busy producer opens. Those beyond wait in the kernel until others end.
const MAX_CONNECTIONS: usize = 8_192;
/// For the head of a request to arrive, and so also how long an unused connection is kept. Load balancers use a connection
/// again for 60 s, and must not find it closed just then.
const MAX_HEAD: Duration = Duration::from_secs(65);
/// What is out of file descriptors now may have some in a moment.
const AFTER_TROUBLE: Duration = Duration::from_millis(100);

/// Runs until told to stop, then until the requests that are under way are answered.
pub(crate) async fn serve(listener: TcpListener, router: Router, mut stop: watch::Receiver<bool>) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let connections = GracefulShutdown::new();
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(MAX_HEAD);
    loop {
        let accepted = tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => break,
            accepted = accept(&listener, &places) => accepted,
        };
        let Some((stream, place)) = accepted else { continue };
        let service = TowerToHyperService::new(router.clone());
        let connection = connections.watch(http.serve_connection(TokioIo::new(stream), service));
        tokio::spawn(async move {
            // A client that breaks off is its own affair.
            let _ = connection.await;
            drop(place);
        });
    }
    drop(listener);
    connections.shutdown().await;
}

async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> Option<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let place = Arc::clone(places).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, _)) => {
            // An answer that is ready is sent at once.
            let _ = stream.set_nodelay(true);
            Some((stream, place))
        }
        Err(error) => {
            tracing::warn!(%error, "a connection could not be accepted");
            let _ = tokio::time::timeout(AFTER_TROUBLE, std::future::pending::<()>()).await;
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
    async fn what_is_under_way_is_answered_before_the_end() {
        let begun = Arc::new(tokio::sync::Notify::new());
        let go_on = Arc::new(tokio::sync::Notify::new());
        let (b, g) = (Arc::clone(&begun), Arc::clone(&go_on));
        let router = Router::new().route(
            "/",
            get(|| async move {
                b.notify_one();
                g.notified().await;
                "done"
            }),
        );
        let (address, stop, server) = start(router).await;
        let mut idle = TcpStream::connect(address).await.unwrap();
        let mut busy = TcpStream::connect(address).await.unwrap();
        busy.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        tokio::time::timeout(SOON, begun.notified()).await.unwrap();
        stop.send(true).unwrap();
        go_on.notify_one();
        let mut told = String::new();
        tokio::time::timeout(SOON, busy.read_to_string(&mut told)).await.unwrap().unwrap();
        assert!(told.starts_with("HTTP/1.1 200") && told.ends_with("done"), "{told}");
        tokio::time::timeout(SOON, server).await.unwrap().unwrap();
        assert_eq!(idle.read(&mut [0; 1]).await.unwrap(), 0, "an unused connection is closed");
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_that_does_not_end_is_given_up() {
        let (address, _stop, _server) = start(Router::new()).await;
        let mut slow = TcpStream::connect(address).await.unwrap();
        slow.write_all(b"GET / HTTP/1.1\r\nhost:").await.unwrap();
        let mut told = Vec::new();
        // The clock of the test moves on by itself while everybody waits.
        tokio::time::timeout(MAX_HEAD * 2, slow.read_to_end(&mut told)).await.unwrap().unwrap();
    }
}
