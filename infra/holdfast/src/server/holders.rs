//! How many connections the holder of a key has. One with thousands would leave few to the others, and each takes memory.

use std::collections::HashMap;
use std::num::NonZeroU64;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::displace::decrement;

/// Beyond it, connections of a holder are closed after each response. As many posts of a tenant are in progress at a time.
pub(super) const MAX_PER_HOLDER: usize = 256;

#[derive(Default)]
pub(super) struct Holders {
    connections: Mutex<HashMap<NonZeroU64, usize>>,
}

impl Holders {
    /// A connection is now of another holder, or of none. Returns how many the new one has.
    pub(super) fn moved(&self, from: Option<NonZeroU64>, to: Option<NonZeroU64>) -> usize {
        let mut connections = self.lock();
        if from != to {
            from.into_iter().for_each(|holder| decrement(connections.entry(holder)));
            to.into_iter().for_each(|holder| *connections.entry(holder).or_insert(0) += 1);
        }
        to.and_then(|holder| connections.get(&holder).copied()).unwrap_or(0)
    }

    /// No change can panic halfway, so the data behind a poisoned lock is consistent.
    fn lock(&self) -> MutexGuard<'_, HashMap<NonZeroU64, usize>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_counted_while_they_are_of_a_holder() {
        let holders = Holders::default();
        let [a, b] = [1, 2].map(NonZeroU64::new);
        assert_eq!(holders.moved(None, a), 1);
        assert_eq!(holders.moved(None, a), 2);
        assert_eq!(holders.moved(a, a), 2);
        assert_eq!(holders.moved(a, b), 1);
        assert_eq!((holders.moved(a, None), holders.moved(b, None)), (0, 0));
        assert!(holders.lock().is_empty());
    }
}
