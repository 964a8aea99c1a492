//! Lets few connections at a time do what keeps a thread busy: a receiver chooses how much there is to verify in its handshake and how many
//! headers it sends, and hundreds of them may answer at the same moment.

use std::cell::Cell;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use holdfast_core::engine::{Gate, GateLimits, Inside, StepTurns};
use holdfast_core::ids::Tenant;
use tokio::time::Instant;

/// A step that takes longer counts as several. Most take less, and a receiver can make one take a hundred times as long.
const TIME_PER_STEP: Duration = Duration::from_micros(100);

/// Whose connections take turns. `None`: not of an attempt.
pub(crate) type Holder = Option<Tenant>;

#[derive(Clone)]
pub(crate) struct BusySteps(Arc<Gate<Holder>>);

impl BusySteps {
    /// `threads`: how many there are for everything. Half of them are left for everything else.
    pub(crate) fn new(threads: usize) -> BusySteps {
        BusySteps(Arc::new(Gate::new(GateLimits {
            in_all: (threads / 2).max(1),
            per_holder: 1,
            one_each: false,
        })))
    }

    /// Waits for the turn of this tenant, for one step.
    pub(crate) fn poll_enter(
        &self,
        turns: &mut StepTurns<Holder>,
        holder: &Holder,
        context: &mut Context<'_>,
    ) -> Poll<Step> {
        turns.poll_enter(&self.0, holder, context).map(|inside| Step { inside, began: Instant::now() })
    }

    #[cfg(test)]
    pub(crate) fn enter(&self, holder: &Holder) -> holdfast_core::engine::Entering<Holder> {
        self.0.enter(holder, 1)
    }

    /// Each step of the connection waits for its turn among the tenants.
    pub(crate) fn in_turns<F: Future + Unpin>(&self, tenant: Option<Tenant>, connecting: F) -> InTurns<F> {
        InTurns {
            busy: self.clone(),
            tenant,
            turns: StepTurns::default(),
            waits: Waits::default(),
            connecting,
        }
    }
}

tokio::task_local! {
    /// How long the attempt has waited for turns.
    static WAITED: Cell<Duration>;
}

/// Makes an attempt. Returns how long it waited for its turns, too, which is no time of its receiver.
pub(crate) async fn waiting<F: Future>(attempt: F) -> (F::Output, Duration) {
    let made = async {
        let output = attempt.await;
        (output, WAITED.with(Cell::get))
    };
    WAITED.scope(Cell::default(), made).await
}

/// Counts what a connection waits for its turns, also if it is given up while it waits.
#[derive(Default)]
struct Waits(Option<Instant>);

impl Waits {
    fn begin(&mut self) {
        self.0.get_or_insert_with(Instant::now);
    }

    fn end(&mut self) {
        if let Some(since) = self.0.take() {
            // Outside of an attempt no one asks.
            let _ = WAITED.try_with(|waited| waited.set(waited.get() + since.elapsed()));
        }
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        self.end();
    }
}

/// Lasts until it is dropped, and counts by the time that it took.
pub(crate) struct Step {
    inside: Inside<Holder>,
    began: Instant,
}

impl Drop for Step {
    fn drop(&mut self) {
        let steps = self.began.elapsed().as_micros() / TIME_PER_STEP.as_micros();
        self.inside.charge(u64::try_from(steps).unwrap_or(u64::MAX));
    }
}

pub(crate) struct InTurns<F> {
    busy: BusySteps,
    tenant: Holder,
    turns: StepTurns<Holder>,
    waits: Waits,
    connecting: F,
}

impl<F: Future + Unpin> Future for InTurns<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let InTurns { busy, tenant, turns, waits, connecting } = &mut *self;
        waits.begin();
        // The turn is over as soon as the connection waits for its receiver.
        let _step = ready!(busy.poll_enter(turns, tenant, context));
        waits.end();
        Pin::new(connecting).poll(context)
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
        let busy = BusySteps::new(2);
        let mut hangs = busy.in_turns(Some("a".into()), pending::<()>());
        assert!(!is_ready(&mut hangs), "it waits for its receiver");

        let steps = AtomicUsize::new(0);
        let two_steps = poll_fn(|_| match steps.fetch_add(1, Ordering::Relaxed) {
            0 => Poll::Pending,
            _ => Poll::Ready(()),
        });
        let mut other = busy.in_turns(Some("b".into()), two_steps);
        let mut verifying = busy.enter(&Some("a".into()));
        let inside = Pin::new(&mut verifying).poll(&mut Context::from_waker(Waker::noop()));
        assert!(inside.is_ready());
        assert!(!is_ready(&mut other));
        assert_eq!(steps.load(Ordering::Relaxed), 0, "another one is verifying");
        drop(inside);
        assert!(!is_ready(&mut other));
        assert!(is_ready(&mut other));
        assert_eq!(steps.load(Ordering::Relaxed), 2);
    }

    /// Handshakes of 7 ms had as many turns as connections that are opened in 0.02 ms, and these piled up.
    #[tokio::test(start_paused = true)]
    async fn steps_count_by_the_time_that_they_took() {
        let busy = BusySteps::new(2);
        let context = &mut Context::from_waker(Waker::noop());
        let tenants = ["slow"].into_iter().chain(["quick"; 20]);
        let mut waiting: Vec<_> =
            tenants.map(|name| (name, Some(Tenant::from(name)), StepTurns::default())).collect();
        let slow = Some("slow".into());
        let Poll::Ready(first) = busy.poll_enter(&mut StepTurns::default(), &slow, context) else {
            panic!("none is busy");
        };
        for (_, tenant, turns) in &mut waiting {
            assert!(busy.poll_enter(turns, tenant, context).is_pending());
        }
        tokio::time::advance(Duration::from_millis(7)).await;
        let mut step = Some(first);
        let mut order = Vec::new();
        while !waiting.is_empty() {
            drop(step.take());
            let next = waiting.iter_mut().position(|(_, tenant, turns)| {
                let entered = busy.poll_enter(turns, tenant, context);
                let is_ready = entered.is_ready();
                step = step.take().or(if let Poll::Ready(step) = entered { Some(step) } else { None });
                is_ready
            });
            order.push(waiting.remove(next.expect("one is let in")).0);
        }
        assert_eq!(order.pop(), Some("slow"));
        assert!(order.iter().all(|name| *name == "quick"), "{order:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_in_line_is_not_that_of_the_receiver() {
        let busy = BusySteps::new(2);
        let seconds = Duration::from_secs;
        let answers = || tokio::time::timeout(seconds(1), pending::<()>());
        let connecting = || busy.in_turns(Some("a".into()), Box::pin(answers()));
        assert_eq!(waiting(connecting()).await.1, Duration::ZERO);

        let turn = busy.enter(&Some("b".into())).await;
        let leave = async {
            tokio::time::advance(seconds(2)).await;
            drop(turn);
        };
        let ((_, waited), ()) = tokio::join!(waiting(connecting()), leave);
        assert_eq!(waited, seconds(2));

        let _turn = busy.enter(&Some("b".into())).await;
        let given_up = waiting(tokio::time::timeout(seconds(3), connecting())).await;
        assert!(given_up.0.is_err());
        assert_eq!(given_up.1, seconds(3), "also if it is given up in line");
    }
}
