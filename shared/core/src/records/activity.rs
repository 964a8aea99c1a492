//! What happened, for people to see: written by each engine for itself, about once a second, and read together.

use serde::{Deserialize, Serialize};

use super::Key;
use crate::ids::Tenant;
use crate::rules::activity::Counts;
use crate::rules::delivery::AttemptOutcome;
use crate::time::Timestamp;

/// What one engine did for one tenant in one minute. Cumulative: writing it again changes nothing, and the last one holds all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MinuteRecord {
    pub tenant: Tenant,
    /// Its start, on the schedule's clock.
    pub minute: Timestamp,
    pub engine: String,
    pub counts: Counts,
    pub remove_at: Timestamp,
}

impl MinuteRecord {
    #[must_use]
    pub fn partition(tenant: &Tenant) -> String {
        format!("minutes#{tenant}")
    }

    #[must_use]
    pub fn key(&self) -> Key {
        Key::new(Self::partition(&self.tenant), format!("{}#{}", self.minute.sort_key(), self.engine))
    }
}

/// Some of the attempts that one engine made for one tenant since it last wrote any.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptSummaries {
    pub tenant: Tenant,
    /// When it was written. In real time, because it orders what different machines write at the same time.
    pub at_real: Timestamp,
    pub engine: String,
    /// Counts what this engine wrote.
    pub number: u64,
    /// The latest ones, oldest first.
    pub summaries: Vec<AttemptSummary>,
    /// How many attempts there were beside these.
    pub omitted: u64,
    pub remove_at: Timestamp,
}

impl AttemptSummaries {
    #[must_use]
    pub fn partition(tenant: &Tenant) -> String {
        format!("attempts#{tenant}")
    }

    #[must_use]
    pub fn key(&self) -> Key {
        let sort = format!("{}#{}#{:010}", self.at_real.sort_key(), self.engine, self.number);
        Key::new(Self::partition(&self.tenant), sort)
    }
}

/// One attempt, as much of it as fits into a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptSummary {
    pub delivery_id: String,
    pub event_id: String,
    pub event_type: String,
    pub subscription_id: String,
    pub url_id: String,
    pub epoch: u32,
    pub n: u32,
    /// When it started, on the schedule's clock.
    pub at: Timestamp,
    pub outcome: AttemptOutcome,
    pub status: Option<u16>,
    pub error: Option<String>,
    pub ms: u64,
}
