//! Bounds the connections that are opened without an attempt that waits for them.
//!
//! While all connections to a receiver are in use, the HTTP client opens another one for an attempt, and gives it whichever is free first.
//! If that is not the new one, the client moves the new one to a task of its own and keeps it for later attempts. A receiver that answers
//! on a few connections and lets all others hang would get one that hangs for every attempt, far more than there are attempts at a time.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::FutureExt;
use holdfast_core::engine::{Gate, GateLimits, Inside};
use holdfast_core::ids::Tenant;
use hyper_util::client::legacy::connect::Connection;

use crate::connector::BoxError;
use crate::meter::Meter;
use crate::resolver;

/// How many connections are opened at a time without their attempts. With none, a busy receiver would never get more of them, and
/// every attempt would begin a handshake in vain.
pub const MAX_OVERTAKEN: usize = 32;
const MAX_OVERTAKEN_OF_TENANT: usize = 4;

#[derive(Debug, thiserror::Error)]
#[error("the attempt was given another connection")]
struct NotNeeded;

#[derive(Clone)]
pub(crate) struct Overtaken(Arc<Gate<Tenant>>);

impl Overtaken {
    pub(crate) fn new() -> Overtaken {
        let per_holder = MAX_OVERTAKEN_OF_TENANT;
        let limits = GateLimits { in_all: MAX_OVERTAKEN, per_holder, one_each: false };
        Overtaken(Arc::new(Gate::new(limits)))
    }

    /// `tenant`: whose attempt needs the connection. Once it has another one, this one ends, or is one of the few that go on.
    pub(crate) fn limit<F: Unpin>(&self, tenant: Option<Tenant>, connecting: F) -> Limited<F> {
        Limited { overtaken: self.clone(), tenant, place: None, connecting }
    }
}

pub(crate) struct Limited<F> {
    overtaken: Overtaken,
    tenant: Option<Tenant>,
    /// Set when it goes on without its attempt.
    place: Option<Inside<Tenant>>,
    connecting: F,
}

impl<F, T> Future for Limited<F>
where
    F: Future<Output = Result<T, BoxError>> + Unpin,
    T: Connection,
{
    type Output = Result<T, BoxError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T, BoxError>> {
        let Limited { overtaken, tenant, place, connecting } = &mut *self;
        // The task of the attempt knows its tenant, and the one that a connection is moved to does not.
        if let Some(tenant) = tenant
            && place.is_none()
            && resolver::current_tenant().is_none()
        {
            *place = overtaken.0.enter(tenant, 1).now_or_never();
            if place.is_none() {
                return Poll::Ready(Err(NotNeeded.into()));
            }
        }
        let connected = Pin::new(connecting).poll(context);
        if let (Poll::Ready(Ok(connection)), Some(_)) = (&connected, &place)
            && let Some(meter) = Meter::of(&connection.connected())
        {
            meter.keep_unused();
        }
        connected
    }
}
