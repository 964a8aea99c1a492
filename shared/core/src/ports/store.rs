use async_trait::async_trait;
use bytes::Bytes;
use serde::Serialize;

use super::error::{StoreError, WriteError};
use crate::ids::{DeliveryKey, EventKey, Tenant, UrlId};
use crate::records::{Key, Kind, ListIndex, Record, UrlRecord};
use crate::rules::health::Outcome;
use crate::time::{Now, Timestamp};

/// The most keys of one `get`.
pub const MAX_KEYS: usize = 100;
/// The most writes of one transaction.
pub const MAX_WRITES: usize = 100;

/// A record and the version under which it was read. What was written where nothing was ([`Expect::Absent`]) has version 1, and
/// what was written over version v ([`Expect::Version`]) has v + 1, so that the writer knows its own version. A write that
/// expected nothing makes some version that was never there before, because a store need not look before it writes.
#[derive(Clone, Debug, PartialEq)]
pub struct Versioned {
    pub record: Record,
    pub version: u64,
}

/// What must hold for a write to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    Any,
    Absent,
    Version(u64),
}

#[expect(clippy::large_enum_variant, reason = "a write is made and consumed at once, and most are puts")]
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    Put { record: Record, expect: Expect },
    Delete { key: Key, expect: Expect },
}

impl Write {
    #[must_use]
    pub fn put(record: impl Kind, expect: Expect) -> Write {
        Write::Put { record: record.into_record(), expect }
    }

    #[must_use]
    pub fn delete(key: Key, expect: Expect) -> Write {
        Write::Delete { key, expect }
    }

    #[must_use]
    pub fn key(&self) -> Key {
        match self {
            Write::Put { record, .. } => record.key(),
            Write::Delete { key, .. } => key.clone(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Ascending,
    Descending,
}

/// Part of one partition of the base table. Always a consistent read.
#[derive(Clone, Debug)]
pub struct Query {
    pub partition: String,
    /// Only sort keys that start with this.
    pub prefix: String,
    /// Only sort keys beyond this one, in the direction of `order`: where the page before ended.
    pub after: Option<String>,
    pub order: Order,
    pub limit: usize,
}

impl Query {
    /// The first `limit` records of a partition, in ascending order.
    #[must_use]
    pub fn of(partition: impl Into<String>, limit: usize) -> Query {
        Query {
            partition: partition.into(),
            prefix: String::new(),
            after: None,
            order: Order::Ascending,
            limit,
        }
    }

    #[must_use]
    pub fn prefix(self, prefix: impl Into<String>) -> Query {
        Query { prefix: prefix.into(), ..self }
    }

    #[must_use]
    pub fn after(self, after: Option<String>) -> Query {
        Query { after, ..self }
    }

    #[must_use]
    pub fn descending(self) -> Query {
        Query { order: Order::Descending, ..self }
    }
}

/// Part of one partition of a list index. May lag behind writes by a moment.
#[derive(Clone, Debug)]
pub struct IndexQuery {
    pub index: ListIndex,
    pub partition: String,
    /// Only sort keys at or after this one.
    pub from: Option<String>,
    /// Only sort keys before this one.
    pub to: Option<String>,
    /// Only entries beyond this one, in the direction of `order`: the `next` of the page before.
    pub after: Option<String>,
    pub order: Order,
    pub limit: usize,
}

impl IndexQuery {
    /// The first `limit` entries of a partition, in ascending order.
    #[must_use]
    pub fn of(index: ListIndex, partition: impl Into<String>, limit: usize) -> IndexQuery {
        IndexQuery {
            index,
            partition: partition.into(),
            from: None,
            to: None,
            after: None,
            order: Order::Ascending,
            limit,
        }
    }

    #[must_use]
    pub fn between(self, from: Option<String>, to: Option<String>) -> IndexQuery {
        IndexQuery { from, to, ..self }
    }

    #[must_use]
    pub fn after(self, after: Option<String>) -> IndexQuery {
        IndexQuery { after, ..self }
    }

    #[must_use]
    pub fn descending(self) -> IndexQuery {
        IndexQuery { order: Order::Descending, ..self }
    }
}

/// How much of a list index is to be counted.
#[derive(Clone, Debug)]
pub struct IndexCount {
    pub index: ListIndex,
    pub partition: String,
    /// Only sort keys at or after this one.
    pub from: Option<String>,
    /// Counting ends here.
    pub limit: usize,
}

/// How many there are, as far as was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Count {
    pub count: u64,
    /// There are more than were counted.
    pub more: bool,
}

/// One page of a list.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Page<T = Versioned> {
    pub items: Vec<T>,
    /// Where the next page starts; `None` if this was the last one. Opaque: hand it back as `after`.
    pub next: Option<String>,
}

/// Which body: stored once per accepted event.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BodyKey {
    pub tenant: Tenant,
    pub event_key: EventKey,
}

