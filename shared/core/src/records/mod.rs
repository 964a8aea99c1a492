//! What is kept. Each record knows its key and its index entries, so that every adapter stores it at the same place and no
//! adapter needs to understand it.
//!
//! | record | partition | sort |
//! |---|---|---|
//! | event | `event#tenant#event id` | `event` |
//! | event in the list of its subject | `subject#tenant#hash` | `acceptance time#event key` |
//! | delivery | `deliveries#tenant#event key` | `subscription#delivery` |
//! | first-attempt success (log) | `deliveries#tenant#event key` | `subscription#log` |
//! | attempt | `deliveries#tenant#event key` | `subscription#attempt#epoch#n#time` |
//! | URL | `url#tenant#url id` | `health` |
//! | URL history | `url#tenant#url id` | `history#generation` |
//! | parked pointer | `parked#tenant#url id` | `due#event key#subscription` |
//! | subscription | `subscriptions#tenant` | `subscription` |
//! | equal-subscription guard | `distinct#tenant` | `fingerprint` |
//! | URL list entry | `urls#tenant` | `url id` |
//! | tenant version | `tenant#tenant` | `version` |
//! | change of a subscription | `changes#tenant` | `tenant version` |
//! | outcomes of a release step | `step#tenant#step id` | `attempt of the batch` |
//! | job | `job#tenant#job id` | `job` |
//! | replay | `replay#tenant#job id` | `replay` |
//! | minute of activity | `minutes#tenant` | `minute#engine` |
//! | summaries of recent attempts | `attempts#tenant` | `real time#engine#number` |
//! | delivery that died, to be announced | `deaths#tenant#url id#period` | `delivery id` |
//! | key | `keys` | `key id` |
//! | guard of the last operator's key | `operators` | `guard` |
//! | tenant | `tenants` | `tenant` |
//! | change by the holder of a key | `audit#tenant` | `time#audit id` |
//!
//! Architecture Invariant: what is a tenant's has the tenant in its partition, right after the kind of thing. A tenant's name holds no
//! `#`, so that no partition of one tenant can be read as another's, whatever ids come after it.

mod activity;
mod audit;
mod death;
mod delivery;
mod event;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod job;
mod key;
mod kind;
mod message;
mod replay;
mod state_index;
mod step;
mod subscription;
mod trouble;
mod url;
mod version;

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use activity::{AttemptSummaries, AttemptSummary, MinuteRecord};
pub use audit::{Actor, AuditAction, AuditEntry};
pub use death::{AnnounceDeaths, DeathNote};
pub use delivery::{Attempt, DeliveryRecord, LoggedDelivery, NewDelivery, ParkedPointer};
pub use event::{EventRecord, IdPhase, SubjectEntry};
pub use job::{FanOut, Job, JobRecord, Reassign};
pub use key::{KeyRecord, OperatorGuard, TenantRecord};
pub use kind::Kind;
pub use message::{DeliveryTicket, FirstAttempt, Message};
pub use replay::{BulkReplay, ReplayDecision, ReplayOf, ReplayRecord, ReplayState, UrlReplay};
pub use state_index::{StateEntry, StateIndex};
pub use step::StepBatch;
pub use subscription::{
    Subscription, SubscriptionChange, SubscriptionGuard, TenantVersion, active_subscription,
};
pub use trouble::{TroubleChange, TroubleNote, TroubleNotes};
pub use url::{HistoryEntry, PendingAnnouncement, UrlListEntry, UrlLook, UrlRecord};
pub use version::{Unreadable, VERSION};

use crate::time::Timestamp;
use version::Format;

/// How many partitions the sweep's index is spread over, because one key takes 1,000 writes a second: enough for an outage in which 1,000
/// events a second fail for two days.
pub const SWEEP_SHARDS: u8 = 64;

/// What a record takes beside its content, for its key and its entries in lists, about.
const INDEX_BYTES: usize = 512;

/// Where a record is kept.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub partition: String,
    pub sort: String,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} / {}", self.partition, self.sort)
    }
}

