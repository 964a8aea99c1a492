//! How fast and how punctual a host is.

use std::time::Duration;

/// The longest delay of a queue. A longer wait is in the store until the sweep finds it.
const MAX_QUEUE_DELAY: Duration = Duration::from_secs(900);

/// How fast a host's schedule clock runs, and how late the host may be. It may never be early. Durations are real time unless they
/// say otherwise.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// How many times faster than real time the schedule clock runs.
    pub speed: u32,
    /// From the answer to a post to the first attempt, regardless of other URLs.
    pub first_attempt_late: Duration,
    /// How late an attempt may be after waiting in a queue.
    pub queue_late: Duration,
    /// How much later it may be after waiting in the store.
    pub sweep_late: Duration,
    /// For anything that should happen immediately, on a busy machine.
    pub soon: Duration,
    /// Whether a test can wait for the whole schedule of two days.
    pub whole_schedule: bool,
}

impl Timing {
    /// The server on one machine: its queues have millisecond delays, and its sweep follows the schedule clock.
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

    /// Functions and queues: delays are whole real seconds, a batch waits for its slowest attempt, and the sweep runs once in a real
    /// minute at any speed, in an emulator up to ten seconds later. An emulator on a small machine stands still for seconds while other
    /// scenarios keep it busy, so first attempts get far more time than AWS takes.
    #[must_use]
    pub fn on_aws(speed: u32) -> Timing {
        Timing {
            speed,
            first_attempt_late: Duration::from_secs(30),
            queue_late: Duration::from_secs(10),
            sweep_late: Duration::from_secs(75),
            soon: crate::waiting::SOON * 3,
            whole_schedule: false,
        }
    }

    /// The same host while a share of its calls to AWS fails: a message that could not be handled comes back after the visibility
    /// timeout, perhaps more than once.
    #[must_use]
    pub fn under_faults(self) -> Timing {
        Timing {
            first_attempt_late: self.first_attempt_late * 4,
            queue_late: self.queue_late * 9,
            sweep_late: self.sweep_late * 3,
            soon: self.soon * 2,
            ..self
        }
    }

    /// How much schedule time passes in this real time.
    #[must_use]
    pub fn schedule_ms(&self, real: Duration) -> i64 {
        i64::try_from((real * self.speed).as_millis()).unwrap_or(i64::MAX)
    }

    /// How much real time passes in this schedule time.
    #[must_use]
    pub fn real(&self, schedule: Duration) -> Duration {
        schedule / self.speed
    }

    /// How late an attempt may be after this wait in schedule time.
    #[must_use]
    pub fn late_after(&self, wait: Duration) -> Duration {
        self.queue_late + self.sweep_late_after(wait)
    }

    /// How late the sweep may make something after this wait in schedule time.
    #[must_use]
    pub fn sweep_late_after(&self, wait: Duration) -> Duration {
        if wait > MAX_QUEUE_DELAY { self.sweep_late } else { Duration::ZERO }
    }
}
