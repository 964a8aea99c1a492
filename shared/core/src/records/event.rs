use serde::{Deserialize, Serialize};

use super::{IndexEntries, Key, StateEntry};
use crate::ids::{EventKey, Tenant, fingerprint};
use crate::time::Timestamp;

/// Whether the deliveries of a given id are queued yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "phase")]
pub enum IdPhase {
    /// A request is queueing the deliveries, and has until then.
    Pending {
        lease_until_real: Timestamp,
    },
    Done,
}

/// An accepted event, under the id that its producer knows. Also what makes a given id idempotent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventRecord {
    pub tenant: Tenant,
    pub id: String,
    pub event_key: EventKey,
    pub event_type: String,
    pub subject: Option<String>,
    pub accepted_at: Timestamp,
    /// How many deliveries it was accepted for.
    pub deliveries: u64,
    /// Of what was posted, to tell a repeat from another event under the same id.
    pub fingerprint: String,
    #[serde(flatten)]
    pub phase: IdPhase,
    pub remove_at: Option<Timestamp>,
}

impl EventRecord {
    #[must_use]
    pub fn key(tenant: &Tenant, id: &str) -> Key {
        Key::new(format!("event#{tenant}#{id}"), "event")
    }

    /// It is listed once its deliveries are queued.
    pub(super) fn index_entries(&self) -> IndexEntries {
        let by_state = (self.phase == IdPhase::Done).then(|| StateEntry::of_event(self));
        IndexEntries { by_state, ..IndexEntries::removed_at(self.remove_at) }
    }

    /// Its place in lists by time: newest last.
    pub(super) fn listed(&self) -> String {
        format!("{}#{}", self.accepted_at.sort_key(), self.event_key)
    }
}

/// An event in the list of its subject. Only events that have one cost this. It says all that lists show, so that they read nothing else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubjectEntry {
    pub tenant: Tenant,
    pub subject: String,
    pub event_id: String,
    pub event_key: EventKey,
    pub event_type: String,
    pub accepted_at: Timestamp,
    pub deliveries: u64,
    pub remove_at: Option<Timestamp>,
}

impl SubjectEntry {
    /// `None`: the event has no subject.
    #[must_use]
    pub fn of(event: &EventRecord) -> Option<SubjectEntry> {
        Some(SubjectEntry {
            tenant: event.tenant.clone(),
            subject: event.subject.clone()?,
            event_id: event.id.clone(),
            event_key: event.event_key.clone(),
            event_type: event.event_type.clone(),
            accepted_at: event.accepted_at,
            deliveries: event.deliveries,
            remove_at: event.remove_at,
        })
    }

    /// By the hash, because a subject may be longer than a key.
    #[must_use]
    pub fn partition(tenant: &Tenant, subject: &str) -> String {
        format!("subject#{tenant}#{}", fingerprint(subject.as_bytes()))
    }

    #[must_use]
    pub fn key(&self) -> Key {
        let sort = format!("{}#{}", self.accepted_at.sort_key(), self.event_key);
        Key::new(Self::partition(&self.tenant, &self.subject), sort)
    }
}
