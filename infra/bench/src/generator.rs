//! Posts events, by requests that are written by hand: a client of its own would take more of the cores than what is measured.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use bytes::{Buf, BytesMut};
use futures_util::future::try_join_all;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::MissedTickBehavior;

use crate::measure::now;
use crate::receiver::lengths;

/// Where and what is posted.
#[derive(Clone)]
pub(crate) struct Posts {
    /// `127.0.0.1:8080`
    pub(crate) address: String,
    pub(crate) key: String,
    pub(crate) event_type: &'static str,
    /// How many events are in one post.
    pub(crate) events: usize,
    /// How long the payload of each event is.
    pub(crate) payload_bytes: usize,
    /// Events carry the time since then.
    pub(crate) origin: Instant,
}

/// When to stop.
#[derive(Clone, Copy)]
pub(crate) enum Until {
    After(Duration),
    /// So many events were posted, over all connections.
    Events(u64),
}

impl Posts {
    fn event(&self) -> String {
        let Posts { event_type, payload_bytes, .. } = self;
        let at = self.origin.elapsed().as_nanos();
        let text = "x".repeat(payload_bytes.saturating_sub(40));
        format!(r#"{{"type":"{event_type}","data":{{"at":{at},"text":"{text}"}}}}"#)
    }

    fn request(&self) -> String {
        let event = self.event();
        let body = match self.events {
            1 => event,
            count => format!("[{}]", vec![event; count].join(",")),
        };
        let Posts { address, key, .. } = self;
        format!(
            "POST /v1/events HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {key}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        )
    }

    /// On so many connections, each as fast as it is answered. Returns how many events were accepted.
    pub(crate) async fn flood(&self, connections: usize, until: Until) -> Result<u64> {
        let (begun, accepted) = (AtomicU64::new(0), AtomicU64::new(0));
        let started = now();
        let post_all = || async {
            let mut connection = Connection::open(&self.address).await?;
            loop {
                let is_over = match until {
                    Until::After(time) => started.elapsed() >= time,
                    Until::Events(count) => begun.fetch_add(self.events as u64, Ordering::Relaxed) >= count,
                };
                if is_over {
                    return anyhow::Ok(());
                }
                connection.post(&self.request()).await?;
                accepted.fetch_add(self.events as u64, Ordering::Relaxed);
            }
        };
        try_join_all((0..connections).map(|_| post_all())).await?;
        Ok(accepted.into_inner())
    }

    /// So many posts a second on one connection. Returns how many events were accepted.
    pub(crate) async fn pace(&self, per_second: u32, time: Duration) -> Result<u64> {
        let mut connection = Connection::open(&self.address).await?;
        let mut ticks = tokio::time::interval(Duration::from_secs(1) / per_second);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (started, mut accepted) = (now(), 0);
        while started.elapsed() < time {
            ticks.tick().await;
            connection.post(&self.request()).await?;
            accepted += self.events as u64;
        }
        Ok(accepted)
    }
}

struct Connection {
    stream: TcpStream,
    buffer: BytesMut,
}

impl Connection {
    async fn open(address: &str) -> Result<Connection> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Connection { stream, buffer: BytesMut::with_capacity(4 << 10) })
    }

    /// Returns when it is accepted.
    async fn post(&mut self, request: &str) -> Result<()> {
        self.stream.write_all(request.as_bytes()).await?;
        loop {
            if let Some((head, body)) = lengths(&self.buffer)?
                && self.buffer.len() >= head + body
            {
                let text = String::from_utf8_lossy(&self.buffer[..head + body]);
                ensure!(text.starts_with("HTTP/1.1 202"), "a post was not accepted: {text}");
                self.buffer.advance(head + body);
                return Ok(());
            }
            ensure!(self.stream.read_buf(&mut self.buffer).await? > 0, "the connection was closed");
        }
    }
}
