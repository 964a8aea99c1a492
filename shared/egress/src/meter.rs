//! Counts what a receiver sends, from the first byte of a connection, and ends a connection whose attempt was given up.
//!
//! The limit on a response's body is not enough: informational (1xx) responses, heads and TLS records come before it, and the HTTP
//! client reads them on a task of its own, without end. So the bytes of the connection itself are counted. That task also writes a
//! request to its end before it closes the connection, however slowly the receiver reads it. So an attempt that ends early ends the
//! connection itself.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use holdfast_core::ids::Tenant;
use http::Extensions;
use hyper_util::client::legacy::connect::{Connected, Connection};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::task::coop;
use tokio::time::Sleep;

use crate::idle::{IdleConnections, KeptConnection};
use crate::resolver;
use crate::tasks::{self, Reading};

/// How many bytes an attempt reads in all: TLS handshake, heads, informational responses and body. More ends the connection.
pub const MAX_ATTEMPT_BYTES: usize = 256 * 1024;
/// How many bytes are read from a connection while no attempt uses it. A receiver has little to say then: TLS messages, or that it closes.
const MAX_IDLE_BYTES: usize = 4 * 1024;
/// Reading this much uses up one of the 128 steps that tokio allows a task before others have their turn, so that a task reads 16 KiB at a
/// time. Without that it would be 128 reads, and a receiver chooses what its bytes cost, such as TLS session tickets.
const BYTES_PER_STEP: usize = 128;

/// More than this is what almost no receiver sends.
const MAX_LITTLE_BYTES: usize = 8 * 1024;

#[derive(Debug, thiserror::Error)]
#[error("the receiver sent more than {} KiB", MAX_ATTEMPT_BYTES / 1024)]
pub(crate) struct TooManyBytes;

/// How much may still be read from a connection. Each attempt on it adds [`MAX_ATTEMPT_BYTES`], and what an attempt leaves unused
/// is not saved up.
#[derive(Debug)]
pub(crate) struct Meter {
    allowance: Mutex<Allowance>,
    idle: Arc<IdleConnections>,
}

#[derive(Debug)]
struct Allowance {
    bytes_left: usize,
    attempts: usize,
    /// How many bytes were read since an attempt began.
    read: usize,
    /// Whose attempt began last.
    tenant: Option<Tenant>,
    /// The receiver does not read what was sent.
    is_blocked: bool,
    is_given_up: bool,
    /// Its number among the idle connections, while no attempt uses it.
    idle_number: Option<u64>,
    /// Too many connections are idle, and this one is to be closed.
    is_unwanted: bool,
    /// The task of the connection.
    task: Option<Waker>,
}

impl Meter {
    fn new(idle: Arc<IdleConnections>) -> Arc<Meter> {
        let allowance = Allowance {
            bytes_left: MAX_ATTEMPT_BYTES,
            attempts: 0,
            read: 0,
            tenant: None,
            is_blocked: false,
            is_given_up: false,
            idle_number: None,
            is_unwanted: false,
            task: None,
        };
        Arc::new(Meter { allowance: Mutex::new(allowance), idle })
    }

    /// The meter of the connection that a request was given, where there is one.
    pub(crate) fn of(connected: &Connected) -> Option<Arc<Meter>> {
        let mut extras = Extensions::new();
        connected.get_extras(&mut extras);
        extras.remove()
    }

    /// Counts an attempt on this connection until the value is dropped.
    pub(crate) fn start_attempt(self: Arc<Meter>) -> MeteredAttempt {
        let mut allowance = self.lock();
        self.use_again(&mut allowance);
        allowance.attempts += 1;
        allowance.read = 0;
        allowance.tenant = resolver::current_tenant();
        let max_bytes = MAX_ATTEMPT_BYTES * allowance.attempts;
        allowance.bytes_left = (allowance.bytes_left + MAX_ATTEMPT_BYTES).min(max_bytes);
        drop(allowance);
        MeteredAttempt { meter: self, is_complete: false }
    }

