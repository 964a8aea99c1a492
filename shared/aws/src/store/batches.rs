//! Unconditional writes, many at once.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::{PutRequest, WriteRequest};
use futures_util::future::join_all;
use holdfast_core::records::{Key, Record};

use super::DynamoStore;
use super::fault::Fault;
use super::items::{Item, item_of, key_of};
use super::reads::MAX_CONCURRENT;
use crate::call_error::{CallError, Cause};

/// The most writes of one request. Even with items of the largest size they are below its limit of 16 MB.
const MAX_BATCH: usize = 25;
const MAX_TRIES: u32 = 8;

impl DynamoStore {
    pub(super) async fn put_records(&self, records: Vec<Record>) -> Result<Vec<Record>, Fault> {
        // The last of two records with the same key wins: DynamoDB rejects a request that names a key twice.
        let mut records: HashMap<Key, Record> = records.into_iter().map(|r| (r.key(), r)).collect();
        let mark = self.random.mark();
        let items = records.values().map(|record| item_of(record, self.random.version(), &mark)).collect();
        let left = self.put_items(items).await?;
        let left: Result<Vec<Key>, Fault> = left.iter().map(key_of).collect();
        Ok(left?.into_iter().filter_map(|key| records.remove(&key)).collect())
    }

    /// The keys must be distinct. Returns the items that were not written.
    pub(super) async fn put_items(&self, items: Vec<Item>) -> Result<Vec<Item>, Fault> {
        let mut requests = Vec::new();
        let mut items = items.into_iter().peekable();
        while items.peek().is_some() {
            requests.push(items.by_ref().take(MAX_BATCH).collect::<Vec<Item>>());
        }
        let mut left = Vec::new();
        let mut requests = requests.into_iter().peekable();
        while requests.peek().is_some() {
            let together = requests.by_ref().take(MAX_CONCURRENT).map(|items| self.put_batch(items));
            for answer in join_all(together).await {
                left.extend(answer?);
            }
        }
        Ok(left)
    }

    async fn put_batch(&self, items: Vec<Item>) -> Result<Vec<Item>, Fault> {
        let put = |item| {
            let put = PutRequest::builder().set_item(Some(item)).build().expect("a put with an item");
            WriteRequest::builder().put_request(put).build()
        };
        let mut left: Vec<WriteRequest> = items.into_iter().map(put).collect();
        for tries in 0..MAX_TRIES {
            let sent = self.client.batch_write_item().request_items(&self.table, left.clone()).send().await;
            match sent.map_err(|error| CallError::new("BatchWriteItem", &error)) {
                Ok(answer) => {
                    let unprocessed =
                        answer.unprocessed_items.and_then(|mut tables| tables.remove(&self.table));
                    left = unprocessed.unwrap_or_default();
                }
                // None of them was written.
                Err(CallError { cause: Cause::Throttled, .. }) => {}
                Err(error) => return Err(error.into()),
            }
            if left.is_empty() {
                return Ok(Vec::new());
            }
            self.random.pause(tries).await;
        }
        Ok(left.into_iter().filter_map(|request| request.put_request).map(|put| put.item).collect())
    }
}
