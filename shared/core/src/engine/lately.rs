//! Who did something lately, in the memory of this process, so that what is done too often is refused.

use std::collections::HashMap;
use std::hash::Hash;

/// So many come at least before those that need not be remembered are looked for.
const MIN_PRUNED: usize = 1_024;
/// And so many at the most: what further ones do is not counted, so that they are not refused for what others do.
const MAX_REMEMBERED: usize = 100_000;

/// How much each of them may still do.
pub(super) struct Lately<K, P> {
    paces: HashMap<K, P>,
    /// How many others came since those that need not be remembered were looked for.
    came: usize,
    /// How many of them come before that is done again.
    prune_after: usize,
}

impl<K, P> Default for Lately<K, P> {
    fn default() -> Lately<K, P> {
        Lately { paces: HashMap::new(), came: 0, prune_after: MIN_PRUNED }
    }
}

impl<K: Eq + Hash, P> Lately<K, P> {
    /// The pace of this one. `None`: too many are remembered. `is_fresh` tells those that may do as much as if they had done nothing.
    pub(super) fn pace(
        &mut self,
        key: K,
        is_fresh: impl Fn(&P) -> bool,
        new: impl FnOnce() -> P,
    ) -> Option<&mut P> {
        if !self.paces.contains_key(&key) {
            self.came += 1;
            if self.came > self.prune_after {
                self.paces.retain(|_, pace| !is_fresh(pace));
                // As many as are left, so that it stays cheap when none can be forgotten.
                (self.came, self.prune_after) = (1, self.paces.len().max(MIN_PRUNED));
            }
            if self.paces.len() >= MAX_REMEMBERED {
                return None;
            }
        }
        Some(self.paces.entry(key).or_insert_with(new))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_are_fresh_again_are_forgotten() {
        let mut lately = Lately::<u64, u64>::default();
        for n in 0..MIN_PRUNED as u64 * 4 {
            lately.pace(n, |since| n - since > 100, || n).unwrap();
            assert!(lately.paces.len() <= MIN_PRUNED + 101, "{}", lately.paces.len());
        }
        assert!(lately.paces.contains_key(&(MIN_PRUNED as u64 * 4 - 50)));
    }

    #[test]
    fn there_is_a_most_and_those_that_are_remembered_stay_counted() {
        let mut lately = Lately::<usize, usize>::default();
        for n in 0..MAX_REMEMBERED {
            *lately.pace(n, |_| false, || 0).unwrap() += 1;
        }
        let asked = std::cell::Cell::new(0);
        let is_fresh = |_: &usize| {
            asked.set(asked.get() + 1);
            false
        };
        for n in 0..MAX_REMEMBERED {
            assert_eq!(lately.pace(MAX_REMEMBERED + n, is_fresh, || 0), None);
        }
        assert!(asked.get() <= 2 * MAX_REMEMBERED, "not all of them for each that comes: {}", asked.get());
        assert_eq!(lately.pace(7, |_| false, || 0), Some(&mut 1));
    }
}
