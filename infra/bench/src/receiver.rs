//! Receivers in this process: they count what arrives, and how long after it was posted.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bytes::{Buf, BytesMut};
use memchr::memmem;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::measure::now;

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
const FAILED: &[u8] = b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n";
const MAX_CONNECTIONS: u32 = 4_096;

/// The paths of the receiver, and how each responds.
pub(crate) const GOOD: &str = "/good";
/// Like [`GOOD`], and counted apart.
pub(crate) const OTHER: &str = "/other";
pub(crate) const HANGING: &str = "/hanging";
pub(crate) const FAILING: &str = "/failing";
/// Fails until it is repaired, and then takes 5 ms for each response.
pub(crate) const BROKEN: &str = "/broken";

const BROKEN_TAKES: Duration = Duration::from_millis(5);

#[derive(Default)]
pub(crate) struct Arrivals {
    pub(crate) good: AtomicU64,
    pub(crate) other: AtomicU64,
    pub(crate) repaired: AtomicU64,
    is_repaired: AtomicBool,
    /// From the post of what arrives at [`GOOD`], in milliseconds, as long as they are wanted.
    latencies: Mutex<Option<Vec<f64>>>,
}

pub(crate) struct Receiver {
    address: SocketAddr,
    pub(crate) arrivals: Arc<Arrivals>,
    /// Events carry the time since then.
    pub(crate) origin: Instant,
}

impl Receiver {
    pub(crate) async fn start() -> Result<Receiver> {
        let socket = tokio::net::TcpSocket::new_v4()?;
        socket.bind("127.0.0.1:0".parse()?)?;
        let listener = socket.listen(MAX_CONNECTIONS)?;
        let receiver = Receiver { address: listener.local_addr()?, arrivals: Arc::default(), origin: now() };
        tokio::spawn(accept(listener, Arc::clone(&receiver.arrivals), receiver.origin));
        Ok(receiver)
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

impl Arrivals {
    pub(crate) fn repair(&self) {
        self.is_repaired.store(true, Ordering::Relaxed);
    }

    /// From here on, latencies are kept.
    pub(crate) fn sample(&self) {
        *self.samples() = Some(Vec::new());
    }

    /// Those since [`Self::sample`].
    pub(crate) fn samples_so_far(&self) -> Vec<f64> {
        self.samples().take().unwrap_or_default()
    }

    fn samples(&self) -> std::sync::MutexGuard<'_, Option<Vec<f64>>> {
        self.latencies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn arrived(&self, body: &[u8], origin: Instant) {
        self.good.fetch_add(1, Ordering::Relaxed);
        if let Some(samples) = self.samples().as_mut()
            && let Some(posted) = posted_at(body)
        {
            samples.push((origin.elapsed().saturating_sub(posted)).as_secs_f64() * 1_000.0);
        }
    }
}

/// The time that the generator wrote into the event.
fn posted_at(body: &[u8]) -> Option<Duration> {
    let rest = &body[memmem::find(body, b"\"at\":")? + 5..];
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    Some(Duration::from_nanos(std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()?))
}

async fn accept(listener: TcpListener, arrivals: Arc<Arrivals>, origin: Instant) {
    while let Ok((stream, _)) = listener.accept().await {
        let _ = stream.set_nodelay(true);
        let arrivals = Arc::clone(&arrivals);
        // An error means that the sender closed the connection.
        tokio::spawn(async move {
            let _ = serve(stream, &arrivals, origin).await;
        });
    }
}

async fn serve(mut stream: TcpStream, arrivals: &Arrivals, origin: Instant) -> Result<()> {
    let mut buffer = BytesMut::with_capacity(16 << 10);
    loop {
        let (head, body) = match lengths(&buffer)? {
            Some(lengths) if buffer.len() >= lengths.0 + lengths.1 => lengths,
            _ if stream.read_buf(&mut buffer).await? == 0 => return Ok(()),
            _ => continue,
        };
        let is = |path: &str| buffer[b"POST ".len()..].starts_with(path.as_bytes());
        let answer = if is(GOOD) {
            arrivals.arrived(&buffer[head..head + body], origin);
            OK
        } else if is(OTHER) {
            arrivals.other.fetch_add(1, Ordering::Relaxed);
            OK
        } else if is(HANGING) {
            return futures_util::future::pending().await;
        } else if is(BROKEN) && arrivals.is_repaired.load(Ordering::Relaxed) {
            let never = futures_util::future::pending::<()>();
            let _ = tokio::time::timeout(BROKEN_TAKES, never).await;
            arrivals.repaired.fetch_add(1, Ordering::Relaxed);
            OK
        } else {
            FAILED
        };
        buffer.advance(head + body);
        stream.write_all(answer).await?;
    }
}

/// How long the head and the body of the first message are; `None` while its head is incomplete.
pub(crate) fn lengths(buffer: &[u8]) -> Result<Option<(usize, usize)>> {
    let Some(end) = memmem::find(buffer, b"\r\n\r\n") else { return Ok(None) };
    let head = std::str::from_utf8(&buffer[..end])?;
    let mut body = 0;
    for line in head.split("\r\n").skip(1) {
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            body = value.trim().parse().context("content-length is not a number")?;
        }
    }
    Ok(Some((end + 4, body)))
}
