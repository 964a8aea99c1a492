//! The machine's clock, and the schedule's clock made from it.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use holdfast_core::ports::Clock;
use holdfast_core::time::Timestamp;
use holdfast_embedded::Database;
use serde::{Deserialize, Serialize};

/// Where the schedule's clock was at one moment of the real one, and how fast it ran from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Anchor {
    schedule: Timestamp,
    real: Timestamp,
    speed: u32,
}

impl Anchor {
    fn schedule_at(&self, real: Timestamp) -> Timestamp {
        self.schedule + real.since(self.real) * self.speed
    }
}

pub(crate) struct ScaledClock {
    anchor: Anchor,
    /// The schedule's clock never goes back, even when somebody sets the machine's clock back.
    latest_ms: AtomicI64,
}

const META: &str = "clock";

fn machine_time() -> Timestamp {
    #[expect(clippy::disallowed_methods, reason = "the one place where the machine's clock is read")]
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::ZERO + since_epoch
}

impl ScaledClock {
    /// Goes on from where the clock of this database is by now; a clock that was never scaled is the real one.
    pub(crate) fn start(database: &Database, speed: u32) -> Result<ScaledClock> {
        let real = machine_time();
        let before = match database.meta(META)? {
            Some(text) => {
                Some(serde_json::from_str::<Anchor>(&text).context("the stored clock cannot be read")?)
            }
            None => None,
        };
        let schedule = before.map_or(real, |anchor| anchor.schedule_at(real));
        let anchor = Anchor { schedule, real, speed };
        if before.is_some() || speed != 1 {
            database.set_meta(META, &serde_json::to_string(&anchor)?)?;
        }
        Ok(ScaledClock { anchor, latest_ms: AtomicI64::new(schedule.as_millis()) })
    }

    /// Whether it was never scaled, so that its times are those of the world.
    pub(crate) fn is_real(&self) -> bool {
        self.anchor.schedule == self.anchor.real && self.anchor.speed == 1
    }
}

impl Clock for ScaledClock {
    fn now(&self) -> Timestamp {
        let now = self.anchor.schedule_at(machine_time()).as_millis();
        let latest = self.latest_ms.fetch_max(now, Ordering::Relaxed);
        Timestamp::from_millis(now.max(latest))
    }

    fn now_real(&self) -> Timestamp {
        machine_time()
    }

    fn to_schedule(&self, real: Duration) -> Duration {
        real * self.anchor.speed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goes_on_over_a_restart_at_any_speed() {
        let folder = tempfile::tempdir().unwrap();
        let fast = ScaledClock::start(&Database::open(folder.path()).unwrap(), 1_000_000).unwrap();
        let reached = fast.now();
        let slow = ScaledClock::start(&Database::open(folder.path()).unwrap(), 1).unwrap();
        assert!(slow.now() >= reached);
        assert_eq!(slow.to_schedule(Duration::from_secs(1)), Duration::from_secs(1));
    }

    #[test]
    fn an_unscaled_clock_is_the_real_one() {
        let folder = tempfile::tempdir().unwrap();
        let database = Database::open(folder.path()).unwrap();
        let clock = ScaledClock::start(&database, 1).unwrap();
        assert!(clock.now().since(clock.now_real()) < Duration::from_secs(1));
        assert_eq!(database.meta(META).unwrap(), None);
    }
}
