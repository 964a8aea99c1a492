//! Drops peers that are too slow: with the head of a request, with its body, or in reading the response.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::BoxError;
use axum::body::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};

use super::activity::{Activity, Phase};
use super::head::HeadScanner;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadlines {
    /// From the first byte of a head to its last.
    pub(crate) head: Duration,
    /// Between two requests.
    pub(crate) idle: Duration,
    /// The same, and before the first request, while no request of the connection had a valid key.
    pub(crate) stranger_idle: Duration,
    /// For a whole body.
    pub(crate) body: Duration,
    /// While the peer takes nothing of the response.
    pub(crate) write: Duration,
}

impl Deadlines {
    pub(crate) const DEFAULT: Deadlines = Deadlines {
        head: Duration::from_secs(10),
        // Load balancers and proxies reuse a connection for 60 s. If it is closed before, the request that they send at that moment
        // fails.
        idle: Duration::from_secs(65),
        // Longer than the senders of attempts keep theirs, which reach the built-in receivers without a key.
        stranger_idle: Duration::from_secs(5),
        body: Duration::from_secs(30),
        write: Duration::from_secs(10),
    };
}

/// The stream of one connection, which fails when the peer is too slow.
pub(super) struct TimedStream {
    stream: TcpStream,
    deadlines: Deadlines,
    activity: Arc<Activity>,
    head: HeadScanner,
    head_timer: Timer,
    idle_timer: Timer,
    write_timer: Timer,
}

impl TimedStream {
    pub(super) fn new(stream: TcpStream, deadlines: Deadlines, activity: Arc<Activity>) -> TimedStream {
        let [head_timer, idle_timer, write_timer] = Default::default();
        let head = HeadScanner::default();
        TimedStream { stream, deadlines, activity, head, head_timer, idle_timer, write_timer }
    }

    fn poll_written<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.write_timer.stop();
            return written;
        }
        ready!(self.write_timer.poll(cx, self.deadlines.write));
        Poll::Ready(Err(too_slow("the peer does not read the response")))
    }
}

impl AsyncRead for TimedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(cx, buffer);
        if !this.activity.is(Phase::Head) {
            this.head_timer.stop();
        }
        if read.is_ready() {
            this.idle_timer.stop();
            let new = &mut buffer.filled_mut()[before..];
            if this.activity.is(Phase::Idle) && !new.is_empty() {
                this.activity.head_begins();
                this.head = HeadScanner::default();
            }
            if this.activity.is(Phase::Head) {
                this.head.reject_bare_line_feeds(new);
            }
            return read;
        }
        if this.activity.is(Phase::Head) {
            ready!(this.head_timer.poll(cx, this.deadlines.head));
            return Poll::Ready(Err(too_slow("the head of the request does not arrive")));
        }
        if this.activity.is(Phase::Idle) && this.activity.holder().is_none() {
            ready!(this.idle_timer.poll(cx, this.deadlines.stranger_idle));
            return Poll::Ready(Err(too_slow("no request arrives")));
        }
        Poll::Pending
    }
}

impl AsyncWrite for TimedStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, data);
        self.poll_written(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, data);
        self.poll_written(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// The body of a request, which fails when it does not arrive in time.
pub(super) struct TimedBody {
    body: Incoming,
    within: Duration,
    timer: Timer,
    activity: Arc<Activity>,
    is_awaited: bool,
}

impl TimedBody {
    pub(super) fn new(body: Incoming, within: Duration, activity: Arc<Activity>) -> TimedBody {
        TimedBody { body, within, timer: Timer::default(), activity, is_awaited: false }
    }
}

impl Drop for TimedBody {
    fn drop(&mut self) {
        self.activity.body_ended();
    }
}

impl Body for TimedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(cx) {
            if this.body.is_end_stream() || !matches!(frame, Some(Ok(_))) {
                this.activity.body_ended();
            }
            // The timer runs on: it is for the whole body.
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        this.activity.body_awaited(!this.is_awaited);
        this.is_awaited = true;
        ready!(this.timer.poll(cx, this.within));
        Poll::Ready(Some(Err(too_slow("the body of the request does not arrive").into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Starts when it is first polled. Most requests arrive at once and never need it.
#[derive(Default)]
struct Timer {
    sleep: Option<Pin<Box<Sleep>>>,
    is_running: bool,
}

impl Timer {
    #[expect(
        clippy::disallowed_methods,
        reason = "a deadline of a peer, which ends earlier if the peer acts"
    )]
    fn poll(&mut self, cx: &mut Context<'_>, after: Duration) -> Poll<()> {
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep(after)));
        if !self.is_running {
            sleep.as_mut().reset(Instant::now() + after);
            self.is_running = true;
        }
        sleep.as_mut().poll(cx)
    }

    fn stop(&mut self) {
        self.is_running = false;
    }
}

fn too_slow(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, what)
}
