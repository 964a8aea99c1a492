//! Receivers that send without end before their response begins.

use std::time::Duration;

use futures_util::future::{join, join_all};
use holdfast_core::ports::{AttemptResponse, FailureKind};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::receiver::{Receiver, Then};
use crate::{DEADLINE, IMPATIENT, PATIENT, detail, request, send, sender};

const INFORMATIONAL: &[u8] = b"HTTP/1.1 103 Early Hints\r\nlink: </style.css>; rel=preload\r\n\r\n";

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

/// The client passes over informational responses without counting them, so what bounds a flood is the deadline of the attempt.
#[tokio::test]
async fn a_flood_of_informational_responses_ends_with_the_timeout() {
    for pause in [None, Some(Duration::from_millis(5))] {
        let mut flood = Flood::start(pause).await;
        let result = send(&sender(IMPATIENT), request(&flood.url)).await;
        assert_eq!(detail(result, FailureKind::Timeout), "no response within 200ms");
        // Nothing goes on reading after the attempt.
        flood.ended().await;
    }
}

#[tokio::test]
async fn floods_do_not_keep_other_attempts_from_being_made() {
    let mut flood = Flood::start(None).await;
    let healthy = Receiver::start("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", Then::KeepsOpen).await;
    let sender = sender(IMPATIENT);
    let floods = join_all((0..64).map(|_| send(&sender, request(&flood.url))));
    let others = async {
        for _ in 0..20 {
            let result = send(&self::sender(PATIENT), request(healthy.url())).await;
            assert!(matches!(result.response, AttemptResponse::Status { status: 200, .. }));
        }
    };
    let (floods, ()) = join(floods, others).await;
    for result in floods {
        assert_eq!(detail(result, FailureKind::Timeout), "no response within 200ms");
        flood.ended().await;
    }
}
