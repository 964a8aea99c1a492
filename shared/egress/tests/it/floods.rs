//! Receivers that send without end before their response begins.

use std::time::Duration;

use holdfast_core::ports::FailureKind;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::{DEADLINE, IMPATIENT, PATIENT, detail, request, send, sender};

const INFORMATIONAL: &[u8] = b"HTTP/1.1 103 Early Hints\r\nlink: </style.css>; rel=preload\r\n\r\n";
/// What the sockets' buffers take on this machine, at most, though it is not read.
const MAX_BUFFERED_BYTES: usize = 8 * 1024 * 1024;

/// Sends informational responses, `pause` apart, until the connection ends.
struct Flood {
    url: String,
    /// How many bytes were sent on a connection before it ended.
    ended: mpsc::UnboundedReceiver<usize>,
    _server: JoinSet<()>,
}

impl Flood {
    async fn start(pause: Option<Duration>) -> Flood {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook?token=hidden", listener.local_addr().unwrap());
        let (ends, ended) = mpsc::unbounded_channel();
        let mut server = JoinSet::new();
        server.spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                let ends = ends.clone();
                open.spawn(async move {
                    let mut request = [0; 1024];
                    let _ = stream.read(&mut request).await;
                    let burst =
                        if pause.is_some() { INFORMATIONAL.to_vec() } else { INFORMATIONAL.repeat(256) };
                    let mut ticks = pause.map(tokio::time::interval);
                    let mut sent = 0;
                    while let Ok(bytes) = stream.write(&burst).await {
                        sent += bytes;
                        if let Some(ticks) = &mut ticks {
                            ticks.tick().await;
                        }
                    }
                    let _ = ends.send(sent);
                });
            }
        });
        Flood { url, ended, _server: server }
    }

    /// The bytes that were sent on the connection that ended next.
    async fn ended(&mut self) -> usize {
        tokio::time::timeout(DEADLINE, self.ended.recv())
            .await
            .expect("the connection was not closed")
            .unwrap()
    }
}

#[tokio::test]
async fn endless_informational_responses_are_cut_off_by_their_bytes() {
    let mut flood = Flood::start(None).await;
    let sender = sender(PATIENT);
    for _ in 0..3 {
        let result = send(&sender, request(&flood.url)).await;
        assert!(result.took < PATIENT / 2, "took {:?}", result.took);
        assert_eq!(detail(result, FailureKind::Body), "the receiver sent more than 256 KiB");
        let sent = flood.ended().await;
        assert!(sent < MAX_BUFFERED_BYTES, "{sent} bytes were sent");
    }
}

#[tokio::test]
async fn slow_informational_responses_end_with_the_timeout() {
    let mut flood = Flood::start(Some(Duration::from_millis(5))).await;
    let result = send(&sender(IMPATIENT), request(&flood.url)).await;
    assert!(result.took < IMPATIENT + Duration::from_secs(5), "took {:?}", result.took);
    assert_eq!(detail(result, FailureKind::Timeout), "no response within 200ms");
    // Nothing goes on reading after the attempt.
    flood.ended().await;
}

#[tokio::test]
async fn concurrent_floods_are_cut_off_each() {
    let mut flood = Flood::start(None).await;
    let sender = sender(PATIENT);
    let attempts = (0..64).map(|_| send(&sender, request(&flood.url)));
    for result in futures_util::future::join_all(attempts).await {
        assert_eq!(detail(result, FailureKind::Body), "the receiver sent more than 256 KiB");
    }
    for _ in 0..64 {
        flood.ended().await;
    }
}
