//! What goes wrong between the hosts and the services they use.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use holdfast_core::ports::{Clock, QueueError, Source, StoreError};
use holdfast_core::time::Timestamp;

use super::counts::Counts;
use super::dice::Dice;
use super::time::Time;

/// How often each thing goes wrong, in 10,000 times.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rates {
    /// A call fails, and nothing has happened.
    pub(super) fails_before: u64,
    /// A call fails, and what it was for has happened.
    pub(super) fails_after: u64,
    pub(super) throttled: u64,
    /// A batch is done in part.
    pub(super) partial: u64,
    /// A call takes up to seconds.
    pub(super) slow: u64,
    /// A call takes up to a minute or more: leases, visibility and deadlines lapse.
    pub(super) stuck: u64,
    pub(super) stuck_for: Duration,
    /// An index does not know the last changes yet.
    pub(super) stale: u64,
    /// Of tickets only: a first-attempt message is the delivery itself.
    pub(super) lost: u64,
    pub(super) duplicated: u64,
    pub(super) late: u64,
    /// An invocation is killed at one of its awaits.
    pub(super) killed: u64,
    pub(super) missed_sweep: u64,
    pub(super) overlapping_sweep: u64,
    /// A process has no file, port or memory for a request.
    pub(super) shortage: u64,
}

impl Rates {
    pub(super) const NONE: Rates = Rates {
        fails_before: 0,
        fails_after: 0,
        throttled: 0,
        partial: 0,
        slow: 0,
        stuck: 0,
        stuck_for: Duration::ZERO,
        stale: 0,
        lost: 0,
        duplicated: 0,
        late: 0,
        killed: 0,
        missed_sweep: 0,
        overlapping_sweep: 0,
        shortage: 0,
    };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Service {
    Store,
    Queue,
}

struct State {
    rates: Rates,
    store_is_down_until: Timestamp,
    queue_is_down_until: Timestamp,
}

pub(super) struct Faults {
    pub(super) time: Arc<Time>,
    pub(super) dice: Arc<Dice>,
    pub(super) counts: Arc<Counts>,
    state: Mutex<State>,
}

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Succeeds,
    FailsBefore,
    FailsAfter,
    Throttled,
}

impl Faults {
    pub(super) fn new(time: Arc<Time>, dice: Arc<Dice>, counts: Arc<Counts>, rates: Rates) -> Faults {
        let state =
            State { rates, store_is_down_until: Timestamp::ZERO, queue_is_down_until: Timestamp::ZERO };
        Faults { time, dice, counts, state: Mutex::new(state) }
    }

    /// From now on nothing goes wrong.
    pub(super) fn end(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.rates = Rates::NONE;
        state.store_is_down_until = Timestamp::ZERO;
        state.queue_is_down_until = Timestamp::ZERO;
    }

    /// No call of this service succeeds for a while.
    pub(super) fn take_down(&self, service: Service, time: Duration) {
        let until = self.time.now() + time;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match service {
            Service::Store => state.store_is_down_until = until,
            Service::Queue => state.queue_is_down_until = until,
        }
        self.counts.add(match service {
            Service::Store => "fault: the store is down for a while",
            Service::Queue if time > Duration::from_secs(3_600) => "fault: the queues are down for hours",
            Service::Queue => "fault: the queues are down for a while",
        });
    }

    pub(super) fn rates(&self) -> Rates {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).rates
    }

    fn is_down(&self, service: Service) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let until = match service {
            Service::Store => state.store_is_down_until,
            Service::Queue => state.queue_is_down_until,
        };
        self.time.now() < until
    }

    pub(super) fn happens(&self, in_10_000: u64, what: &'static str) -> bool {
        let happens = self.dice.happens(in_10_000);
        if happens {
            self.counts.add(what);
        }
        happens
    }

    /// Time passes, from nothing to minutes.
    pub(super) async fn pass(&self) {
        let rates = self.rates();
        let longest = if self.happens(rates.stuck, "fault: a call takes minutes") {
            rates.stuck_for
        } else if self.happens(rates.slow, "fault: a call takes seconds") {
            Duration::from_secs(5)
        } else {
            Duration::from_millis(10)
        };
        self.time.sleep(self.dice.time(Duration::ZERO, longest)).await;
    }

    pub(super) fn fate(&self, service: Service) -> Fate {
        let rates = self.rates();
        if self.is_down(service) || self.happens(rates.fails_before, "fault: a call fails before its effect")
        {
            Fate::FailsBefore
        } else if self.happens(rates.fails_after, "fault: a call fails after its effect") {
            Fate::FailsAfter
        } else if self.happens(rates.throttled, "fault: a call is throttled") {
            Fate::Throttled
        } else {
            Fate::Succeeds
        }
    }
}

fn source() -> Source {
    Arc::new(std::io::Error::other("a fault of the simulation"))
}

impl Fate {
    pub(super) fn is_before(self) -> bool {
        matches!(self, Fate::FailsBefore | Fate::Throttled)
    }

    pub(super) fn store_error(self) -> Option<StoreError> {
        match self {
            Fate::Succeeds => None,
            Fate::FailsBefore => Some(StoreError::Failed(source())),
            Fate::FailsAfter => Some(StoreError::TimedOut(source())),
            Fate::Throttled => Some(StoreError::Throttled(source())),
        }
    }

    pub(super) fn queue_error(self) -> Option<QueueError> {
        match self {
            Fate::Succeeds => None,
            Fate::FailsBefore => Some(QueueError::Failed(source())),
            Fate::FailsAfter => Some(QueueError::TimedOut(source())),
            Fate::Throttled => Some(QueueError::Throttled(source())),
        }
    }
}
