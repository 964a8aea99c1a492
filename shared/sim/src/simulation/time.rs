use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use holdfast_core::ports::Clock;
use holdfast_core::rules::steady_time::SteadyTime;
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

/// The clock of a machine that is alone with its data, and whose own clock is set now and then.
pub(super) struct MachineClock {
    time: Arc<Time>,
    start: Timestamp,
    /// When the machine's own clock is set, and how far it is from true time from then on.
    settings: Vec<(Timestamp, i64)>,
    steady: Mutex<SteadyTime>,
}

impl MachineClock {
    pub(super) fn new(time: Arc<Time>, settings: Vec<(Timestamp, i64)>) -> MachineClock {
        let start = time.now();
        let steady = Mutex::new(SteadyTime::new(start, Duration::ZERO));
        MachineClock { time, start, settings, steady }
    }
}

impl Clock for MachineClock {
    fn now(&self) -> Timestamp {
        let now = self.time.now();
        let mut steady = self.steady.lock().unwrap_or_else(PoisonError::into_inner);
        steady.read(self.wall(), now.since(self.start)).0
    }
    fn now_real(&self) -> Timestamp {
        self.now()
    }
    fn wall(&self) -> Timestamp {
        let now = self.time.now();
        let set = self.settings.iter().rev().find(|(from, _)| *from <= now);
        Timestamp::from_millis(now.as_millis() + set.map_or(0, |(_, by_ms)| *by_ms))
    }
    fn to_schedule(&self, real: Duration) -> Duration {
        real
    }
}
