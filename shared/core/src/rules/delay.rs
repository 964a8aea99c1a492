//! How long a queue holds a message.

use std::time::Duration;

/// How long a queue holds a message back, in whole seconds of the schedule's clock. A queue holds at most 15 minutes: longer
/// waits rest in the store. The only way to make one is through the check, so no adapter can be asked for more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Delay(u16);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a queue holds a message for at most {} s, not {wait:?}", Delay::MAX_SECS)]
pub struct DelayTooLong {
    pub wait: Duration,
}

impl Delay {
    pub const MAX_SECS: u16 = 900;
    pub const NONE: Delay = Delay(0);
    pub const MAX: Delay = Delay(Delay::MAX_SECS);

    /// Rounds up: never earlier than asked.
    pub fn new(wait: Duration) -> Result<Delay, DelayTooLong> {
        let secs = wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0));
        match u16::try_from(secs) {
            Ok(secs) if secs <= Delay::MAX_SECS => Ok(Delay(secs)),
            _ => Err(DelayTooLong { wait }),
        }
    }

    /// As long as asked, or as long as a queue can: for hints that are sent on when they come early.
    #[must_use]
    pub fn at_most(wait: Duration) -> Delay {
        Delay::new(wait).unwrap_or(Delay::MAX)
    }

    #[must_use]
    pub fn as_secs(self) -> u16 {
        self.0
    }

    #[must_use]
    pub fn as_duration(self) -> Duration {
        Duration::from_secs(u64::from(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_rounds_up_and_has_a_limit() {
        assert_eq!(Delay::new(Duration::from_millis(84_800)).unwrap().as_secs(), 85);
        assert_eq!(Delay::new(Duration::from_secs(900)).unwrap(), Delay::MAX);
        assert_eq!(Delay::MAX.as_duration(), Duration::from_secs(900));
        let too_long = Duration::from_millis(900_001);
        assert_eq!(Delay::new(too_long), Err(DelayTooLong { wait: too_long }));
        assert_eq!(Delay::at_most(Duration::MAX), Delay::MAX);
    }
}
