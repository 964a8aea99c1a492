//! The store in one DynamoDB table.
//!
//! # Items
//!
//! A record is one item under the record's own key. Its fields are under `record`, so that no field can clash with another
//! attribute; fields that are `null` are left out.
//!
//! | attribute | type | what |
//! |---|---|---|
//! | `pk`, `sk` | S | partition and sort of the record's key; some partitions are spread, `partition#shard`: see `spread` |
//! | `record` | M | the record's fields, with `kind` and the format's version `v`; JSON of customers (`filters`) is JSON text in it |
//! | `version` | N | 1 if put where nothing was, v + 1 if put over v, random and at least 2³² if nothing was expected |
//! | `writer` | S | random for each call, so that a writer whose response was lost recognises its own write |
//! | `sweep_shard`, `look_at` | S, N | index `sweep`: shard, milliseconds |
//! | `list_tenant`, `list_url`, `list_subscription` | S | indexes `by-tenant`, `by-url`, `by-subscription`: `list#shard` |
//! | `listed` | S | the order in all three lists |
//! | `list_state`, `state_sort` | S | index `by-state`: `list#shard`, and the order in it |
//! | `ttl` | N | when DynamoDB may remove the item: seconds, rounded up |
//! | `state`, `generation`, `streak`, `window_attempts`, `window_failures`, `window_first_attempts`, `window_first_failures`, `last_success_at`, `first_attempt_at`, `last_failure`, `failing_since`, `failing`, `recovered_at`, `recent_ms` | S, N, M, BOOL | of a URL: fields that are here instead of under `record`, because expressions need them |
//! | `counter` | S | of a URL: the last batch of outcomes that was counted by an update, as `writer` |
//!
//! A body is one item or more, `pk` = `body#tenant#event key`, `sk` = `part#000` and so on, with `data` (B) and `ttl`; the first
//! part has `parts` (N) and `compressed` (BOOL: zlib) too.
//!
//! The indexes hold keys only. Each list is spread over 16 partitions by the record's key, because one key of an index takes 1,000
//! writes a second and a throttled index throttles the table.
//!
//! # Counting
//!
//! Outcomes are counted by one update without a read, under a condition that rules out a crossed threshold whatever else is counted
//! concurrently. It leaves `version` as it is. Where a threshold might be crossed, the rule is applied to the record as it was last
//! read, and the result is written with the history in a transaction, on condition that version and counters are still the same.
//! Neither touches a record that a newer release wrote.
//!
//! A write of a URL record over a version keeps the stored counters if the generation is the same. With another generation (an
//! operator changed the state, or enabled the URL once more) the record's own counters are stored, and outcomes that were counted
//! between the operator's read and write are lost. They belong to an older generation, which would no longer count anyway.
//!
//! # Repeats
//!
//! The SDK sends a request again if the response was lost. For transactions it has a token; for single puts and updates `writer` and
//! `counter` identify the own write. If another writer changes the same item between the lost response and the repeat, a put that
//! was made is reported as a conflict, which callers must expect of any lost response, and a batch of outcomes is counted twice. A
//! repeated delete is a conflict too.

mod batches;
mod bodies;
mod count;
mod fast_count;
mod fault;
mod hints;
mod items;
mod lists;
mod pages;
mod random;
mod reads;
mod request;
mod spread;
mod terms;
mod values;
mod writes;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_dynamodb::Client;
use bytes::Bytes;
use holdfast_core::ids::{Tenant, UrlId};
use holdfast_core::ports::{
    BodyKey, Count, Entropy, IndexCount, IndexQuery, Page, Query, Store, StoreError, Versioned, Write,
    WriteError,
};
use holdfast_core::records::{Key, Record, UrlRecord};
use holdfast_core::rules::health::Outcome;
use holdfast_core::time::{Now, Timestamp};

use fault::Fault;
use hints::Hints;
use random::Random;

/// The store in one DynamoDB table.
pub struct DynamoStore {
    client: Client,
    table: String,
    random: Random,
    hints: Hints,
    count_timeout: Duration,
}

/// Counting on a busy URL near a threshold takes many tries.
const DEFAULT_COUNT_TIMEOUT: Duration = Duration::from_secs(60);

impl DynamoStore {
    #[must_use]
    pub fn new(client: Client, table: impl Into<String>, entropy: Arc<dyn Entropy>) -> DynamoStore {
        let (random, hints) = (Random::new(entropy), Hints::default());
        DynamoStore { client, table: table.into(), random, hints, count_timeout: DEFAULT_COUNT_TIMEOUT }
    }

    /// Sets how long to try to count outcomes before they are dropped, so that time is left to record the attempt itself.
    #[must_use]
    pub fn with_count_timeout(self, count_timeout: Duration) -> DynamoStore {
        DynamoStore { count_timeout, ..self }
    }
}

#[async_trait]
impl Store for DynamoStore {
    async fn get(&self, keys: &[Key]) -> Result<Vec<Option<Versioned>>, StoreError> {
        Ok(self.get_records(keys).await?)
    }

    async fn query(&self, query: Query) -> Result<Page, StoreError> {
        Ok(self.query_page(query).await?)
    }

    async fn query_index(&self, query: IndexQuery) -> Result<Page, StoreError> {
        Ok(self.list_page(&query).await?)
    }

    async fn count_index(&self, count: IndexCount) -> Result<Count, StoreError> {
        Ok(self.count_list(&count).await?)
    }

    async fn overdue(&self, shard: u8, until: Timestamp, limit: usize) -> Result<Vec<Versioned>, StoreError> {
        Ok(self.overdue_in_shard(shard, until, limit).await?)
    }

    async fn write(&self, writes: Vec<Write>) -> Result<(), WriteError> {
        self.write_all(writes).await
    }

    async fn put_each(&self, records: Vec<Record>) -> Result<Vec<Record>, StoreError> {
        Ok(self.put_records(records).await?)
    }

    async fn count_outcomes(
        &self,
        tenant: &Tenant,
        url: &UrlId,
        outcomes: Vec<Outcome>,
        now: Now,
    ) -> Result<Option<(UrlRecord, UrlRecord)>, StoreError> {
        let counted = tokio::time::timeout(self.count_timeout, self.count(tenant, url, outcomes, now));
        Ok(counted.await.map_err(|_| Fault::CountTimedOut(self.count_timeout))??)
    }

    async fn put_bodies(
        &self,
        bodies: Vec<(BodyKey, Bytes)>,
        remove_at: Timestamp,
    ) -> Result<(), StoreError> {
        Ok(self.put_all_bodies(bodies, remove_at).await?)
    }

    async fn get_bodies(&self, keys: &[BodyKey]) -> Result<Vec<Option<Bytes>>, StoreError> {
        Ok(self.get_all_bodies(keys).await?)
    }

    async fn keep_body(&self, key: &BodyKey, remove_at: Timestamp) -> Result<bool, StoreError> {
        Ok(self.keep(key, remove_at).await?)
    }

    async fn remove_body(&self, key: &BodyKey) -> Result<(), StoreError> {
        Ok(self.remove(key).await?)
    }
}
