use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::DEADLINE;

/// What the receiver does after its response.
#[derive(Clone, Copy)]
pub(crate) enum Then {
    /// Waits for the next request.
    KeepsOpen,
    Closes,
    /// Keeps the connection open and sends nothing more.
    Hangs,
    /// Sends filler until the sender drops the connection.
    Floods,
}

/// A server that responds to every request with the same bytes.
pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    connections: Arc<AtomicUsize>,
    requests: mpsc::UnboundedReceiver<Seen>,
    /// The bytes of each flood that were sent before the connection was dropped.
    floods: mpsc::UnboundedReceiver<usize>,
    /// One for each connection that the sender has closed.
    closed: mpsc::UnboundedReceiver<()>,
    // Stops the server with the test.
    _server: JoinSet<()>,
}

pub(crate) struct Seen {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Seen {
    /// The values of a header, whose name is given in lower case.
    pub(crate) fn header(&self, name: &str) -> Vec<&str> {
        let lines = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        lines.filter(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value).collect()
    }
}

impl Receiver {
    pub(crate) async fn start(response: impl Into<Vec<u8>>, then: Then) -> Receiver {
        Receiver::start_on(TcpListener::bind("127.0.0.1:0").await.unwrap(), response, then)
    }

    pub(crate) fn start_on(listener: TcpListener, response: impl Into<Vec<u8>>, then: Then) -> Receiver {
        let response: Arc<[u8]> = response.into().into();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let (seen, requests) = mpsc::unbounded_channel();
        let (cut_off, floods) = mpsc::unbounded_channel();
        let (closes, closed) = mpsc::unbounded_channel();
        let mut server = JoinSet::new();
        let count = Arc::clone(&connections);
        server.spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                let one = Connection {
                    stream,
                    response: response.clone(),
                    seen: seen.clone(),
                    cut_off: cut_off.clone(),
                    closes: closes.clone(),
                };
                open.spawn(one.serve(then));
            }
        });
        Receiver { address, connections, requests, floods, closed, _server: server }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/hook?token=hidden", self.address)
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub(crate) async fn next_request(&mut self) -> Seen {
        tokio::time::timeout(DEADLINE, self.requests.recv()).await.unwrap().unwrap()
    }

    /// Waits until the sender has closed a connection.
    pub(crate) async fn closed(&mut self) {
        tokio::time::timeout(DEADLINE, self.closed.recv()).await.unwrap().unwrap();
    }

    pub(crate) async fn flooded_bytes(&mut self) -> usize {
        tokio::time::timeout(DEADLINE, self.floods.recv()).await.unwrap().unwrap()
    }
}

struct Connection {
    stream: TcpStream,
    response: Arc<[u8]>,
    seen: mpsc::UnboundedSender<Seen>,
    cut_off: mpsc::UnboundedSender<usize>,
    closes: mpsc::UnboundedSender<()>,
}

impl Connection {
    async fn serve(mut self, then: Then) {
        while let Some(request) = read_request(&mut self.stream).await {
            // The test may have ended already.
            let _ = self.seen.send(request);
            if self.stream.write_all(&self.response).await.is_err() {
                return;
            }
            match then {
                Then::KeepsOpen => {}
                Then::Closes => return,
                Then::Hangs => std::future::pending().await,
                Then::Floods => return self.flood().await,
            }
        }
        let _ = self.closes.send(());
    }

    async fn flood(&mut self) {
        let mut sent = 0;
        while let Ok(bytes) = self.stream.write(&[b'x'; 8_192]).await {
            sent += bytes;
        }
        let _ = self.cut_off.send(sent);
    }
}

/// `None` when the other side has closed.
async fn read_request(stream: &mut TcpStream) -> Option<Seen> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let mut seen = Seen { head: String::from_utf8(head).unwrap(), body: Vec::new() };
    let length = seen.header("content-length").first().map_or(0, |text| text.parse().unwrap());
    seen.body = vec![0; length];
    stream.read_exact(&mut seen.body).await.ok()?;
    Some(seen)
}