    /// An error if the connection is to end.
    fn check(&self, cx: &Context<'_>) -> io::Result<()> {
        let mut allowance = self.lock();
        if allowance.is_given_up {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        match &mut allowance.task {
            Some(task) => task.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Ok(())
    }

    fn is_idle(&self) -> bool {
        self.lock().idle_number.is_some()
    }

    fn wrote<T>(&self, result: &Poll<io::Result<T>>) {
        let mut allowance = self.lock();
        allowance.is_blocked = result.is_pending();
        // A request may be written before its attempt is counted here, and must not be broken off.
        self.use_again(&mut allowance);
    }

    /// Counts it as idle although no attempt has used it yet.
    pub(crate) fn keep_unused(self: &Arc<Meter>) {
        let unwanted = self.keep(&mut self.lock());
        close(unwanted);
    }

    /// Returns which one is to be closed for it, when this one is not locked any more.
    fn keep(self: &Arc<Meter>, allowance: &mut Allowance) -> Option<KeptConnection> {
        let (number, oldest) = self.idle.keep(Arc::downgrade(self));
        allowance.idle_number = Some(number);
        allowance.bytes_left = MAX_IDLE_BYTES;
        oldest
    }

    fn use_again(&self, allowance: &mut Allowance) {
        allowance.is_unwanted = false;
        if let Some(number) = allowance.idle_number.take() {
            self.idle.release(number);
            // The first bytes for an attempt may come before it is counted.
            allowance.bytes_left = MAX_ATTEMPT_BYTES;
        }
    }

    /// Closes it, unless it was used since it got this number.
    fn close_idle(&self, number: u64) {
        let mut allowance = self.lock();
        if allowance.idle_number == Some(number) {
            allowance.idle_number = None;
            allowance.is_unwanted = true;
            allowance.wake();
        }
    }

    fn spend(&self, bytes: usize) -> Result<(), TooManyBytes> {
        let mut allowance = self.lock();
        allowance.bytes_left = allowance.bytes_left.checked_sub(bytes).ok_or(TooManyBytes)?;
        allowance.read += bytes;
        let is_much = allowance.attempts > 0 && allowance.read > MAX_LITTLE_BYTES;
        tasks::report(if is_much { Reading::Much(allowance.tenant.clone()) } else { Reading::Little });
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Allowance> {
        self.allowance.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Allowance {
    fn wake(&mut self) {
        if let Some(task) = self.task.take() {
            task.wake();
        }
    }
}

#[derive(Debug)]
pub(crate) struct MeteredAttempt {
    meter: Arc<Meter>,
    is_complete: bool,
}

impl MeteredAttempt {
    /// The response was read to its end, so that the connection can be used again.
    pub(crate) fn complete(mut self) {
        self.is_complete = true;
    }
}

impl Drop for MeteredAttempt {
    fn drop(&mut self) {
        let mut allowance = self.meter.lock();
        allowance.attempts -= 1;
        let mut unwanted = None;
        allowance.bytes_left = allowance.bytes_left.min(MAX_ATTEMPT_BYTES * allowance.attempts);
        if allowance.attempts == 0 && (!self.is_complete || allowance.is_blocked) {
            allowance.is_given_up = true;
            allowance.wake();
        } else if allowance.attempts == 0 {
            unwanted = self.meter.keep(&mut allowance);
        }
        drop(allowance);
        close(unwanted);
    }
}

/// Two connections are never locked at the same time.
fn close(unwanted: Option<KeptConnection>) {
    if let Some(KeptConnection { number, meter }) = unwanted
        && let Some(meter) = meter.upgrade()
    {
        meter.close_idle(number);
    }
}

/// How long a receiver that ends a connection has to close it.
const CLOSED_BY_RECEIVER_WITHIN: Duration = Duration::from_secs(1);

/// How a connection ends.
///
/// The side that closes a connection first keeps its port for a minute, and a receiver can always leave that to us: with tens of thousands of
/// ports taken, opening one takes milliseconds, and then fails. So unless a connection was idle, the receiver is waited for, and then it is
/// closed in a way that keeps no port.
pub(crate) trait Closing {
    /// Closes without sending what is left to send, and without keeping the port.
    fn at_once(&self);
    /// Closes as TCP does.
    fn in_order(&self);
}

impl Closing for TcpStream {
    // These fail only for a socket that is closed already.
    fn at_once(&self) {
        let _ = self.set_zero_linger();
    }
    fn in_order(&self) {
        let _ = SockRef::from(self).set_linger(None);
    }
}

/// A connection whose reads are counted.
pub(crate) struct Metered<T> {
    io: T,
    meter: Arc<Meter>,
    closes_in_order: bool,
    /// Set while the receiver is waited for.
    until_closed: Option<Pin<Box<Sleep>>>,
}

impl<T: Closing> Metered<T> {
    pub(crate) fn new(io: T, idle: Arc<IdleConnections>) -> Metered<T> {
        io.at_once();
        Metered { io, meter: Meter::new(idle), closes_in_order: false, until_closed: None }
    }
}

impl<T> Drop for Metered<T> {
    fn drop(&mut self) {
        self.meter.use_again(&mut self.meter.lock());
    }
}

impl<T: Closing> Metered<T> {
    fn check(&mut self, cx: &Context<'_>) -> io::Result<()> {
        let checked = self.meter.check(cx);
        if checked.is_err() || !self.meter.is_idle() {
            self.close_in_order(false);
        }
        checked
    }

    fn close_in_order(&mut self, in_order: bool) {
        if std::mem::replace(&mut self.closes_in_order, in_order) != in_order {
            if in_order { self.io.in_order() } else { self.io.at_once() }
        }
    }
}

/// When no step is left, the next read of this task waits until others had their turn.
fn use_up_steps(cx: &mut Context<'_>, steps: usize) {
    for _ in 0..steps {
        if coop::has_budget_remaining()
            && let Poll::Ready(step) = coop::poll_proceed(cx)
        {
            step.made_progress();
        }
    }
}

impl<T: AsyncRead + Closing + Unpin> AsyncRead for Metered<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(cx)?;
        if self.meter.is_idle() {
            // Nothing is read after a response that ends its connection, so this one is kept.
            self.close_in_order(true);
        }
        if self.meter.lock().is_unwanted {
            // As if the receiver had closed it: a request that is not sent yet takes another connection.
            return Poll::Ready(Ok(()));
        }
        let before = buf.filled().len();
        let read = Pin::new(&mut self.io).poll_read(cx, buf);
        let bytes = buf.filled().len() - before;
        use_up_steps(cx, bytes / BYTES_PER_STEP);
        match self.meter.spend(bytes) {
            Ok(()) => read,
            Err(error) => Poll::Ready(Err(io::Error::other(error))),
        }
    }
}

impl<T: AsyncRead + Closing + Unpin> Metered<T> {
    /// Reads and forgets what comes until the receiver closes the connection.
    fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut buffer = [0; 1024];
        loop {
            let mut read = ReadBuf::new(&mut buffer);
            match Pin::new(&mut self.io).poll_read(cx, &mut read) {
                Poll::Ready(Ok(())) if read.filled().is_empty() => return Poll::Ready(Ok(())),
                Poll::Ready(Ok(())) => self.meter.spend(read.filled().len()).map_err(io::Error::other)?,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => break,
            }
        }
        #[expect(clippy::disallowed_methods, reason = "it is the deadline of what is waited for here")]
        let sleep = || Box::pin(tokio::time::sleep(CLOSED_BY_RECEIVER_WITHIN));
        ready!(self.until_closed.get_or_insert_with(sleep).as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<T: AsyncRead + AsyncWrite + Closing + Unpin> AsyncWrite for Metered<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.check(cx)?;
        let wrote = Pin::new(&mut self.io).poll_write(cx, buf);
        self.meter.wrote(&wrote);
        wrote
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check(cx)?;
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check(cx)?;
        if !self.closes_in_order && !self.meter.lock().is_unwanted {
            ready!(self.poll_closed(cx))?;
        }
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check(cx)?;
        let wrote = Pin::new(&mut self.io).poll_write_vectored(cx, bufs);
        self.meter.wrote(&wrote);
        wrote
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}

impl<T: Connection> Connection for Metered<T> {
    fn connected(&self) -> Connected {
        self.io.connected().extra(Arc::clone(&self.meter))
    }
}

#[cfg(test)]
mod tests;
