//! The promises, each with the name under which it is reported.

mod deliveries;
mod receivers;
mod releases;
mod requests;
mod snapshot;
mod urls;

use std::time::Duration;

pub(super) use snapshot::Snapshot;

use super::World;

/// How far two clocks may be apart.
const SKEW: Duration = Duration::from_secs(2);
/// How late a retry, probe or release may be once nothing goes wrong any more.
const LATE: Duration = Duration::from_secs(7 * 60);
/// What rested because of the trouble may rest until then: the longest back-off of a message, and what follows from it.
pub(super) const GRACE: Duration = Duration::from_secs(40 * 60);

/// A promise that was not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Its name.
    pub promise: &'static str,
    pub what: String,
}

impl Broken {
    pub(super) fn new(promise: &'static str, what: String) -> Broken {
        Broken { promise, what }
    }
}

/// Breaks off with the promise's name unless it holds.
macro_rules! keep {
    ($promise:expr, $holds:expr, $($what:tt)*) => {
        if !$holds {
            return Err($crate::simulation::checks::Broken::new($promise, format!($($what)*)));
        }
    };
}
use keep;

type Kept = Result<(), Broken>;

impl World {
    pub(super) fn snapshot(&self) -> Snapshot {
        Snapshot::of(self.hosts.backend.all())
    }

    /// How much the clock of a machine that is set may gain or lose in this time: it follows slowly.
    fn drift(&self, time: Duration) -> Duration {
        if self.hosts.machine.is_some() { time / 200 } else { Duration::ZERO }
    }

    /// While nothing goes wrong: what is due is done.
    pub(super) fn check_punctual(&self) -> Kept {
        let snapshot = self.snapshot();
        self.check_nothing_is_late(&snapshot)?;
        self.check_looks(&snapshot)?;
        self.check_due_times(&snapshot)?;
        self.check_subscriptions_are_followed(&snapshot)?;
        self.check_releases_drain(&snapshot)?;
        self.check_probes_are_made(&snapshot)?;
        self.check_time_passes()
    }

    /// At the end, when everything is delivered or dead.
    pub(super) fn check_all(&self) -> Kept {
        let snapshot = self.snapshot();
        self.count_what_happened(&snapshot);
        self.check_nothing_is_lost(&snapshot)?;
        self.check_never_early()?;
        self.check_number_of_attempts(&snapshot)?;
        self.check_nothing_after_52_hours(&snapshot)?;
        self.check_success_ends(&snapshot)?;
        self.check_everything_ends(&snapshot)?;
        self.check_lives_are_looked_after(&snapshot)?;
        self.check_one_probe()?;
        self.check_frozen_is_left_alone()?;
        self.check_parked(&snapshot)?;
        self.check_claims()?;
        self.check_outcomes()?;
        self.check_fresh_events(&snapshot)?;
        self.check_no_dead_letters()
    }
}
