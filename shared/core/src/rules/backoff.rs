//! How long a message rests before it is received again, when it could not be handled. The customer has no part in this: a
//! failed attempt is handled, and its retry follows the schedule.

use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The batch ran out of time, or another writer came first: the next try is likely to succeed.
    Contention,
    /// We had no file, port, memory or look-up left for the attempt.
    Shortage,
    /// A dependency is slow, throttled or down.
    Dependency,
    /// The record or message was written by a newer release. A deploy takes seconds to minutes.
    NewerVersion,
}

impl Trouble {
    pub const ALL: [Trouble; 4] =
        [Trouble::Contention, Trouble::Shortage, Trouble::Dependency, Trouble::NewerVersion];

    /// (first, maximum)
    fn bounds_secs(self) -> (u64, u64) {
        match self {
            Trouble::Contention => (1, 60),
            Trouble::Shortage => (1, 30),
            Trouble::Dependency => (5, 900),
            Trouble::NewerVersion => (5, 300),
        }
    }
}

const MAX_DOUBLINGS: u32 = 20;

/// How long a message of a newer release rests. It is sent again as a new message, which has not been received before, so the wait
/// cannot grow.
pub const RESEND_AFTER: Duration = Duration::from_secs(60);

/// How long a message rests that was received `receive_count` times (1 is the first): doubled each time, up to a limit.
#[must_use]
pub fn redelivery_delay(trouble: Trouble, receive_count: u32) -> Duration {
    let (first, max) = trouble.bounds_secs();
    let doublings = receive_count.saturating_sub(1).min(MAX_DOUBLINGS);
    Duration::from_secs((first << doublings).min(max))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_rests_longer_each_time_up_to_a_limit() {
        for (trouble, expected) in [
            (Trouble::Contention, [1, 1, 2, 4, 8, 16, 32, 60, 60, 60, 60]),
            (Trouble::Shortage, [1, 1, 2, 4, 8, 16, 30, 30, 30, 30, 30]),
            (Trouble::Dependency, [5, 5, 10, 20, 40, 80, 160, 320, 640, 900, 900]),
            (Trouble::NewerVersion, [5, 5, 10, 20, 40, 80, 160, 300, 300, 300, 300]),
        ] {
            let secs =
                [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10].map(|count| redelivery_delay(trouble, count).as_secs());
            assert_eq!(secs, expected, "{trouble:?}");
            assert_eq!(redelivery_delay(trouble, u32::MAX).as_secs(), trouble.bounds_secs().1, "{trouble:?}");
        }
    }
}
