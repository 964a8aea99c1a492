use std::sync::Arc;
use std::time::Duration;

use data_encoding::HEXLOWER;
use holdfast_core::ports::Entropy;

const FIRST_PAUSE: Duration = Duration::from_millis(20);
const MAX_PAUSE: Duration = Duration::from_millis(640);

/// Random versions of unconditional writes, random marks of writers, and random pauses.
#[derive(Clone)]
pub(super) struct Random(Arc<dyn Entropy>);

impl Random {
    pub(super) fn new(entropy: Arc<dyn Entropy>) -> Random {
        Random(entropy)
    }

    fn number(&self) -> u64 {
        let mut bytes = [0; 8];
        self.0.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// A version that was never used before: above all that are counted from 1, with room to count on.
    pub(super) fn version(&self) -> u64 {
        (1 << 32) + (self.number() >> 2)
    }

    /// Unique to one write.
    pub(super) fn mark(&self) -> String {
        let mut bytes = [0; 10];
        self.0.fill(&mut bytes);
        HEXLOWER.encode(&bytes)
    }

    /// Waits after failed try number `tries` (0 is the first): a random time up to a bound that doubles, so that competing writers
    /// spread out.
    #[expect(clippy::disallowed_methods, reason = "DynamoDB does not signal when other writers are done")]
    pub(super) async fn pause(&self, tries: u32) {
        let bound = MAX_PAUSE.min(FIRST_PAUSE * 2_u32.saturating_pow(tries));
        let nanos = u64::try_from(bound.as_nanos()).unwrap_or(u64::MAX);
        tokio::time::sleep(Duration::from_nanos(self.number() % nanos)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdfast_sim::SeededEntropy;

    #[test]
    fn random_versions_are_above_counted_ones_and_leave_room() {
        let random = Random::new(Arc::new(SeededEntropy::new(1)));
        for _ in 0..1000 {
            let version = random.version();
            assert!((1 << 32..u64::MAX / 2).contains(&version));
        }
    }
}
