use serde::{Deserialize, Serialize};

use super::Key;
use crate::ids::{EventKey, Tenant};
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
}
