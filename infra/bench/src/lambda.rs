//! As much of Lambda and AWS as a function needs to start and to answer its first event.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result};
use bytes::{Buf, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::measure::now;
use crate::receiver::lengths;

const NEXT: &str = "GET /2018-06-01/runtime/invocation/next";
const INVOCATION: &str = "POST /2018-06-01/runtime/invocation/";

/// What a function did, and when.
#[derive(Debug)]
pub(crate) enum Did {
    AskedForAnEvent(Instant),
    Answered(Instant),
}

/// The Runtime API and the services of AWS, at one address. The store is empty.
pub(crate) struct Lambda {
    pub(crate) address: SocketAddr,
    pub(crate) did: mpsc::UnboundedReceiver<Did>,
}

impl Lambda {
    /// Every function gets this event once.
    pub(crate) async fn start(event: &str) -> Result<Lambda> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (report, did) = mpsc::unbounded_channel();
        let event: Arc<str> = event.into();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (report, event) = (report.clone(), Arc::clone(&event));
                // An error means that the function has ended.
                tokio::spawn(async move {
                    let _ = serve(stream, &report, &event).await;
                });
            }
        });
        Ok(Lambda { address, did })
    }

    /// When it first asked for an event, and when it had answered that.
    pub(crate) async fn first_event(&mut self) -> Result<(Instant, Instant)> {
        let mut asked = None;
        loop {
            match self.did.recv().await.context("the server has ended")? {
                Did::AskedForAnEvent(at) => asked = asked.or(Some(at)),
                Did::Answered(at) => return Ok((asked.context("it answered before it asked")?, at)),
            }
        }
    }
}

async fn serve(mut stream: TcpStream, report: &mpsc::UnboundedSender<Did>, event: &str) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = BytesMut::with_capacity(16 << 10);
    let mut is_given = false;
    loop {
        let (head, body) = match lengths(&buffer)? {
            Some(lengths) if buffer.len() >= lengths.0 + lengths.1 => lengths,
            _ if stream.read_buf(&mut buffer).await? == 0 => return Ok(()),
            _ => continue,
        };
        let text = std::str::from_utf8(&buffer[..head])?.to_owned();
        buffer.advance(head + body);
        if text.starts_with(NEXT) {
            let _ = report.send(Did::AskedForAnEvent(now()));
            if is_given {
                // There is no other event. Lambda keeps the request open.
                return futures_util::future::pending().await;
            }
            is_given = true;
            stream.write_all(invocation(event).as_bytes()).await?;
        } else if text.starts_with(INVOCATION) {
            let _ = report.send(Did::Answered(now()));
            stream.write_all(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n").await?;
        } else {
            let answer = service_answer(&text);
            let (kind, length) = ("application/x-amz-json-1.0", answer.len());
            let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n");
            stream.write_all((head + answer).as_bytes()).await?;
        }
    }
}

fn invocation(event: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nlambda-runtime-aws-request-id: 1\r\n\
         lambda-runtime-deadline-ms: 4102444800000\r\n\
         lambda-runtime-invoked-function-arn: arn:aws:lambda:us-east-1:000000000000:function:bench\r\n\
         content-length: {}\r\n\r\n{event}",
        event.len()
    )
}

/// What a service of AWS answers that has nothing stored.
fn service_answer(head: &str) -> &'static str {
    let target = head.lines().find_map(|line| line.strip_prefix("x-amz-target: ")).unwrap_or_default();
    match target.rsplit('.').next().unwrap_or_default() {
        "GetSecretValue" => {
            r#"{"ARN":"arn","Name":"operator","SecretString":"0123456789abcdef0123456789abcdef0123456789abcdef"}"#
        }
        "BatchGetItem" => r#"{"Responses":{},"UnprocessedKeys":{}}"#,
        "Query" => r#"{"Items":[],"Count":0,"ScannedCount":0}"#,
        "BatchWriteItem" => r#"{"UnprocessedItems":{}}"#,
        "SendMessageBatch" | "DeleteMessageBatch" => r#"{"Successful":[],"Failed":[]}"#,
        _ => "{}",
    }
}
