//! Accepts connections on a thread of its own: those beyond the bounds are closed at once, however busy the threads of the requests are.
//! Otherwise a flood of them would fill the queue of the operating system, which then drops new connections of everyone.

use std::io::{self, ErrorKind, Write};
use std::net::{self, SocketAddr};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::{mpsc, watch};

use super::connections::{Connections, Place};

/// Accepting usually fails because there are no files left. If no connection of the API ends, an attempt may.
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(100);

const TOO_MANY: &str = "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\nretry-after: 1\r\n\
    connection: close\r\n\r\n\
    {\"type\":\"about:blank\",\"title\":\"Service Unavailable\",\"status\":503,\"detail\":\"Too many connections are open; close some or retry later.\"}";

/// A connection that has a place.
pub(super) struct Accepted {
    pub(super) stream: net::TcpStream,
    pub(super) place: Place,
}

/// Ends when it is stopped. The channel holds no more than there are places.
pub(super) fn start(
    listener: TcpListener,
    connections: Arc<Connections>,
    stop: watch::Receiver<bool>,
) -> io::Result<mpsc::UnboundedReceiver<Accepted>> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let listener = {
        let _entered = runtime.enter();
        TcpListener::from_std(listener.into_std()?)?
    };
    let (sender, accepted) = mpsc::unbounded_channel();
    let accept = move || runtime.block_on(accept_all(&listener, &connections, stop, &sender));
    thread::Builder::new().name("holdfast-accept".to_owned()).spawn(accept)?;
    Ok(accepted)
}

async fn accept_all(
    listener: &TcpListener,
    connections: &Arc<Connections>,
    mut stop: watch::Receiver<bool>,
    sender: &mpsc::UnboundedSender<Accepted>,
) {
    loop {
        let accepted = tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, address)) => {
                if let Some(accepted) = admit(connections, stream, address)
                    && sender.send(accepted).is_err()
                {
                    return;
                }
            }
            // The client was gone before.
            Err(error) if is_gone(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                let _ = tokio::time::timeout(ACCEPT_RETRY_INTERVAL, connections.one_ended()).await;
            }
        }
    }
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset)
}

/// `None`: there is no place, and it is closed. The answer is sent if that is possible without waiting.
fn admit(connections: &Arc<Connections>, stream: TcpStream, address: SocketAddr) -> Option<Accepted> {
    // The threads of the requests have a runtime of their own.
    let mut stream = stream.into_std().ok()?;
    let Some(place) = connections.admit(address.ip()) else {
        let _ = stream.write_all(TOO_MANY.as_bytes());
        return None;
    };
    // Sends answers without delay.
    let _ = stream.set_nodelay(true);
    Some(Accepted { stream, place })
}
