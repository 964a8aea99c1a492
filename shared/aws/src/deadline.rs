use std::time::Duration;

use holdfast_core::ports::Clock;
use holdfast_core::time::Timestamp;

/// Reserved at the end of an invocation for settling its batch, and within that for the response. Less if the function has little time.
const TO_SETTLE: Duration = Duration::from_secs(1);
const TO_ANSWER: Duration = Duration::from_millis(250);

/// When an invocation must end, in real time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline {
    /// Nothing is started after this.
    pub(crate) work_ends: Timestamp,
    answer_is_due: Timestamp,
}

/// How much of an invocation's time is reserved for settling its messages.
pub(crate) fn to_settle(left: Duration) -> Duration {
    TO_SETTLE.min(left / 4)
}

impl Deadline {
    /// `ends`: when Lambda ends the function.
    #[must_use]
    pub fn of(now_real: Timestamp, ends: Timestamp) -> Deadline {
        let left = ends.since(now_real);
        Deadline { work_ends: ends - to_settle(left), answer_is_due: ends - TO_ANSWER.min(left / 16) }
    }

    pub(crate) fn until_work_ends(&self, clock: &dyn Clock) -> Duration {
        self.work_ends.since(clock.now_real())
    }

    pub(crate) fn until_answer_is_due(&self, clock: &dyn Clock) -> Duration {
        self.answer_is_due.since(clock.now_real())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_to_settle_is_reserved() {
        let at = Timestamp::from_millis;
        let usual = Deadline::of(at(1_000_000), at(1_030_000));
        assert_eq!((usual.work_ends, usual.answer_is_due), (at(1_029_000), at(1_029_750)));
        let short = Deadline::of(at(1_000_000), at(1_001_600));
        assert_eq!((short.work_ends, short.answer_is_due), (at(1_001_200), at(1_001_500)));
        let over = Deadline::of(at(1_000_000), at(999_000));
        assert_eq!(over.work_ends, at(999_000));
    }
}