impl Key {
    #[must_use]
    pub fn new(partition: String, sort: impl Into<String>) -> Key {
        Key { partition, sort: sort.into() }
    }

    /// The sweep's shard of this record: fixed by its key.
    #[must_use]
    pub fn sweep_shard(&self) -> u8 {
        // FNV-1a: any spread will do, but it must never change, because it is stored.
        let bytes = self.partition.bytes().chain(self.sort.bytes());
        let hash =
            bytes.fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
        (hash % u64::from(SWEEP_SHARDS)) as u8
    }
}

/// The lists, beside the base table, that answer a question. All are sparse: only records that set the value are in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ListIndex {
    /// Deliveries of one tenant.
    ByTenant,
    /// Deliveries to one URL.
    ByUrl,
    /// Deliveries of one subscription: a list of those that are alive, and one of the others.
    BySubscription,
    /// Deliveries and URLs of one tenant in one state, the subscriptions of one URL, and the replays and events of one tenant, in an order of their
    /// own.
    ByState,
}

/// A record's entries in the indexes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexEntries {
    /// When someone should look at this if nothing happens before: the sweep's index.
    pub look_at: Option<Timestamp>,
    /// Present for what is listed as a delivery.
    pub listed: Option<Listed>,
    /// Present for what is counted by its state, or listed by its URL.
    pub by_state: Option<StateEntry>,
    /// When the store may remove it. Live records have none.
    pub remove_at: Option<Timestamp>,
}

impl IndexEntries {
    fn removed_at(remove_at: Option<Timestamp>) -> IndexEntries {
        IndexEntries { remove_at, ..IndexEntries::default() }
    }
}

/// The values of the lists of deliveries. All three share one order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    pub by_tenant: String,
    pub by_url: String,
    pub by_subscription: String,
    /// Acceptance time, then delivery id: newest last.
    pub sort: String,
}

/// Anything that is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Record {
    Event(EventRecord),
    Delivery(DeliveryRecord),
    Logged(LoggedDelivery),
    Attempt(Attempt),
    Parked(ParkedPointer),
    Url(UrlRecord),
    UrlListEntry(UrlListEntry),
    History(HistoryEntry),
    Subscription(Subscription),
    SubscriptionGuard(SubscriptionGuard),
    SubscriptionChange(SubscriptionChange),
    TenantVersion(TenantVersion),
    Job(JobRecord),
    Key(KeyRecord),
    OperatorGuard(OperatorGuard),
    Tenant(TenantRecord),
    Replay(ReplayRecord),
    StepBatch(StepBatch),
    Minute(MinuteRecord),
    AttemptSummaries(AttemptSummaries),
    DeathNote(DeathNote),
    Audit(AuditEntry),
    Subject(SubjectEntry),
    /// A record that a newer release wrote. It is never written back: this release does not know all of its fields.
    #[serde(skip)]
    Newer {
        key: Key,
        version: u32,
    },
}

