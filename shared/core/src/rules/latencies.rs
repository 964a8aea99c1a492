//! How long attempts took, counted in a few numbers that can be added up, so that the median of many batches is known.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Buckets double every so many: each is at most an eighth wider than the one before.
const BUCKETS_PER_DOUBLING: u32 = 8;
/// Shorter ones count as this long: below it, the difference is ours and not the receiver's.
const MIN_LATENCY_MS: u32 = 10;

/// How many attempts took about how long.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<(u32, u32)>", into = "Vec<(u32, u32)>")]
pub struct Latencies(BTreeMap<u32, u32>);

// A list of pairs: the keys of a JSON object are texts.
impl From<Vec<(u32, u32)>> for Latencies {
    fn from(pairs: Vec<(u32, u32)>) -> Latencies {
        Latencies(pairs.into_iter().collect())
    }
}

impl From<Latencies> for Vec<(u32, u32)> {
    fn from(latencies: Latencies) -> Vec<(u32, u32)> {
        latencies.0.into_iter().collect()
    }
}

/// Twice as long is [`BUCKETS_PER_DOUBLING`] further.
fn bucket(took: Duration) -> u32 {
    let ms = u32::try_from(took.as_millis()).unwrap_or(u32::MAX).max(MIN_LATENCY_MS);
    let doublings = ms.ilog2();
    let eighths = (u64::from(ms) * u64::from(BUCKETS_PER_DOUBLING)) >> doublings;
    doublings * BUCKETS_PER_DOUBLING + (eighths as u32 - BUCKETS_PER_DOUBLING)
}

impl Latencies {
    pub fn count(&mut self, took: Duration) {
        *self.0.entry(bucket(took)).or_default() += 1;
    }

    pub fn add(&mut self, other: &Latencies) {
        for (bucket, count) in &other.0 {
            let sum = self.0.entry(*bucket).or_default();
            *sum = sum.saturating_add(*count);
        }
    }

    /// `None`: there are none.
    fn median(&self) -> Option<u32> {
        let all: u64 = self.0.values().map(|count| u64::from(*count)).sum();
        let mut before = 0;
        self.0.iter().find_map(|(bucket, count)| {
            before += u64::from(*count);
            (before * 2 >= all).then_some(*bucket)
        })
    }

    /// Whether the median is more than twice the other one, up to the width of a bucket. `false` if there is no median.
    #[must_use]
    pub fn is_over_twice(&self, other: &Latencies) -> bool {
        match (self.median(), other.median()) {
            (Some(own), Some(other)) => own > other + BUCKETS_PER_DOUBLING,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(ms: &[u64]) -> Latencies {
        let mut latencies = Latencies::default();
        ms.iter().for_each(|ms| latencies.count(Duration::from_millis(*ms)));
        latencies
    }

    #[test]
    fn medians_are_compared() {
        for (own, other, over) in [
            (vec![100], vec![50], false),
            (vec![120], vec![50], true),
            (vec![101, 99, 5_000], vec![50, 51, 1], false),
            (vec![40, 400, 400], vec![50], true),
            // Too short to tell.
            (vec![9], vec![1], false),
            (vec![19], vec![1], false),
            (vec![23], vec![1], true),
            (vec![], vec![50], false),
            (vec![5_000], vec![], false),
        ] {
            assert_eq!(of(&own).is_over_twice(&of(&other)), over, "{own:?} {other:?}");
        }
    }

    /// Counts that an older release wrote are added to those of a newer one.
    #[test]
    fn the_numbers_of_the_buckets_are_stored() {
        let stored = serde_json::to_value(of(&[10, 16, 16, 1_000])).unwrap();
        assert_eq!(stored, serde_json::json!([[26, 1], [32, 2], [79, 1]]));
    }

    proptest! {
        #[test]
        fn twice_is_not_over_twice_and_a_quarter_more_is(ms in 10_u64..100_000) {
            let other = of(&[ms]);
            prop_assert!(!of(&[ms * 2]).is_over_twice(&other));
            prop_assert!(of(&[ms * 2 + ms / 2 + 1]).is_over_twice(&other));
        }

        #[test]
        fn sums_do_not_depend_on_the_batches(ms in prop::collection::vec(0_u64..9_000_000_000, 0..40), at in 0_usize..40) {
            let at = at.min(ms.len());
            let mut sum = of(&ms[..at]);
            sum.add(&of(&ms[at..]));
            prop_assert_eq!(sum, of(&ms));
        }
    }
}
