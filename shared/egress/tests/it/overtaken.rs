//! Connections that are still being opened when their attempts got others.

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::future::join_all;
use holdfast_egress::{EgressConfig, HttpSender};
use tokio::io::Interest;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::{DEADLINE, config, request, send, sender_with, tls};

/// Longer than a test waits for anything, so that nothing ends because of it.
const LONGER: Duration = Duration::from_secs(120);
/// The connections that one tenant may go on opening.
const OVERTAKEN: usize = 4;

#[derive(Default)]
struct Seen {
    open: usize,
    served: usize,
    /// The peer of the last connection.
    last: Option<SocketAddr>,
}

/// Answers on its first connection. On all others the TLS handshake hangs until it is told to go on.
struct Hesitant {
    address: SocketAddr,
    certificate: Vec<u8>,
    go_on: watch::Sender<bool>,
    seen: watch::Receiver<Seen>,
    _server: JoinSet<()>,
}

impl Hesitant {
    async fn start() -> Hesitant {
        let (acceptor, certificate) = tls::acceptor_here();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (go_on, told) = watch::channel(false);
        let (count, seen) = watch::channel(Seen::default());
        let mut server = JoinSet::new();
        server.spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((stream, peer)) = listener.accept().await {
                let is_first = count.borrow().last.is_none();
                count.send_modify(|seen| {
                    seen.open += 1;
                    seen.last = Some(peer);
                });
                let (acceptor, count, mut told) = (acceptor.clone(), count.clone(), told.clone());
                open.spawn(async move {
                    if is_first || goes_on(&stream, &mut told).await {
                        count.send_modify(|seen| seen.served += 1);
                        tls::serve(acceptor, stream).await;
                    }
                    count.send_modify(|seen| seen.open -= 1);
                });
            }
        });
        Hesitant { address, certificate, go_on, seen, _server: server }
    }

    fn sender(&self, pool_max_idle: usize) -> HttpSender {
        let extra_roots = vec![self.certificate.clone()];
        sender_with(EgressConfig { extra_roots, pool_max_idle, pool_idle_timeout: LONGER, ..config(LONGER) })
    }

    /// One attempt that opens the first connection, then waves of eight that all want it.
    async fn attempt(&self, sender: &HttpSender, waves: usize) {
        let url = format!("https://{}/", self.address);
        assert!(send(sender, request(&url)).await.response.is_success());
        for _ in 0..waves {
            for result in join_all((0..8).map(|_| send(sender, request(&url)))).await {
                assert!(result.response.is_success(), "{result:?}");
            }
        }
    }

    async fn until(&mut self, what: &str, is_so: impl FnMut(&Seen) -> bool) {
        let seen = tokio::time::timeout(DEADLINE, self.seen.wait_for(is_so)).await;
        drop(seen.unwrap_or_else(|_| panic!("not so: {what}")).unwrap());
    }

    /// Connections are accepted in their order, so that all that were opened before are counted.
    async fn until_all_are_counted(&mut self) {
        let marker = TcpStream::connect(self.address).await.unwrap();
        marker.set_zero_linger().unwrap();
        let peer = marker.local_addr().unwrap();
        self.until("the last connection is accepted", |seen| seen.last == Some(peer)).await;
    }
}

/// `false`: the sender has closed the connection, which it does with a reset.
async fn goes_on(stream: &TcpStream, told: &mut watch::Receiver<bool>) -> bool {
    tokio::select! {
        told = told.wait_for(|told| *told) => told.is_ok(),
        _ = stream.ready(Interest::ERROR) => false,
    }
}

#[tokio::test]
async fn few_connections_are_opened_without_an_attempt_that_waits_for_them() {
    let mut receiver = Hesitant::start().await;
    let sender = receiver.sender(64);
    receiver.attempt(&sender, 8).await;
    receiver.until_all_are_counted().await;
    let most = 1 + OVERTAKEN;
    receiver.until("connections end with their attempts", |seen| seen.open <= most).await;
}

#[tokio::test]
async fn a_connection_that_no_attempt_used_counts_as_idle() {
    let mut receiver = Hesitant::start().await;
    let sender = receiver.sender(2);
    receiver.attempt(&sender, 1).await;
    receiver.until_all_are_counted().await;
    receiver.until("some connections go on", |seen| seen.open == 1 + OVERTAKEN).await;
    receiver.go_on.send_replace(true);
    receiver.until("all handshakes are made", |seen| seen.served == 1 + OVERTAKEN).await;
    receiver.until("only two connections are kept", |seen| seen.open <= 2).await;
}
