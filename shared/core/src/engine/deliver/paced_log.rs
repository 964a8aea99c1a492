use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::time::Timestamp;

const INTERVAL: Duration = Duration::from_secs(1);

/// Lets one line a second into the log, about something that may happen thousands of times a second: the log must not fill the disk.
#[derive(Default)]
pub(crate) struct PacedLog(Mutex<State>);

#[derive(Default)]
struct State {
    logged_at: Option<Timestamp>,
    /// How often it happened without a line since then.
    others: u64,
}

impl PacedLog {
    /// How many had no line since the last one, if a line is due now.
    pub(super) fn due(&self, now_real: Timestamp) -> Option<u64> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A clock that was set back must not keep the log silent.
        if state.logged_at.is_some_and(|last| (last..last + INTERVAL).contains(&now_real)) {
            state.others += 1;
            return None;
        }
        state.logged_at = Some(now_real);
        Some(std::mem::take(&mut state.others))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_line_a_second_which_counts_the_others() {
        let log = PacedLog::default();
        let due = |ms: i64| log.due(Timestamp::from_millis(1_700_000_000_000 + ms));
        assert_eq!([0, 1, 999, 1_000, 1_001].map(due), [Some(0), None, None, Some(2), None]);
        assert_eq!(due(-5_000), Some(1), "the clock was set back");
    }
}
