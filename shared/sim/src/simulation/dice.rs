use std::time::Duration;

use holdfast_core::ports::Entropy;

use crate::SeededEntropy;

/// All chance of a simulation, from one seed: the same seed tells the same story.
pub(super) struct Dice(SeededEntropy);

impl Dice {
    #[must_use]
    pub(super) fn new(seed: u64) -> Dice {
        // Neighbouring seeds begin far apart.
        Dice(SeededEntropy::new(seed.wrapping_mul(0xd134_2543_de82_ef95)))
    }

    /// Less than `end`; 0 if `end` is 0.
    pub(super) fn below(&self, end: u64) -> u64 {
        self.0.next_u64().checked_rem(end).unwrap_or(0)
    }

    /// From `start` to `end`, both included.
    pub(super) fn between(&self, start: u64, end: u64) -> u64 {
        start + self.below(end.saturating_sub(start) + 1)
    }

    /// Whether something happens that happens so often in 10,000 times. Rolls only if there is something to decide.
    pub(super) fn happens(&self, in_10_000: u64) -> bool {
        in_10_000 > 0 && self.below(10_000) < in_10_000
    }

    pub(super) fn pick<'a, T>(&self, from: &'a [T]) -> Option<&'a T> {
        from.get(self.below(from.len() as u64) as usize)
    }

    /// Whole milliseconds, both ends included.
    pub(super) fn time(&self, shortest: Duration, longest: Duration) -> Duration {
        Duration::from_millis(self.between(shortest.as_millis() as u64, longest.as_millis() as u64))
    }
}

impl Entropy for Dice {
    fn fill(&self, bytes: &mut [u8]) {
        self.0.fill(bytes);
    }
}
