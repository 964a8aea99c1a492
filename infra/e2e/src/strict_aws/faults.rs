//! Which calls go wrong, and how: shares of all calls, by a seed.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Shares between 0 and 1.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shares {
    /// Answered with 500 or 503, without any effect.
    pub failed: f64,
    /// Carried out, and then the connection is closed without an answer.
    pub lost: f64,
    /// Carried out, and answered late.
    pub late: f64,
    /// Sent messages that arrive twice.
    pub duplicated: f64,
    /// Sent messages that become visible later than asked.
    pub delayed: f64,
    /// Entries of a batch that are reported as failed, although the request succeeds.
    pub entries: f64,
}

/// How late an answer comes. Functions give up on an answer after three seconds at most, so some of these are repeated.
const MAX_LATE: Duration = Duration::from_secs(2);
const MAX_DELAY_SECS: u64 = 5;

/// A source of random numbers (splitmix64), so that a run can be repeated as far as the order of calls allows.
pub struct Dice(Mutex<u64>);

impl Dice {
    #[must_use]
    pub fn new(seed: u64) -> Dice {
        Dice(Mutex::new(seed))
    }

    fn next(&self) -> u64 {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = *state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// True in this share of all cases.
    pub fn hits(&self, share: f64) -> bool {
        // 53 bits, as many as a float has.
        let unit = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        unit < share
    }

    /// A number below `end`, which is not 0.
    pub fn below(&self, end: u64) -> u64 {
        self.next() % end
    }

    /// How late an answer comes.
    pub fn lateness(&self) -> Duration {
        let max_ms = u64::try_from(MAX_LATE.as_millis()).unwrap_or(u64::MAX);
        Duration::from_millis(100 + self.below(max_ms))
    }

    pub fn delay_secs(&self) -> u64 {
        1 + self.below(MAX_DELAY_SECS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_and_shares_are_met() {
        let rolls = |seed: u64| {
            let dice = Dice::new(seed);
            (0..10_000).map(|_| dice.hits(0.01)).collect::<Vec<bool>>()
        };
        assert_eq!(rolls(1), rolls(1));
        assert_ne!(rolls(1), rolls(2));
        let hits = rolls(1).iter().filter(|hit| **hit).count();
        assert!((50..200).contains(&hits), "{hits} of 10,000 at 1 %");
        assert!(!Dice::new(3).hits(0.0) && Dice::new(3).hits(1.0));
    }
}
