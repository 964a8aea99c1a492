//! The promises, each with the name under which it is reported.

mod deliveries;
mod requests;
mod urls;

use std::time::Duration;

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
    /// While nothing goes wrong: what is due is done.
    pub(super) fn check_punctual(&self) -> Kept {
        self.check_nothing_is_late()?;
        self.check_probes_are_made()
    }

    /// At the end, when everything is delivered or dead.
    pub(super) fn check_all(&self) -> Kept {
        self.check_nothing_is_lost()?;
        self.check_never_early()?;
        self.check_number_of_attempts()?;
        self.check_nothing_after_52_hours()?;
        self.check_success_ends()?;
        self.check_everything_ends()?;
        self.check_lives_are_looked_after()?;
        self.check_one_probe()?;
        self.check_frozen_is_left_alone()?;
        self.check_parked()?;
        self.check_claims()?;
        self.check_no_dead_letters()
    }
}
