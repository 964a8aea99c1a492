//! Receivers that send without end before their response begins.

use std::io;
use std::time::Duration;

use futures_util::future::{join, join_all};
use holdfast_core::ports::{AttemptRequest, AttemptResponse, FailureKind};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinHandle, JoinSet};

use crate::receiver::{Receiver, Then};
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

#[tokio::test]
async fn floods_do_not_keep_other_attempts_from_being_made() {
    let flood = Flood::start(None).await;
    let healthy = Receiver::start("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", Then::KeepsOpen).await;
    let sender = sender(PATIENT);
    let floods = join_all((0..64).map(|_| send(&sender, request(&flood.url))));
    let others = async {
        for _ in 0..20 {
            let result = send(&sender, request(healthy.url())).await;
            assert!(matches!(result.response, AttemptResponse::Status { status: 200, .. }));
        }
    };
    join(floods, others).await;
}

/// Accepts one connection, sends `answer` at once, and reads nothing before it is told to. Returns how reading ends then.
async fn reads_late(
    answer: &'static [u8],
    told: oneshot::Receiver<()>,
) -> (String, JoinHandle<io::Result<u64>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let reading = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await?;
        stream.write_all(answer).await?;
        let _ = told.await;
        tokio::io::copy(&mut stream, &mut tokio::io::sink()).await
    });
    (url, reading)
}

#[tokio::test]
async fn a_connection_does_not_outlive_its_attempt_because_the_receiver_does_not_read() {
    let ok: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
    for (answer, timeout) in [(&b""[..], IMPATIENT), (ok, PATIENT)] {
        let (tell, told) = oneshot::channel();
        let (url, reading) = reads_late(answer, told).await;
        // More than the buffers of both sockets take.
        let body = vec![b'x'; 64 * 1024 * 1024];
        send(&sender(timeout), AttemptRequest { body: body.into(), ..request(&url) }).await;
        let _ = tell.send(());
        let ended =
            tokio::time::timeout(DEADLINE, reading).await.expect("the connection was not closed").unwrap();
        let read = ended.map_or(0, |bytes| bytes);
        assert!(read < 64 * 1024 * 1024, "the whole request was sent after its attempt");
    }
}
