//! Lets few connections at a time do what keeps a thread busy: a receiver chooses how much there is to verify in its handshake, and
//! hundreds of them may answer at the same moment.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use holdfast_core::engine::{Entering, Gate, GateLimits};
use holdfast_core::ids::Tenant;

/// Whose connections take turns. `None`: not of an attempt.
type Holder = Option<Tenant>;

#[derive(Clone)]
pub(crate) struct Handshakes(Arc<Gate<Holder>>);

impl Handshakes {
    /// `threads`: how many there are for everything. Half of them are left for what is not a handshake.
    pub(crate) fn new(threads: usize) -> Handshakes {
        Handshakes(Arc::new(Gate::new(GateLimits {
            in_all: (threads / 2).max(1),
            per_holder: 1,
            one_each: false,
        })))
    }

    /// Each step of the connection waits for its turn among the tenants.
    pub(crate) fn in_turns<F: Future + Unpin>(&self, tenant: Option<Tenant>, connecting: F) -> InTurns<F> {
        InTurns { handshakes: self.clone(), tenant, entering: None, connecting }
    }
}

pub(crate) struct InTurns<F> {
    handshakes: Handshakes,
    tenant: Holder,
    entering: Option<Entering<Holder>>,
    connecting: F,
}

impl<F: Future + Unpin> Future for InTurns<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let InTurns { handshakes, tenant, entering, connecting } = &mut *self;
        let turn = entering.get_or_insert_with(|| handshakes.0.enter(tenant, 1));
        let inside = ready!(Pin::new(turn).poll(context));
        let connected = Pin::new(connecting).poll(context);
        // The turn is over as soon as the connection waits for its receiver.
        drop(inside);
        *entering = None;
        connected
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, poll_fn};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Waker;

    use super::*;

    fn is_ready<F: Future + Unpin>(future: &mut F) -> bool {
        Pin::new(future).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn a_step_waits_for_its_turn_and_a_wait_takes_none() {
        let handshakes = Handshakes::new(2);
        let mut hangs = handshakes.in_turns(Some("a".into()), pending::<()>());
        assert!(!is_ready(&mut hangs), "it waits for its receiver");

        let steps = AtomicUsize::new(0);
        let two_steps = poll_fn(|_| match steps.fetch_add(1, Ordering::Relaxed) {
            0 => Poll::Pending,
            _ => Poll::Ready(()),
        });
        let mut other = handshakes.in_turns(Some("b".into()), two_steps);
        let mut verifying = handshakes.0.enter(&Some("a".into()), 1);
        let inside = Pin::new(&mut verifying).poll(&mut Context::from_waker(Waker::noop()));
        assert!(inside.is_ready());
        assert!(!is_ready(&mut other));
        assert_eq!(steps.load(Ordering::Relaxed), 0, "another one is verifying");
        drop(inside);
        assert!(!is_ready(&mut other));
        assert!(is_ready(&mut other));
        assert_eq!(steps.load(Ordering::Relaxed), 2);
    }
}
