//! Points in time. The engine never reads a clock: a `Timestamp` always comes in as an argument.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Milliseconds since the Unix epoch. Kept as a number in records, shown as RFC 3339 in the API.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(i64);

/// The latest time that RFC 3339 can write (year 9999); arithmetic stops there instead of overflowing.
const LATEST_MS: i64 = 253_402_207_200_000;

impl Timestamp {
    pub const ZERO: Timestamp = Timestamp(0);
    /// For what never ends.
    pub const MAX: Timestamp = Timestamp(i64::MAX);

    #[must_use]
    pub const fn from_millis(ms: i64) -> Timestamp {
        let ms = if ms > LATEST_MS { LATEST_MS } else { ms };
        Timestamp(if ms < 0 { 0 } else { ms })
    }

    #[must_use]
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    #[must_use]
    pub const fn as_secs(self) -> i64 {
        self.0 / 1000
    }

    /// How long after `earlier` this is; zero if it is not.
    #[must_use]
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_millis(u64::try_from(self.0 - earlier.0).unwrap_or(0))
    }

    /// Reads RFC 3339, as the API takes it.
    #[must_use]
    pub fn parse(text: &str) -> Option<Timestamp> {
        text.parse::<jiff::Timestamp>().ok().map(|t| Timestamp::from_millis(t.as_millisecond()))
    }

    /// Fixed-width decimal, so that keys made of it sort as the times do.
    #[must_use]
    pub fn sort_key(self) -> String {
        format!("{:015}", self.0)
    }
}

/// Both clocks at one moment: the schedule's, which may run faster in development, and the real one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    pub schedule: Timestamp,
    pub real: Timestamp,
}

impl Add<Duration> for Timestamp {
    type Output = Timestamp;
    fn add(self, d: Duration) -> Timestamp {
        let ms = i64::try_from(d.as_millis()).unwrap_or(i64::MAX);
        Timestamp::from_millis(self.0.saturating_add(ms))
    }
}

impl Sub<Duration> for Timestamp {
    type Output = Timestamp;
    fn sub(self, d: Duration) -> Timestamp {
        let ms = i64::try_from(d.as_millis()).unwrap_or(i64::MAX);
        Timestamp::from_millis(self.0.saturating_sub(ms))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(t) => write!(f, "{t:.3}"),
            Err(_) => write!(f, "{}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_and_reads_rfc_3339() {
        let t = Timestamp::from_millis(1_727_857_919_307);
        assert_eq!(t.to_string(), "2024-10-02T08:31:59.307Z");
        assert_eq!(Timestamp::parse("2024-10-02T08:31:59.307Z"), Some(t));
        assert_eq!(Timestamp::parse("yesterday"), None);
    }

    #[test]
    fn arithmetic_never_overflows() {
        let far = Timestamp::from_millis(i64::MAX) + Duration::MAX;
        assert!(far.to_string().starts_with("9999"));
        assert_eq!(Timestamp::ZERO - Duration::from_secs(1), Timestamp::ZERO);
    }
}
