//! The store in one DynamoDB table.
//!
//! # Items
//!
//! A record is one item under the record's own key. A record's fields stand under `record`, so that no name of a field can clash
//! with another attribute; fields that are `null` are left out.
//!
//! | attribute | type | what |
//! |---|---|---|
//! | `pk`, `sk` | S | partition and sort of the record's key |
//! | `record` | M | the record's fields, with `kind`; what customers gave as JSON (`filters`) is JSON text in it |
//! | `version` | N | 1 if put where nothing was, v + 1 if put over v, random and at least 2³² if nothing was expected |
//! | `writer` | S | random, another for each call: by it a writer whose answer was lost knows its own write |
//! | `sweep_shard`, `look_at` | S, N | index `sweep`: shard, milliseconds |
//! | `list_tenant`, `list_url`, `list_subscription` | S | indexes `by-tenant`, `by-url`, `by-subscription`: `list#shard` |
//! | `listed` | S | the order in all three lists |
//! | `list_topic`, `topic_sort` | S | index `by-topic`: `topic#shard`, and the order in it |
//! | `ttl` | N | when DynamoDB may remove the item: seconds, rounded up |
//! | `state`, `generation`, `streak`, `window_attempts`, `window_failures`, `last_success_at` | S, N | of a URL: fields that stand here and not under `record`, because expressions need them |
//! | `counter` | S | of a URL: the last batch of outcomes that was counted by an update, as `writer` |
//!
//! A body is one item or more, `pk` = `body#tenant#event key`, `sk` = `part#000` and so on, with `data` (B) and `ttl`; the first
//! part has `parts` (N) and `compressed` (BOOL: zlib) too.
//!
//! The indexes hold keys only. Each list is spread over 8 partitions by the record's key, because one key of an index takes 1,000
//! writes a second and an index that is throttled holds up the table.
//!
//! # Counting
//!
//! Outcomes are counted by one update without a read, under a condition that no concurrent count can turn into a crossed
//! threshold. It leaves `version` as it is. Where a threshold might be crossed, the rule is applied to the record as it was seen,
//! and the result is written on condition that version and counters are still the same, with the history, in a transaction.
//!
//! Whoever writes a URL record over a version leaves the counters as they are stored if the generation is the stored one. With
//! another generation (a person changed the state, or enabled the URL once more) the record's own counters are stored: outcomes
//! that were counted between that person's read and write are forgotten. They are of an older generation from then on, which would
//! not count either had they come a moment later.
//!
//! # Repeats
//!
//! The SDK sends a request again if the answer was lost. For transactions it has a token; for single puts and updates `writer` and
//! `counter` tell one's own write from another's. What is left is a lost answer after which somebody else wrote the same item
//! before the repeat: a put is then a conflict though it was made, which its caller must expect of any lost answer, and a batch of
//! outcomes is counted twice. A delete that is repeated is a conflict too.

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
use holdfast_core::time::Now;
use holdfast_core::time::Timestamp;

use hints::Hints;
use random::Random;

/// The store in one DynamoDB table.
pub struct DynamoStore {
    client: Client,
    table: String,
    random: Random,
    hints: Hints,
    patience: Duration,
}

/// A URL whose counters many change at once, at the edge of a threshold, keeps one trying.
const USUAL_PATIENCE: Duration = Duration::from_secs(60);

impl DynamoStore {
    #[must_use]
    pub fn new(client: Client, table: impl Into<String>, entropy: Arc<dyn Entropy>) -> DynamoStore {
        let (random, hints) = (Random::new(entropy), Hints::default());
        DynamoStore { client, table: table.into(), random, hints, patience: USUAL_PATIENCE }
    }

    /// How long to try to count outcomes before they are given up: counting must not take the time of what is more important.
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> DynamoStore {
        DynamoStore { patience, ..self }
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
        let counted = tokio::time::timeout(self.patience, self.count(tenant, url, outcomes, now));
        let late = |_| StoreError(format!("outcomes could not be counted on {url} in {:?}", self.patience));
        Ok(counted.await.map_err(late)??)
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
}
