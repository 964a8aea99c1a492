use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Key;
use crate::ids::{Tenant, UrlId};
use crate::rules::health::{CannotDisableFrozen, Change, Health, Manual, Outcome, UrlState};
use crate::rules::release::Release as ReleaseRule;
use crate::time::Timestamp;

pub use crate::rules::release::Release;

/// One record per tenant and URL, shared by all subscriptions of that tenant with that URL.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UrlRecord {
    pub v: u32,
    pub tenant: Tenant,
    pub id: UrlId,
    pub url: String,
    #[serde(flatten)]
    pub health: Health,
    /// Set in the same write that enables the URL: parked deliveries are being let go.
    pub releasing: Option<Release>,
    pub look_at: Option<Timestamp>,
    pub looks: u32,
    /// Set in the same write that changes the state, until the events about it are on their way.
    #[serde(default)]
    pub unannounced: Option<Unannounced>,
}

/// Changes of state of which the tenant's own subscriptions have not been told yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unannounced {
    /// The generation of the first of them; the history has the rest.
    pub from_generation: u64,
    /// Its ticket should have been followed by then. On its own, because a frozen URL is looked at for no other reason.
    pub look_at: Timestamp,
    pub looks: u32,
}

/// An announcement whose ticket is lost is made after this.
const ANNOUNCE_GRACE: Duration = Duration::from_secs(5 * 60);
/// A release ticket that is lost is sent again after this.
const RELEASE_GRACE: Duration = Duration::from_secs(5 * 60);

/// The two clocks at one moment: the schedule's (which may run faster in development) and the real one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    pub schedule: Timestamp,
    pub real: Timestamp,
}

impl UrlRecord {
    #[must_use]
    pub fn new(tenant: Tenant, id: UrlId, url: String, now: Timestamp) -> UrlRecord {
        let health = Health::new(now);
        UrlRecord {
            v: super::VERSION,
            tenant,
            id,
            url,
            health,
            releasing: None,
            look_at: None,
            looks: 0,
            unannounced: None,
        }
    }

    #[must_use]
    pub fn key(tenant: &Tenant, id: &UrlId) -> Key {
        Key::new(Self::partition(tenant, id), "health")
    }

    #[must_use]
    pub fn partition(tenant: &Tenant, id: &UrlId) -> String {
        format!("url#{tenant}#{id}")
    }

    /// Counts outcomes one after the other. Answers what goes into the history.
    ///
    /// Adapters call this inside one atomic change of the record.
    pub fn count(&mut self, outcomes: &[Outcome], now: Now) -> Vec<HistoryEntry> {
        let probe_before = self.health.next_probe_at;
        let mut history = Vec::new();
        for outcome in outcomes {
            if let Some(change) = self.health.count(outcome) {
                self.after_change(now);
                self.announce_later(now.schedule);
                history.push(self.history_entry(change, outcome.ended_at, "holdfast"));
            }
        }
        if self.health.next_probe_at != probe_before {
            self.look_again_at(self.health.next_probe_at.or(self.look_at));
        }
        history
    }

    /// What a person asked for.
    pub fn steer(
        &mut self,
        action: Manual,
        why: &str,
        by: &str,
        now: Now,
    ) -> Result<Option<HistoryEntry>, CannotDisableFrozen> {
        let change = self.health.steer(action, now.schedule, why)?;
        if change.is_some() || action == Manual::Enable {
            self.after_change(now);
        }
        if change.is_some() {
            self.announce_later(now.schedule);
        }
        Ok(change.map(|change| self.history_entry(change, now.schedule, by)))
    }

    fn after_change(&mut self, now: Now) {
        match self.health.state {
            UrlState::Enabled => self.start_release(now),
            UrlState::Disabled => {
                self.releasing = None;
                self.look_again_at(self.health.next_probe_at);
            }
            UrlState::Frozen => {
                self.releasing = None;
                self.look_again_at(None);
            }
        }
    }

    /// Lets parked deliveries go, from a gentle start.
    pub fn start_release(&mut self, now: Now) {
        let step = self.releasing.map_or(0, |r| r.step + 1);
        self.releasing = Some(ReleaseRule::begin(step, now, self.health.window_failures));
        self.look_again_at(Some(now.schedule + RELEASE_GRACE));
    }

    pub fn end_release(&mut self) {
        self.releasing = None;
        self.look_again_at(None);
    }

    /// Claims a step of the release. Answers how many parked deliveries it may let go.
    pub fn claim_release_step(&mut self, now: Timestamp) -> Option<u32> {
        let size = self.releasing.as_mut()?.claim_step(now, self.health.window_failures);
        self.look_again_at(Some(now + RELEASE_GRACE));
        Some(size)
    }

    /// Takes the right to make the one probe of these 10 minutes.
    pub fn lease_probe(&mut self, now: Timestamp, function_timeout: Duration) -> bool {
        let leased = self.health.lease_probe(now, function_timeout);
        if leased {
            self.look_again_at(self.health.next_probe_at);
        }
        leased
    }

    fn announce_later(&mut self, now: Timestamp) {
        let from_generation = self.unannounced.map_or(self.health.generation, |u| u.from_generation);
        self.unannounced = Some(Unannounced { from_generation, look_at: now + ANNOUNCE_GRACE, looks: 0 });
    }

    /// When somebody should look at this URL, for whatever reason.
    #[must_use]
    pub fn next_look_at(&self) -> Option<Timestamp> {
        let announcement = self.unannounced.map(|unannounced| unannounced.look_at);
        self.look_at.into_iter().chain(announcement).min()
    }

    fn look_again_at(&mut self, at: Option<Timestamp>) {
        self.look_at = at;
        self.looks = 0;
    }

    fn history_entry(&self, change: Change, at: Timestamp, by: &str) -> HistoryEntry {
        HistoryEntry {
            tenant: self.tenant.clone(),
            url_id: self.id.clone(),
            generation: self.health.generation,
            at,
            from: change.from,
            to: change.to,
            by: by.to_owned(),
            why: change.why,
        }
    }
}

/// One change of state: when, from, to, by whom, why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryEntry {
    pub tenant: Tenant,
    pub url_id: UrlId,
    pub generation: u64,
    pub at: Timestamp,
    pub from: UrlState,
    pub to: UrlState,
    pub by: String,
    pub why: String,
}

impl HistoryEntry {
    pub const PREFIX: &str = "history#";

    #[must_use]
    pub fn key(&self) -> Key {
        Key::new(UrlRecord::partition(&self.tenant, &self.url_id), Self::sort(self.generation))
    }

    /// In the order of generations.
    #[must_use]
    pub fn sort(generation: u64) -> String {
        format!("{}{generation:012}", Self::PREFIX)
    }
}

/// Stands in the tenant's list of URLs; never changes, so that the list is not written when health is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UrlListEntry {
    pub tenant: Tenant,
    pub id: UrlId,
}

impl UrlListEntry {
    #[must_use]
    pub fn partition(tenant: &Tenant) -> String {
        format!("urls#{tenant}")
    }
}
