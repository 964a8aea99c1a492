//! Unconditional writes, many at once.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::{PutRequest, WriteRequest};
use futures_util::future::join_all;
use holdfast_core::records::{Key, Record};

use super::DynamoStore;
use super::fault::Fault;
use super::items::{Item, item_of, key_of};
use super::reads::AT_ONCE;

/// How many writes one request takes. With items of the largest size that is still less than the 16 MB that it may have.
const WRITES_A_REQUEST: usize = 25;
const MAX_TRIES: u32 = 8;

impl DynamoStore {
    pub(super) async fn put_records(&self, records: Vec<Record>) -> Result<Vec<Record>, Fault> {
        // Of two records with the same key the last one wins; a request that names a key twice is refused.
        let mut records: HashMap<Key, Record> = records.into_iter().map(|r| (r.key(), r)).collect();
        let mark = self.random.mark();
        let items: Result<Vec<Item>, Fault> =
            records.values().map(|record| item_of(record, self.random.version(), &mark)).collect();
        let left = self.put_items(items?).await?;
        let left: Result<Vec<Key>, Fault> = left.iter().map(key_of).collect();
        Ok(left?.into_iter().filter_map(|key| records.remove(&key)).collect())
    }

    /// Each item has another key. Answers those that were not written.
    pub(super) async fn put_items(&self, items: Vec<Item>) -> Result<Vec<Item>, Fault> {
        let mut requests = Vec::new();
        let mut items = items.into_iter().peekable();
        while items.peek().is_some() {
            requests.push(items.by_ref().take(WRITES_A_REQUEST).collect::<Vec<Item>>());
        }
        let mut left = Vec::new();
        let mut requests = requests.into_iter().peekable();
        while requests.peek().is_some() {
            let together = requests.by_ref().take(AT_ONCE).map(|items| self.put_batch(items));
            for answer in join_all(together).await {
                left.extend(answer?);
            }
        }
        Ok(left)
    }

    async fn put_batch(&self, items: Vec<Item>) -> Result<Vec<Item>, Fault> {
        let put = |item| {
            Ok(WriteRequest::builder()
                .put_request(PutRequest::builder().set_item(Some(item)).build()?)
                .build())
        };
        let puts: Result<Vec<WriteRequest>, aws_sdk_dynamodb::error::BuildError> =
            items.into_iter().map(put).collect();
        let mut left = puts.map_err(|e| Fault::call("BatchWriteItem", &e))?;
        for tries in 0..MAX_TRIES {
            let sent = self.client.batch_write_item().request_items(&self.table, left).send().await;
            let answer = sent.map_err(|e| Fault::call("BatchWriteItem", &e))?;
            let unprocessed = answer.unprocessed_items.and_then(|mut tables| tables.remove(&self.table));
            left = unprocessed.unwrap_or_default();
            if left.is_empty() {
                return Ok(Vec::new());
            }
            self.random.pause(tries).await;
        }
        Ok(left.into_iter().filter_map(|request| request.put_request).map(|put| put.item).collect())
    }
}
