use serde::{Deserialize, Serialize};

use super::Key;
use crate::ids::{EventKey, JobId, SubscriptionId, Tenant};
use crate::time::Timestamp;

/// Work that takes many steps. Each step is idempotent and leaves its place in the record, so that any function can go on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "job", rename_all = "snake_case")]
pub enum Job {
    /// One event on its way to many subscriptions. Goes through them in the order of their ids.
    FanOut {
        event_id: String,
        event_key: EventKey,
        event_type: String,
        accepted_at: Timestamp,
        /// The last subscription that was queued.
        after: Option<SubscriptionId>,
        /// Somebody began the step after that: if it is begun again, its messages may be out already.
        started: bool,
    },
    /// A deleted subscription's live deliveries become dead. Passes twice, because attempts may be under way.
    Unsubscribe {
        subscription_id: SubscriptionId,
        after: Option<String>,
        pass: u32,
        not_before_real: Timestamp,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRecord {
    pub v: u32,
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
