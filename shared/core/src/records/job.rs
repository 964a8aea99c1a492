use serde::{Deserialize, Serialize};

use super::Key;
use crate::ids::{EventKey, JobId, SubscriptionId, Tenant};
use crate::rules::trace::TraceContext;
use crate::time::Timestamp;

/// Work that takes many steps. Each step is idempotent and leaves its place in the record, so that any function can go on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "job", rename_all = "snake_case")]
pub enum Job {
    FanOut(FanOut),
    Reassign(Reassign),
    Replay(Box<super::BulkReplay>),
    AnnounceDeaths(super::AnnounceDeaths),
}

/// One event on its way to many subscriptions. Goes through them in the order of their ids.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FanOut {
    pub event_id: String,
    pub event_key: EventKey,
    pub event_type: String,
    pub accepted_at: Timestamp,
    /// Which list of recipients it goes through, so that it can be removed at the end: another post of the same event has its own. `None`
    /// in jobs of earlier releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list: Option<String>,
    /// The last subscription that was queued.
    pub after: Option<SubscriptionId>,
    /// A function began it, or did so for an earlier post of the same event: messages of any later step may have been sent already.
    pub started: bool,
    /// The trace that its event belongs to. `None`: the producer sent none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Box<TraceContext>>,
}

/// A subscription was deleted, deactivated or moved to another URL: its live deliveries end, or go where it is now. Passes twice,
/// because attempts may be under way. A later change starts it again from the first pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reassign {
    pub subscription_id: SubscriptionId,
    /// Where the list of its deliveries was left.
    pub after: Option<String>,
    pub pass: u32,
    pub not_before_real: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRecord {
    pub tenant: Tenant,
    pub id: JobId,
    #[serde(flatten)]
    pub job: Job,
    pub look_at: Timestamp,
    pub looks: u32,
}

impl JobRecord {
    #[must_use]
    pub fn key(tenant: &Tenant, id: &JobId) -> Key {
        Key::new(format!("job#{tenant}#{id}"), "job")
    }
}
