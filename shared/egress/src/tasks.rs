//! Runs the tasks of connections. One whose receiver sends a lot, such as heads full of headers, takes each further step in the turn of its
//! tenant: the runtime takes tasks in the order in which they are ready, whosever they are, and hundreds of such steps would be before
//! everything else.

use std::cell::RefCell;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use holdfast_core::engine::StepTurns;
use hyper::rt::Executor;

use crate::busy::{BusySteps, Holder};

/// The task of a connection, as the HTTP client starts it.
type ConnectionTask = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What a connection reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Reading {
    /// Little for its attempt so far.
    #[default]
    Little,
    /// More than almost every receiver sends, for an attempt of this tenant.
    Much(Holder),
}

tokio::task_local! {
    static READING: RefCell<Reading>;
}

/// Says what the connection reads whose task is running.
pub(crate) fn report(reading: Reading) {
    // Outside of such a task, as during a handshake, others take care of turns.
    let _ = READING.try_with(|of_task| of_task.replace(reading));
}

/// Runs a future as the task of a connection. Returns what it reported last, too.
#[cfg(test)]
pub(crate) async fn reading<F: Future>(future: F) -> (F::Output, Reading) {
    let run = async { (future.await, READING.with(RefCell::take)) };
    READING.scope(RefCell::default(), run).await
}

#[derive(Clone)]
pub(crate) struct ConnectionTasks(BusySteps);

impl ConnectionTasks {
    pub(crate) fn new(busy: BusySteps) -> ConnectionTasks {
        ConnectionTasks(busy)
    }

    fn in_turns(&self, task: ConnectionTask) -> InTurns {
        InTurns { busy: self.0.clone(), reading: Reading::Little, turns: StepTurns::default(), task }
    }
}

impl Executor<ConnectionTask> for ConnectionTasks {
    fn execute(&self, task: ConnectionTask) {
        tokio::spawn(self.in_turns(task));
    }
}

struct InTurns {
    busy: BusySteps,
    /// As of the last step.
    reading: Reading,
    turns: StepTurns<Holder>,
    task: ConnectionTask,
}

impl Future for InTurns {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let InTurns { busy, reading, turns, task } = &mut *self;
        let _step = match &*reading {
            Reading::Little => None,
            Reading::Much(holder) => Some(ready!(busy.poll_enter(turns, holder, context))),
        };
        let of_task = RefCell::new(reading.clone());
        let (polled, now) = READING.sync_scope(of_task, || {
            let polled = task.as_mut().poll(context);
            (polled, READING.with(RefCell::take))
        });
        *reading = now;
        polled
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::FutureExt;

    use super::*;

    /// A task that reads much in its first step and never ends. Returns how many steps it took.
    fn talkative(tasks: &ConnectionTasks, tenant: &str) -> (InTurns, Arc<AtomicUsize>) {
        let (steps, holder) = (Arc::new(AtomicUsize::new(0)), Some(tenant.into()));
        let counted = Arc::clone(&steps);
        let task = std::future::poll_fn(move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
            report(Reading::Much(Clone::clone(&holder)));
            Poll::Pending
        });
        (tasks.in_turns(Box::pin(task)), steps)
    }

    #[test]
    fn a_task_that_reads_much_waits_for_the_turn_of_its_tenant() {
        let busy = BusySteps::new(4);
        let tasks = ConnectionTasks::new(busy.clone());
        let (mut task, steps) = talkative(&tasks, "a");
        let turn = busy.enter(&Some("a".into())).now_or_never();
        assert!(turn.is_some());
        assert!((&mut task).now_or_never().is_none());
        assert_eq!(steps.load(Ordering::Relaxed), 1, "nothing is known of the first step");
        assert!((&mut task).now_or_never().is_none());
        assert_eq!(steps.load(Ordering::Relaxed), 1, "another connection of the tenant is busy");
        let (mut other, other_steps) = talkative(&tasks, "b");
        assert!((&mut other).now_or_never().is_none() && (&mut other).now_or_never().is_none());
        assert_eq!(other_steps.load(Ordering::Relaxed), 2, "another tenant is not kept waiting");
        drop(turn);
        assert!((&mut task).now_or_never().is_none());
        assert_eq!(steps.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn a_task_that_reads_little_waits_for_none() {
        let busy = BusySteps::new(2);
        let _turn = busy.enter(&None).now_or_never();
        let tasks = ConnectionTasks::new(busy);
        let mut reads = vec![Reading::Little, Reading::Much(None), Reading::Little];
        let task = std::future::poll_fn(move |_| {
            reads.drain(..).for_each(report);
            Poll::Ready(())
        });
        assert!(tasks.in_turns(Box::pin(task)).now_or_never().is_some());
    }
}
