use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Key, TroubleNotes};
use crate::ids::{Tenant, UrlId};
use crate::rules::announcements::AnnouncementPace;
use crate::rules::health::{CannotDisableFrozen, Change, Health, OperatorAction, Outcome, UrlState};
use crate::rules::look_at;
use crate::rules::release::Release;
use crate::time::{Now, Timestamp};

/// One record per tenant and URL, shared by all subscriptions of that tenant with that URL.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UrlRecord {
    pub tenant: Tenant,
    pub id: UrlId,
    pub url: String,
    #[serde(flatten)]
    pub health: Health,
    /// How long its recent answers took: a moving average in milliseconds. Concurrent batches may each leave out the answers of the other.
    #[serde(default)]
    pub recent_ms: u32,
    /// Set in the same write that enables the URL: parked deliveries are being released.
    pub releasing: Option<Release>,
    pub look_at: Option<Timestamp>,
    /// How often in a row the sweep looked and nothing was due.
    pub looks: u32,
    /// Set in the same write that changes the state, until the events about it are on their way.
    pub announcement: Option<PendingAnnouncement>,
    /// How many of its changes were announced lately.
    #[serde(default)]
    pub announced: AnnouncementPace,
    /// What is to be announced of its trouble while it is enabled.
    #[serde(default)]
    pub trouble: TroubleNotes,
    /// How many subscriptions have it. `None`: not known, because the record was lost and made again; such a URL is never removed.
    #[serde(default)]
    pub subscriptions: Option<u64>,
    /// When the sweep removes it with its history, because its last subscription is gone.
    #[serde(default)]
    pub remove_at: Option<Timestamp>,
}

/// Changes of state, or notes of its trouble, that have not been announced yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingAnnouncement {
    /// The generation of the first change of state among them; the history has the rest.
    pub from_generation: u64,
    /// When the sweep sends the ticket again. Separate from the URL's own, because a frozen URL is looked at for no other reason.
    pub look_at: Timestamp,
    pub looks: u32,
}

/// What a look at a URL shows to be due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UrlLook {
    pub probe: bool,
    pub release_step: Option<u64>,
    pub announcement: bool,
}

impl UrlRecord {
    #[must_use]
    pub fn new(tenant: Tenant, id: UrlId, url: String, now: Timestamp) -> UrlRecord {
        let health = Health::new(now);
        UrlRecord {
            tenant,
            id,
            url,
            health,
            recent_ms: 0,
            releasing: None,
            look_at: None,
            looks: 0,
            announcement: None,
            announced: AnnouncementPace::default(),
            trouble: TroubleNotes::default(),
            subscriptions: None,
            remove_at: None,
        }
    }

    /// One more subscription has it.
    pub fn add_subscription(&mut self) {
        self.subscriptions = self.subscriptions.map(|count| count.saturating_add(1));
        self.remove_at = None;
    }

    /// One subscription fewer has it. Without any, it is kept as long as its deliveries are.
    pub fn remove_subscription(&mut self, now: Timestamp, keep: Duration) {
        self.subscriptions = self.subscriptions.map(|count| count.saturating_sub(1));
        self.remove_at = (self.subscriptions == Some(0)).then(|| now + keep);
    }

