//! A tenant's requests that take the processor or the store for a while: few of them are worked on at a time, and the others wait, so
//! that one tenant cannot keep all threads busy.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use holdfast_core::ids::Tenant;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::auth::KeyHolder;

/// How many bodies of a tenant, or of all operator keys, are parsed at the same time. Parsing a large one takes milliseconds.
const PARSED_BODIES: usize = 1;
/// How many other requests of a tenant are worked on at the same time.
const OTHER_REQUESTS: usize = 8;
/// So many holders are remembered before the first search for those without requests.
const MIN_PRUNED: usize = 1_024;

/// The turns of all tenants.
pub(crate) struct Turns {
    pub(crate) to_parse: TurnsOf<KeyHolder>,
    pub(crate) for_others: TurnsOf<Tenant>,
}

impl Default for Turns {
    fn default() -> Turns {
        Turns { to_parse: TurnsOf::new(PARSED_BODIES), for_others: TurnsOf::new(OTHER_REQUESTS) }
    }
}

/// The turns for one kind of work.
pub(crate) struct TurnsOf<T> {
    at_a_time: usize,
    by_holder: Mutex<HashMap<T, Weak<Semaphore>>>,
}

/// Ends when it is dropped.
pub(crate) struct Turn(#[expect(dead_code, reason = "held for its drop")] Option<OwnedSemaphorePermit>);

impl<T: Clone + Eq + Hash> TurnsOf<T> {
    fn new(at_a_time: usize) -> TurnsOf<T> {
        TurnsOf { at_a_time, by_holder: Mutex::default() }
    }

    /// Waits for a turn of this holder.
    pub(crate) async fn take(&self, holder: &T) -> Turn {
        // A semaphore that is never closed always has a permit in the end.
        Turn(self.of(holder).acquire_owned().await.ok())
    }

    fn of(&self, holder: &T) -> Arc<Semaphore> {
        let mut by_holder = self.by_holder.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = by_holder.get(holder).and_then(Weak::upgrade) {
            return found;
        }
        if by_holder.len() >= MIN_PRUNED {
            by_holder.retain(|_, semaphore| semaphore.strong_count() > 0);
        }
        let new = Arc::new(Semaphore::new(self.at_a_time));
        by_holder.insert(holder.clone(), Arc::downgrade(&new));
        new
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn a_tenant_has_few_turns_at_a_time_and_others_have_their_own() {
        let turns = TurnsOf::<Tenant>::new(2);
        let take = |tenant: &str| turns.take(&tenant.into()).now_or_never();
        let (one, two) = (take("a"), take("a"));
        assert!(one.is_some() && two.is_some());
        assert!(take("a").is_none());
        assert!(take("b").is_some());
        drop(one);
        assert!(take("a").is_some());
    }

    #[test]
    fn tenants_without_requests_are_forgotten() {
        let turns = TurnsOf::<Tenant>::new(1);
        let held = turns.take(&"held".into()).now_or_never();
        for n in 0..MIN_PRUNED * 3 {
            turns.take(&format!("t{n}").as_str().into()).now_or_never();
        }
        assert!(turns.by_holder.lock().unwrap().len() <= MIN_PRUNED);
        assert!(turns.take(&"held".into()).now_or_never().is_none());
        drop(held);
    }
}