impl BodyKey {
    #[must_use]
    pub fn new(tenant: &Tenant, event_key: &EventKey) -> BodyKey {
        BodyKey { tenant: tenant.clone(), event_key: event_key.clone() }
    }

    /// The body of this delivery, which it shares with the other deliveries of its event.
    #[must_use]
    pub fn of(delivery: &DeliveryKey) -> BodyKey {
        BodyKey::new(&delivery.tenant, &delivery.event_key)
    }
}

/// Records by key, with conditional writes. Cut so that one DynamoDB table with named indexes can answer every call without a
/// scan, and an embedded store just as well.
#[async_trait]
pub trait Store: Send + Sync {
    /// Consistent. In the order of the keys; at most [`MAX_KEYS`].
    async fn get(&self, keys: &[Key]) -> Result<Vec<Option<Versioned>>, StoreError>;

    /// Base table, one partition.
    async fn query(&self, query: Query) -> Result<Page, StoreError>;

    /// One partition of a list index.
    async fn query_index(&self, query: IndexQuery) -> Result<Page, StoreError>;

    /// How many stand in one partition of a list index, without reading what they are. May lag behind writes by a moment.
    async fn count_index(&self, count: IndexCount) -> Result<Count, StoreError>;

    /// The sweep's index: what should be looked at by `until`, in one shard, most overdue first. If there is more than `limit`, a store in
    /// which all tenants share one machine gives each of them its share; one whose index has only the time gives the most overdue.
    /// Records of a newer release are left out, so that they cannot keep the sweep from the others.
    async fn overdue(&self, shard: u8, until: Timestamp, limit: usize) -> Result<Vec<Versioned>, StoreError>;

    /// All or nothing, durable when it returns; at most [`MAX_WRITES`], each of another key.
    async fn write(&self, writes: Vec<Write>) -> Result<(), WriteError>;

    /// Unconditional and not a transaction: each is written or named in the answer.
    async fn put_each(&self, records: Vec<Record>) -> Result<Vec<Record>, StoreError>;

    /// Counts outcomes on a URL by [`UrlRecord::count`], atomically, with its history. Correct under any number of concurrent
    /// callers. Returns the record before and after; `None` if there is no such URL.
    ///
    /// A concurrent writer with [`Expect::Version`] neither loses outcomes nor gets a conflict from outcomes that only count: a store may leave the version as it is then, and keep the counters that it has when the record is
    /// written in the same generation.
    async fn count_outcomes(
        &self,
        tenant: &Tenant,
        url: &UrlId,
        outcomes: Vec<Outcome>,
        now: Now,
    ) -> Result<Option<(UrlRecord, UrlRecord)>, StoreError>;

    /// Stores bodies, durable when it returns. A key always has the same body, so storing it again changes nothing. `remove_at`
    /// is counted from now, so that a later call moves the removal on.
    async fn put_bodies(&self, bodies: Vec<(BodyKey, Bytes)>, remove_at: Timestamp)
    -> Result<(), StoreError>;

    /// In the order of the keys, any number of them.
    async fn get_bodies(&self, keys: &[BodyKey]) -> Result<Vec<Option<Bytes>>, StoreError>;

    /// Moves a body's removal on; never nearer. `false`: there is no such body.
    async fn keep_body(&self, key: &BodyKey, remove_at: Timestamp) -> Result<bool, StoreError>;

    /// Removes a body before its time. It is no error if there is none.
    async fn remove_body(&self, key: &BodyKey) -> Result<(), StoreError>;
}