    /// Whether it has had no subscription for long enough.
    #[must_use]
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.remove_at.is_some_and(|remove_at| remove_at <= now)
    }

    #[must_use]
    pub fn key(tenant: &Tenant, id: &UrlId) -> Key {
        Key::new(Self::partition(tenant, id), "health")
    }

    #[must_use]
    pub fn partition(tenant: &Tenant, id: &UrlId) -> String {
        format!("url#{tenant}#{id}")
    }

    /// Counts outcomes one after the other. Returns what goes into the history.
    ///
    /// Adapters call this inside one atomic change of the record.
    pub fn count(&mut self, outcomes: &[Outcome], now: Now) -> Vec<HistoryEntry> {
        let probe_before = self.health.next_probe_at;
        let mut history = Vec::new();
        for outcome in outcomes {
            if outcome.generation == self.health.generation {
                self.recent_ms = outcome.recent_ms;
            }
            let (was_failing, failing_since) = (self.health.failing, self.health.failing_since);
            if let Some(change) = self.health.count(outcome) {
                self.after_change(now);
                self.announce_later(self.health.generation, now.schedule);
                history.push(self.history_entry(change, outcome.ended_at, "holdfast"));
            } else if was_failing != self.health.failing && self.health.state == UrlState::Enabled {
                self.note_trouble(outcome, failing_since, now.schedule);
            }
            if !self.health.failing {
                self.trouble.forget();
            }
        }
        if self.health.next_probe_at != probe_before {
            self.look_again_at(self.health.next_probe_at.or(self.look_at));
        }
        history
    }

    /// It got into trouble, or out of it, without a change of state that would be announced.
    fn note_trouble(&mut self, outcome: &Outcome, failing_since: Option<Timestamp>, now: Timestamp) {
        let is_noted = if self.health.failing {
            // Nothing follows from Holdfast's own events but a line in the log: else they would cause each other.
            let is_noted = !outcome.is_own_event;
            if is_noted {
                self.trouble.failing(&self.health, outcome.ended_at);
            }
            is_noted
        } else {
            self.trouble.recovered(failing_since, outcome.ended_at)
        };
        if is_noted {
            // The present generation has been announced already.
            self.announce_later(self.health.generation + 1, now);
        }
    }

    /// Applies what an operator asked for.
    pub fn apply_action(
        &mut self,
        action: OperatorAction,
        why: &str,
        by: &str,
        now: Now,
    ) -> Result<Option<HistoryEntry>, CannotDisableFrozen> {
        let change = self.health.apply_action(action, now.schedule, why)?;
        if change.is_some() || action == OperatorAction::Enable {
            self.after_change(now);
        }
        if change.is_some() {
            self.announce_later(self.health.generation, now.schedule);
        }
        if !self.health.failing {
            self.trouble.forget();
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

    /// Starts to release parked deliveries, beginning with one.
    pub fn start_release(&mut self, now: Now) {
        let step = self.releasing.as_ref().map_or(0, |r| r.step + 1);
        self.releasing = Some(Release::begin(step, now));
        self.look_again_at(Some(look_at::while_ticket_is_out(now.schedule)));
    }

    /// Parked deliveries were found while the URL is enabled: its release goes on, or starts again. Returns the step that is next.
    pub fn keep_releasing(&mut self, now: Now) -> u64 {
        debug_assert!(self.health.state == UrlState::Enabled, "only an enabled URL is released");
        match &mut self.releasing {
            // The function that is about to end the release finds the record changed.
            Some(release) => release.enabled_at_real = now.real,
            None => self.start_release(now),
        }
        self.releasing.as_ref().map_or(0, |release| release.step)
    }

    pub fn end_release(&mut self) {
        self.releasing = None;
        self.look_again_at(None);
    }

    /// Claims a step of the release. Returns its number and how many parked deliveries it may release.
    pub fn claim_release_step(&mut self, now: Now, http_timeout: Duration) -> Option<(u64, u32)> {
        let claimed = self.releasing.as_mut()?.claim_step(now, http_timeout);
        self.look_again_at(Some(look_at::while_ticket_is_out(now.schedule)));
        Some(claimed)
    }

    /// Takes the right to make the one probe of these 10 minutes.
    pub fn lease_probe(&mut self, now: Timestamp, function_timeout: Duration) -> bool {
        let leased = self.health.lease_probe(now, function_timeout);
        if leased {
            self.look_again_at(self.health.next_probe_at);
        }
        leased
    }

    /// The probe for which the right was taken was not made.
    pub fn give_back_probe(&mut self, now: Timestamp) {
        self.health.give_back_probe(now);
        self.look_again_at(self.health.next_probe_at);
    }

    /// If others wait to be announced, a ticket for them is out: so many changes may follow each other that none would ever be looked for.
    fn announce_later(&mut self, from_generation: u64, now: Timestamp) {
        self.announcement.get_or_insert(PendingAnnouncement {
            from_generation,
            look_at: look_at::while_ticket_is_out(now),
            looks: 0,
        });
    }

    /// So many changes are about to be announced.
    pub fn claim_announcements(&mut self, count: u32, now: Timestamp) {
        self.announced.take(count, now);
        self.announce_after(look_at::while_ticket_is_out(now));
    }

    /// What waits to be announced is looked for at that time.
    pub fn announce_after(&mut self, look_at: Timestamp) {
        if let Some(announcement) = &mut self.announcement {
            announcement.look_at = look_at;
        }
    }

    /// Everything up to a generation, and up to a note of its trouble, is announced.
    pub fn end_announcements(&mut self, up_to: u64, up_to_note: u64) {
        self.trouble.end(up_to_note);
        let is_left = self.health.generation > up_to || !self.trouble.pending().is_empty();
        let pending = self.announcement.filter(|_| is_left);
        self.announcement = pending.map(|pending| PendingAnnouncement {
            from_generation: pending.from_generation.max(up_to + 1),
            ..pending
        });
    }

    /// When the sweep looks at this URL, for the probe, the release, the announcement or its removal.
    #[must_use]
    pub fn next_look_at(&self) -> Option<Timestamp> {
        let announcement = self.announcement.map(|announcement| announcement.look_at);
        self.look_at.into_iter().chain(announcement).chain(self.remove_at).min()
    }

    /// Whether the sweep would send a probe ticket now.
    #[must_use]
    pub fn is_probe_looked_at(&self, now: Timestamp) -> bool {
        self.health.state == UrlState::Disabled && self.look_at.is_some_and(|look_at| look_at <= now)
    }

    /// Something is parked at the disabled URL: the sweep looks soon, however rare its looks have become. `false`: it does so already.
    pub fn look_soon(&mut self, now: Timestamp) -> bool {
        debug_assert!(self.health.state == UrlState::Disabled, "only a disabled URL is probed");
        let soon = look_at::after_look(now);
        let is_late = self.look_at.is_none_or(|look_at| look_at > soon);
        if is_late {
            self.look_again_at(Some(soon));
        }
        is_late
    }

    /// The sweep looked at the URL: moves on the looks that were due, and returns what is to be done. `has_due`: a parked delivery is due,
    /// or may be.
    pub fn looked_at(&mut self, has_due: bool, now: Timestamp) -> UrlLook {
        let mut due = UrlLook::default();
        if self.look_at.is_some_and(|look_at| look_at <= now) {
            match (self.health.state, &self.releasing) {
                (UrlState::Disabled, _) => due.probe = true,
                (UrlState::Enabled, Some(release)) => due.release_step = Some(release.step),
                (UrlState::Enabled, None) | (UrlState::Frozen, _) => {}
            }
            let goes_on = due.probe || due.release_step.is_some();
            if due.probe && !has_due {
                self.look_at = Some(look_at::after_idle_look(now, self.looks));
                self.looks = self.looks.saturating_add(1);
            } else {
                self.look_again_at(goes_on.then(|| look_at::after_look(now)));
            }
        }
        if let Some(announcement) = self.announcement.as_mut().filter(|a| a.look_at <= now) {
            announcement.look_at = look_at::after_look(now);
            announcement.looks += 1;
            due.announcement = true;
        }
        due
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
    /// How many changes by hand are kept. More are never shown, and a person's program may make thousands.
    const MAX_KEPT: u64 = 1_000;

    /// The entry that this one replaces.
    #[must_use]
    pub fn replaced(&self) -> Option<Key> {
        let generation = self.generation.checked_sub(Self::MAX_KEPT)?;
        Some(Key::new(UrlRecord::partition(&self.tenant, &self.url_id), Self::sort(generation)))
    }

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

/// An entry in the tenant's list of URLs. It never changes, so that the list is not written when health is.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::Record;

    #[test]
    fn a_record_of_the_time_before_subscriptions_and_announcements_were_counted_is_read_and_never_removed() {
        let now = Timestamp::from_millis(1_700_000_000_000);
        let url = UrlRecord::new("t".into(), UrlId::of("https://a.test/"), "https://a.test/".to_owned(), now);
        let mut fields = Record::Url(url.clone()).to_fields();
        let newer =
            ["subscriptions", "remove_at", "announced", "trouble", "first_attempt_at", "last_failure"];
        for name in newer.into_iter().chain(["failing_since", "recovered_at"]) {
            assert!(fields.remove(name).is_some(), "{name}");
        }
        let key = || UrlRecord::key(&url.tenant, &url.id);
        assert_eq!(Record::from_fields(key, fields).unwrap(), Record::Url(url.clone()));
        let mut left = url.clone();
        left.remove_subscription(now, Duration::ZERO);
        assert_eq!(left.next_look_at(), None);
    }

    #[test]
    fn a_record_of_the_time_before_first_attempts_were_counted_has_none() {
        let now = Timestamp::from_millis(1_700_000_000_000);
        let mut url =
            UrlRecord::new("t".into(), UrlId::of("https://a.test/"), "https://a.test/".to_owned(), now);
        (url.health.window_attempts, url.health.window_failures) = (12, 7);
        let mut fields = Record::Url(url.clone()).to_fields();
        for name in ["window_first_attempts", "window_first_failures"] {
            assert!(fields.remove(name).is_some());
        }
        let key = || UrlRecord::key(&url.tenant, &url.id);
        assert_eq!(Record::from_fields(key, fields).unwrap(), Record::Url(url.clone()));
    }
}
