//! Runs futures on one thread, in an order that the dice choose.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use super::dice::Dice;

type Task = Pin<Box<dyn Future<Output = ()>>>;

/// The tasks that were woken, in the order of their waking.
type Woken = Arc<Mutex<Vec<u64>>>;

struct TaskWaker {
    number: u64,
    woken: Woken,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        let mut woken = self.woken.lock().unwrap_or_else(PoisonError::into_inner);
        if !woken.contains(&self.number) {
            woken.push(self.number);
        }
    }
}

#[derive(Default)]
pub(super) struct Executor {
    tasks: BTreeMap<u64, (Task, Waker)>,
    woken: Woken,
    started: u64,
    /// How often a task was polled.
    pub(super) polls: u64,
}

impl Executor {
    pub(super) fn spawn(&mut self, task: impl Future<Output = ()> + 'static) {
        self.started += 1;
        let waker = Arc::new(TaskWaker { number: self.started, woken: Arc::clone(&self.woken) });
        waker.wake_by_ref_now();
        self.tasks.insert(self.started, (Box::pin(task), Waker::from(waker)));
    }

    /// Polls one task that can go on. `false`: everything waits for time to pass.
    pub(super) fn step(&mut self, dice: &Dice) -> bool {
        let number = {
            let mut woken = self.woken.lock().unwrap_or_else(PoisonError::into_inner);
            if woken.is_empty() {
                return false;
            }
            let chosen = dice.below(woken.len() as u64) as usize;
            woken.swap_remove(chosen)
        };
        if let Some((task, waker)) = self.tasks.get_mut(&number) {
            self.polls += 1;
            let mut context = Context::from_waker(waker);
            if let Poll::Ready(()) = task.as_mut().poll(&mut context) {
                self.tasks.remove(&number);
            }
        }
        true
    }
}

impl TaskWaker {
    fn wake_by_ref_now(self: &Arc<Self>) {
        Arc::clone(self).wake();
    }
}

/// A future that dies after so many polls: the process it runs in is killed at that await.
pub(super) struct Mortal<F> {
    pub(super) future: F,
    /// `None`: it lives to its end.
    pub(super) polls_left: Option<u32>,
}

impl<F: Future + Unpin> Future for Mortal<F> {
    /// `None`: it was killed.
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<F::Output>> {
        if let Some(left) = &mut self.polls_left {
            if *left == 0 {
                return Poll::Ready(None);
            }
            *left -= 1;
        }
        Pin::new(&mut self.future).poll(context).map(Some)
    }
}
