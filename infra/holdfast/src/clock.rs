//! The schedule clock of a data folder. It continues while the server is down.

use anyhow::{Context, Result};
use holdfast_embedded::Database;
use holdfast_host::{Anchor, MachineClock, machine_time};

const META: &str = "clock";

/// The clock of this database from now on, at this speed. A clock that always ran at speed 1 is the real one and is not stored.
pub(crate) fn load(database: &Database, speed: u32) -> Result<MachineClock> {
    let real = machine_time();
    let stored = database.meta(META)?.map(|text| serde_json::from_str::<Anchor>(&text)).transpose();
    let stored = stored.context("the stored clock cannot be read")?;
    let anchor =
        stored.map_or(Anchor { schedule: real, real, speed }, |anchor| anchor.with_speed(speed, real));
    if stored.is_some() || speed != 1 {
        database.set_meta(META, &serde_json::to_string(&anchor)?)?;
    }
    Ok(MachineClock::anchored(anchor).steadily())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use holdfast_core::ports::Clock;

    use super::*;

    #[test]
    fn the_clock_continues_after_a_restart_at_any_speed() {
        let folder = tempfile::tempdir().unwrap();
        let fast = load(&Database::open(folder.path()).unwrap(), 1_000_000).unwrap();
        let reached = fast.now();
        let slow = load(&Database::open(folder.path()).unwrap(), 1).unwrap();
        assert!(slow.now() >= reached);
        assert_eq!(slow.to_schedule(Duration::from_secs(1)), Duration::from_secs(1));
    }

    #[test]
    fn an_unscaled_clock_is_the_real_one() {
        let folder = tempfile::tempdir().unwrap();
        let database = Database::open(folder.path()).unwrap();
        let clock = load(&database, 1).unwrap();
        assert!(clock.now().since(clock.now_real()) < Duration::from_secs(1));
        assert!(clock.anchor().is_real());
        assert_eq!(database.meta(META).unwrap(), None);
    }
}
