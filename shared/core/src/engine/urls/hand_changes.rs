//! How often one URL is changed by hand. Each change writes its record, its history and a ticket, so a program that freezes and enables a URL
//! in a loop would otherwise write more than all events.
//!
//! Counted in the memory of each process, like the rate of posts.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::engine::Engine;
use crate::engine::lately::Lately;
use crate::ids::{Tenant, UrlId};
use crate::rules::announcements::{AnnouncementPace, MAX_AT_ONCE};
use crate::time::Timestamp;

/// What is changed too often, and how long to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangedTooOften {
    Url(Duration),
    /// All of its URLs and subscriptions together.
    Tenant(Duration),
}

/// The URLs that were changed lately. They have the pace at which changes are announced.
#[derive(Default)]
pub(in crate::engine) struct HandChanges(Mutex<Lately<(Tenant, UrlId), AnnouncementPace>>);

impl HandChanges {
    /// Counts a change, or says how long to wait.
    fn take(&self, tenant: &Tenant, url_id: &UrlId, now: Timestamp) -> Result<(), Duration> {
        let mut lately = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (tenant.clone(), url_id.clone());
        let is_fresh = |pace: &AnnouncementPace| pace.available(now) >= MAX_AT_ONCE;
        let Some(pace) = lately.pace(key, is_fresh, AnnouncementPace::default) else { return Ok(()) };
        if pace.available(now) == 0 {
            return Err(pace.wait(now));
        }
        pace.take(1, now);
        Ok(())
    }
}

impl Engine {
    /// Counts a change of this URL by hand, or says how long to wait: ten pass at once, and then one every six seconds. It counts among the
    /// changes of its tenant, too.
    pub fn take_url_change(
        &self,
        tenant: &Tenant,
        url_id: &UrlId,
        reason: Option<&str>,
    ) -> Result<(), ChangedTooOften> {
        let now = self.ports.clock.now_real();
        self.hand_changes.take(tenant, url_id, now).map_err(ChangedTooOften::Url)?;
        self.take_change(tenant, reason.map_or(0, str::len)).map_err(ChangedTooOften::Tenant)
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
}
