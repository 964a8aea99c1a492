use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use holdfast_core::ports::Clock;
use holdfast_core::time::Timestamp;

/// True time, which no host knows exactly. It passes only while everything waits.
pub(super) struct Time(Mutex<State>);

struct State {
    now: Timestamp,
    /// By when they ring, in the order in which they were set.
    timers: BTreeMap<(Timestamp, u64), Waker>,
    set: u64,
}

impl Time {
    #[must_use]
    pub(super) fn new(start: Timestamp) -> Time {
        Time(Mutex::new(State { now: start, timers: BTreeMap::new(), set: 0 }))
    }

    /// Lets this much time pass for the caller. Even no time is a place where others may come first.
    pub(super) fn sleep(self: &Arc<Time>, time: Duration) -> Sleep {
        Sleep { time: Arc::clone(self), until: self.now() + time, timer: None }
    }

    /// When the next timer rings.
    #[must_use]
    pub(super) fn next_timer(&self) -> Option<Timestamp> {
        self.lock().timers.keys().next().map(|(at, _)| *at)
    }

    /// Moves on, never back, and wakes those whose time has come.
    pub(super) fn pass_until(&self, until: Timestamp) {
        let mut state = self.lock();
        state.now = state.now.max(until);
        let next = (state.now + Duration::from_millis(1), 0);
        let later = state.timers.split_off(&next);
        let ringing = std::mem::replace(&mut state.timers, later);
        drop(state);
        ringing.into_values().for_each(Waker::wake);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The clock of the queues and of the receivers.
impl Clock for Time {
    fn now(&self) -> Timestamp {
        self.lock().now
    }
    fn now_real(&self) -> Timestamp {
        self.lock().now
    }
    fn to_schedule(&self, real: Duration) -> Duration {
        real
    }
}

pub(super) struct Sleep {
    time: Arc<Time>,
    until: Timestamp,
    timer: Option<(Timestamp, u64)>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.time.lock();
        match self.timer {
            Some(timer) if !state.timers.contains_key(&timer) => return Poll::Ready(()),
            Some(timer) => drop(state.timers.insert(timer, context.waker().clone())),
            None => {
                state.set += 1;
                let timer = (self.until, state.set);
                state.timers.insert(timer, context.waker().clone());
                drop(state);
                self.timer = Some(timer);
            }
        }
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(timer) = self.timer {
            self.time.lock().timers.remove(&timer);
        }
    }
}

/// The clock of one host, which is never quite right.
pub(super) struct HostClock {
    pub(super) time: Arc<Time>,
    pub(super) skew_ms: i64,
}

impl Clock for HostClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.time.now().as_millis() + self.skew_ms)
    }
    fn now_real(&self) -> Timestamp {
        self.now()
    }
    fn to_schedule(&self, real: Duration) -> Duration {
        real
    }
}
