//! A tenant's requests that take the processor or the store for a while: few of them are worked on at a time, and the others wait, so
//! that one tenant cannot keep all threads busy.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use holdfast_core::ids::Tenant;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How many posts of a tenant are parsed at the same time. Parsing a large one takes milliseconds, without a pause.
const PARSED_POSTS: usize = 2;
/// How many other requests of a tenant are worked on at the same time.
const OTHER_REQUESTS: usize = 8;
/// So many tenants are remembered before the first search for those without requests.
const MIN_PRUNED: usize = 1_024;

/// The turns of all tenants.
pub(crate) struct Turns {
    pub(crate) to_parse: TurnsOf,
    pub(crate) for_others: TurnsOf,
}

impl Default for Turns {
    fn default() -> Turns {
        Turns { to_parse: TurnsOf::new(PARSED_POSTS), for_others: TurnsOf::new(OTHER_REQUESTS) }
    }
}

/// The turns for one kind of work.
pub(crate) struct TurnsOf {
    at_a_time: usize,
    by_tenant: Mutex<HashMap<Tenant, Weak<Semaphore>>>,
}

/// Ends when it is dropped.
pub(crate) struct Turn(#[expect(dead_code, reason = "held for its drop")] Option<OwnedSemaphorePermit>);

impl TurnsOf {
    fn new(at_a_time: usize) -> TurnsOf {
        TurnsOf { at_a_time, by_tenant: Mutex::default() }
    }

    /// Waits for a turn of this tenant.
    pub(crate) async fn take(&self, tenant: &Tenant) -> Turn {
        // A semaphore that is never closed always has a permit in the end.
        Turn(self.of(tenant).acquire_owned().await.ok())
    }

    fn of(&self, tenant: &Tenant) -> Arc<Semaphore> {
        let mut by_tenant = self.by_tenant.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = by_tenant.get(tenant).and_then(Weak::upgrade) {
            return found;
        }
        if by_tenant.len() >= MIN_PRUNED {
            by_tenant.retain(|_, semaphore| semaphore.strong_count() > 0);
        }
        let new = Arc::new(Semaphore::new(self.at_a_time));
        by_tenant.insert(tenant.clone(), Arc::downgrade(&new));
        new
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn a_tenant_has_few_turns_at_a_time_and_others_have_their_own() {
        let turns = TurnsOf::new(2);
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
        let turns = TurnsOf::new(1);
        let held = turns.take(&"held".into()).now_or_never();
        for n in 0..MIN_PRUNED * 3 {
            turns.take(&format!("t{n}").as_str().into()).now_or_never();
        }
        assert!(turns.by_tenant.lock().unwrap().len() <= MIN_PRUNED);
        assert!(turns.take(&"held".into()).now_or_never().is_none());
        drop(held);
    }
}
