//! How often one URL is changed by hand. Each change writes its record, its history and a ticket, so a program that freezes and enables a URL
//! in a loop would otherwise write more than all events.
//!
//! Counted in the memory of each process, like the rate of posts.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::engine::Engine;
use crate::ids::{Tenant, UrlId};
use crate::rules::announcements::{AnnouncementPace, MAX_AT_ONCE};
use crate::time::Timestamp;

/// So many URLs are remembered before the first search for those that need not be.
const MIN_PRUNED: usize = 1_024;
/// And so many at the most: the changes of further ones are not counted, so that they are not refused for those of others.
const MAX_REMEMBERED: usize = 100_000;

/// The URLs that were changed lately. They have the pace at which changes are announced.
#[derive(Default)]
pub(in crate::engine) struct HandChanges(Mutex<Paces>);

#[derive(Default)]
struct Paces {
    by_url: HashMap<(Tenant, UrlId), AnnouncementPace>,
    prune_at: usize,
}

impl HandChanges {
    /// Counts a change, or says how long to wait.
    fn take(&self, tenant: &Tenant, url_id: &UrlId, now: Timestamp) -> Result<(), Duration> {
        let mut paces = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (tenant.clone(), url_id.clone());
        if !paces.by_url.contains_key(&key) {
            if paces.by_url.len() >= paces.prune_at.max(MIN_PRUNED) {
                paces.by_url.retain(|_, pace| pace.available(now) < MAX_AT_ONCE);
                // Not before there are twice as many, so that pruning stays cheap when none can be forgotten.
                paces.prune_at = (paces.by_url.len() * 2).min(MAX_REMEMBERED);
            }
            if paces.by_url.len() >= MAX_REMEMBERED {
                return Ok(());
            }
        }
        let pace = paces.by_url.entry(key).or_default();
        if pace.available(now) == 0 {
            return Err(pace.wait(now));
        }
        pace.take(1, now);
        Ok(())
    }
}

impl Engine {
    /// Counts a change of this URL by hand, or says how long to wait: ten pass at once, and then one every six seconds.
    pub fn take_url_change(&self, tenant: &Tenant, url_id: &UrlId) -> Result<(), Duration> {
        self.hand_changes.take(tenant, url_id, self.ports.clock.now_real())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: u64) -> Timestamp {
        Timestamp::from_millis(1_700_000_000_000) + Duration::from_secs(secs)
    }

    #[test]
    fn ten_changes_of_a_url_pass_at_once_and_then_one_every_six_seconds() {
        let changes = HandChanges::default();
        let take = |tenant: &str, url: &str, secs| changes.take(&tenant.into(), &UrlId::of(url), at(secs));
        for _ in 0..10 {
            take("a", "x", 0).unwrap();
        }
        assert_eq!(take("a", "x", 0), Err(Duration::from_secs(6)));
        assert_eq!(take("a", "x", 2), Err(Duration::from_secs(4)), "a refused one does not count");
        take("a", "x", 6).unwrap();
        take("a", "x", 6).unwrap_err();
        take("a", "y", 6).unwrap();
        take("b", "x", 6).unwrap();
    }

    #[test]
    fn urls_that_may_be_changed_freely_again_are_forgotten() {
        let changes = HandChanges::default();
        for n in 0..MIN_PRUNED as u64 * 4 {
            changes.take(&"a".into(), &UrlId::of(&n.to_string()), at(n)).unwrap();
            let remembered = changes.0.lock().unwrap().by_url.len();
            assert!(remembered <= MIN_PRUNED, "{remembered}");
        }
    }
}
