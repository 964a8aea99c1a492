//! Consistent reads by key.

use std::collections::{HashMap, HashSet};

use aws_sdk_dynamodb::types::KeysAndAttributes;
use futures_util::future::join_all;
use holdfast_core::ports::{MAX_KEYS, Versioned};
use holdfast_core::records::{Key, Record};

use super::DynamoStore;
use super::fault::Fault;
use super::items::{Item, key_item, key_of, read};
use super::terms::Terms;
use crate::call_error::{CallError, Cause};

/// The most keys of one request.
const MAX_BATCH: usize = 100;
/// How many requests of one call run at the same time.
pub(super) const MAX_CONCURRENT: usize = 4;
/// How often in a row a request may make no progress.
const MAX_TRIES: u32 = 8;

impl DynamoStore {
    pub(super) async fn get_records(&self, keys: &[Key]) -> Result<Vec<Option<Versioned>>, Fault> {
        if keys.len() > MAX_KEYS {
            return Err(Fault::Invalid(format!("{} keys are more than {MAX_KEYS}", keys.len())));
        }
        let items = self.get_items(keys).await?;
        let mut found: HashMap<Key, Versioned> = HashMap::new();
        for (key, item) in items {
            let versioned = read(item)?;
            if let Record::Url(url) = &versioned.record {
                self.hints.remember(url, versioned.version);
            }
            found.insert(key, versioned);
        }
        Ok(keys.iter().map(|key| found.get(key).cloned()).collect())
    }

    /// The items that exist, for any number of keys.
    pub(super) async fn get_items(&self, keys: &[Key]) -> Result<HashMap<Key, Item>, Fault> {
        if let [key] = keys {
            let found = self.get_item(key, None).await?;
            return Ok(found.into_iter().map(|item| (key.clone(), item)).collect());
        }
        // DynamoDB rejects a request that names a key twice.
        let distinct: Vec<&Key> = keys.iter().collect::<HashSet<_>>().into_iter().collect();
        let requests: Vec<&[&Key]> = distinct.chunks(MAX_BATCH).collect();
        let mut found = HashMap::new();
        for together in requests.chunks(MAX_CONCURRENT) {
            for answer in join_all(together.iter().map(|keys| self.get_batch(keys))).await {
                found.extend(answer?);
            }
        }
        Ok(found)
    }

    /// `only`: this attribute and no others.
    pub(super) async fn get_item(&self, key: &Key, only: Option<&str>) -> Result<Option<Item>, Fault> {
        let request = self.client.get_item().table_name(&self.table).set_key(Some(key_item(key)));
        let mut terms = Terms::default();
        let only = only.map(|name| terms.name(name));
        let request = request.consistent_read(true).set_projection_expression(only);
        let request = request.set_expression_attribute_names(terms.into_maps().0);
        Ok(request.send().await.map_err(|error| CallError::new("GetItem", &error))?.item)
    }

    async fn get_batch(&self, keys: &[&Key]) -> Result<HashMap<Key, Item>, Fault> {
        let mut left: Vec<Item> = keys.iter().map(|key| key_item(key)).collect();
        let mut found = HashMap::new();
        let mut tries = 0;
        while !left.is_empty() {
            let asked = left.len();
            let keys = KeysAndAttributes::builder().set_keys(Some(left.clone())).consistent_read(true);
            let keys = keys.build().expect("a request with keys");
            let answer = self.client.batch_get_item().request_items(&self.table, keys).send().await;
            match answer.map_err(|error| CallError::new("BatchGetItem", &error)) {
                Ok(mut answer) => {
                    let items = answer.responses.as_mut().and_then(|tables| tables.remove(&self.table));
                    for item in items.unwrap_or_default() {
                        found.insert(key_of(&item)?, item);
                    }
                    let unprocessed =
                        answer.unprocessed_keys.and_then(|mut tables| tables.remove(&self.table));
                    left = unprocessed.map(|keys| keys.keys).unwrap_or_default();
                }
                // None of them was read.
                Err(CallError { cause: Cause::Throttled, .. }) => {}
                Err(error) => return Err(error.into()),
            }
            // A response holds at most 16 MB, so one that leaves keys unprocessed may still be progress.
            tries = if left.len() < asked { 0 } else { tries + 1 };
            if tries == MAX_TRIES {
                return Err(Fault::Unprocessed { operation: "BatchGetItem", count: left.len() });
            }
            if tries > 0 {
                self.random.pause(tries).await;
            }
        }
        Ok(found)
    }
}
