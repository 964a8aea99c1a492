use std::future::poll_fn;
use std::sync::{Mutex, PoisonError};
use std::task::{Poll, Waker};

/// Holds futures until it is opened.
#[derive(Default)]
pub(crate) struct Gate(Mutex<State>);

#[derive(Default)]
struct State {
    /// How often the gate was opened: each opening lets go what was held by then.
    opened: u64,
    held: Vec<Waker>,
}

impl Gate {
    pub(crate) async fn wait(&self) {
        let before = self.with(|state| state.opened);
        poll_fn(|context| {
            self.with(|state| {
                if state.opened > before {
                    return Poll::Ready(());
                }
                state.held.push(context.waker().clone());
                Poll::Pending
            })
        })
        .await;
    }

    pub(crate) fn open(&self) {
        let held = self.with(|state| {
            state.opened += 1;
            std::mem::take(&mut state.held)
        });
        held.into_iter().for_each(Waker::wake);
    }

    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
