use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::time::Duration;

use holdfast_core::ids::{Tenant, UrlId};

use super::{Kept, Snapshot, keep};
use crate::simulation::World;

/// Longer than the attempts that may be under way everywhere, and a turn.
const FRESH: Duration = Duration::from_secs(20);

impl World {
    /// What is counted on a URL is what its receiver saw. Less, if a process died or could not write.
    pub(super) fn check_outcomes(&self) -> Kept {
        let mut answers: BTreeMap<(Tenant, UrlId), (u64, u64)> = BTreeMap::new();
        for request in self.hosts.receivers.requests().iter() {
            let seen = answers.entry((request.tenant.clone(), UrlId::of(&request.url))).or_default();
            let succeeded = (200..300).contains(&request.status);
            *(if succeeded { &mut seen.0 } else { &mut seen.1 }) += 1;
        }
        for (url, counted) in self.hosts.observer.outcomes() {
            let seen = answers.get(&url).copied().unwrap_or_default();
            keep!(
                "health counts what receivers answered",
                counted.0 <= seen.0 && counted.1 <= seen.1,
                "{url:?}: {counted:?} were counted, and {seen:?} were answered (successes, failures)"
            );
        }
        Ok(())
    }

    /// A new event for a receiver in good health is attempted at once, whatever happens to other receivers.
    pub(super) fn check_fresh_events(&self, snapshot: &Snapshot) -> Kept {
        let requests = self.hosts.receivers.requests();
        let fresh = self.fresh.lock().unwrap_or_else(PoisonError::into_inner);
        for (event, accepted_at) in fresh.iter() {
            let Some(key) = snapshot.events.get(event) else { continue };
            let prefix = format!("dlv_{key}");
            let first = requests.iter().find(|request| request.delivery.starts_with(&prefix));
            let waited = first.map(|request| request.at.since(*accepted_at));
            keep!(
                "fresh events do not wait for other URLs",
                waited.is_some_and(|waited| waited <= FRESH),
                "{event:?} was attempted {waited:?} after it was accepted"
            );
        }
        Ok(())
    }
}
