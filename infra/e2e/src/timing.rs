//! How a host keeps time.

use std::time::Duration;

/// What a queue holds at most. A longer wait rests in the store until the sweep comes by.
const QUEUE_HOLDS: Duration = Duration::from_secs(900);

/// How fast a host's schedule runs, and how late it may be. Being early is forbidden to all of them. Except where it says so, all
/// of it is real time.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// How many times faster than real time the schedule runs.
    pub speed: u32,
    /// From the answer to a post to the first attempt, whatever goes on at other URLs.
    pub first_attempt_late: Duration,
    /// How late an attempt may be that waited in a queue.
    pub queue_late: Duration,
    /// How much later still it may be if it rested in the store.
    pub sweep_late: Duration,
    /// For anything that should happen at once, on a machine that is busy with other things.
    pub soon: Duration,
    /// Whether all of the schedule, two days of its time, can be waited for.
    pub whole_schedule: bool,
}

impl Timing {
    /// The server on one machine: its queues know milliseconds, and its sweep runs as much faster as its schedule does.
    #[must_use]
    pub fn on_one_machine(speed: u32) -> Timing {
        Timing {
            speed,
            first_attempt_late: Duration::from_secs(2),
            queue_late: Duration::from_secs(2),
            sweep_late: Duration::ZERO,
            soon: crate::waiting::SOON,
            whole_schedule: true,
        }
    }

    /// Functions and queues: delays are whole real seconds, a batch waits for its slowest attempt, and the sweep comes once in a
    /// real minute however fast the schedule runs, in an emulator up to ten seconds later than that.
    #[must_use]
    pub fn on_aws(speed: u32) -> Timing {
        Timing {
            speed,
            first_attempt_late: Duration::from_secs(10),
            queue_late: Duration::from_secs(10),
            sweep_late: Duration::from_secs(75),
            soon: crate::waiting::SOON * 3,
            whole_schedule: false,
        }
    }

    /// How much of the schedule's time passes in so much real time.
    #[must_use]
    pub fn schedule_ms(&self, real: Duration) -> i64 {
        i64::try_from((real * self.speed).as_millis()).unwrap_or(i64::MAX)
    }

    /// How much real time passes in so much of the schedule's time.
    #[must_use]
    pub fn real(&self, schedule: Duration) -> Duration {
        schedule / self.speed
    }

    /// How late an attempt may be after a wait of so much of the schedule's time.
    #[must_use]
    pub fn late_after(&self, wait: Duration) -> Duration {
        self.queue_late + self.rest_late(wait)
    }

    /// How much later something may be because of the sweep, after so much of the schedule's time.
    #[must_use]
    pub fn rest_late(&self, wait: Duration) -> Duration {
        if wait > QUEUE_HOLDS { self.sweep_late } else { Duration::ZERO }
    }
}