impl Record {
    /// With its version, for stores that keep documents.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        debug_assert!(!matches!(self, Record::Newer { .. }), "a newer record is never written back");
        Format::CURRENT.encode(self)
    }

    /// The same as fields, for stores that keep attributes.
    #[must_use]
    pub fn to_fields(&self) -> Map<String, Value> {
        debug_assert!(!matches!(self, Record::Newer { .. }), "a newer record is never written back");
        Format::CURRENT.to_fields(self)
    }

    /// Reads what [`Record::encode`] wrote under `key`.
    pub fn decode(key: impl FnOnce() -> Key, bytes: &[u8]) -> Result<Record, Unreadable> {
        unless_newer(key, Format::CURRENT.decode(bytes))
    }

    /// Reads what [`Record::to_fields`] wrote under `key`.
    pub fn from_fields(key: impl FnOnce() -> Key, fields: Map<String, Value>) -> Result<Record, Unreadable> {
        unless_newer(key, Format::CURRENT.decode_fields(fields))
    }

    #[must_use]
    pub fn key(&self) -> Key {
        match self {
            Record::Event(r) => EventRecord::key(&r.tenant, &r.id),
            Record::Delivery(r) => DeliveryRecord::key(&r.key),
            Record::Logged(r) => LoggedDelivery::key(&r.delivery.key),
            Record::Attempt(r) => r.key(),
            Record::Parked(r) => r.key(),
            Record::Url(r) => UrlRecord::key(&r.tenant, &r.id),
            Record::UrlListEntry(r) => Key::new(UrlListEntry::partition(&r.tenant), r.id.as_str()),
            Record::History(r) => r.key(),
            Record::Subscription(r) => Subscription::key(&r.tenant, &r.id),
            Record::SubscriptionGuard(r) => r.key(),
            Record::SubscriptionChange(r) => r.key(),
            Record::TenantVersion(r) => TenantVersion::key(&r.tenant),
            Record::Job(r) => JobRecord::key(&r.tenant, &r.id),
            Record::Key(r) => KeyRecord::key(&r.id),
            Record::OperatorGuard(_) => OperatorGuard::key(),
            Record::Tenant(r) => TenantRecord::key(&r.tenant),
            Record::Replay(r) => ReplayRecord::key(&r.tenant, &r.id),
            Record::StepBatch(r) => r.key(),
            Record::Minute(r) => r.key(),
            Record::AttemptSummaries(r) => r.key(),
            Record::DeathNote(r) => r.key(),
            Record::Audit(r) => r.key(),
            Record::Subject(r) => r.key(),
            Record::Newer { key, .. } => key.clone(),
        }
    }

    /// What a record with so many bytes counts towards the quota on stored bytes. An event has one of these for each recipient, and
    /// producers and receivers decide how long the ids, subjects and excerpts of responses in them are.
    #[must_use]
    pub fn counted_bytes(&self, encoded_bytes: usize) -> u64 {
        match self {
            Record::Event(_)
            | Record::Subject(_)
            | Record::Delivery(_)
            | Record::Logged(_)
            | Record::Attempt(_)
            | Record::Replay(_) => (encoded_bytes + INDEX_BYTES) as u64,
            _ => 0,
        }
    }

    #[must_use]
    pub fn index_entries(&self) -> IndexEntries {
        match self {
            Record::Event(r) => r.index_entries(),
            Record::Subject(r) => IndexEntries::removed_at(r.remove_at),
            Record::Delivery(r) => r.index_entries(),
            Record::Logged(r) => r.index_entries(),
            Record::Replay(r) => {
                let by_state = Some(StateEntry::of_replay(r));
                IndexEntries { by_state, ..IndexEntries::removed_at(r.remove_at) }
            }
            Record::Attempt(Attempt { remove_at, .. })
            | Record::SubscriptionChange(SubscriptionChange { remove_at, .. })
            | Record::StepBatch(StepBatch { remove_at, .. })
            | Record::Minute(MinuteRecord { remove_at, .. })
            | Record::AttemptSummaries(AttemptSummaries { remove_at, .. })
            | Record::DeathNote(DeathNote { remove_at, .. })
            | Record::Audit(AuditEntry { remove_at, .. }) => IndexEntries::removed_at(Some(*remove_at)),
            Record::Job(r) => IndexEntries { look_at: Some(r.look_at), ..IndexEntries::default() },
            Record::Url(r) => IndexEntries {
                look_at: r.next_look_at(),
                by_state: StateEntry::of_url(r),
                ..IndexEntries::default()
            },
            Record::Subscription(r) => {
                IndexEntries { by_state: Some(StateEntry::of_subscription(r)), ..IndexEntries::default() }
            }
            Record::Parked(_)
            | Record::UrlListEntry(_)
            | Record::History(_)
            | Record::SubscriptionGuard(_)
            | Record::TenantVersion(_)
            | Record::Key(_)
            | Record::OperatorGuard(_)
            | Record::Tenant(_)
            | Record::Newer { .. } => IndexEntries::default(),
        }
    }
}

fn unless_newer(
    key: impl FnOnce() -> Key,
    decoded: Result<Record, Unreadable>,
) -> Result<Record, Unreadable> {
    match decoded {
        Err(Unreadable::Newer(version)) => Ok(Record::Newer { key: key(), version }),
        other => other,
    }
}
