//! Bodies: compressed and in parts, because an item holds 400 KB. The first part has the number of parts and is written last, so that
//! a body that can be found is complete.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use bytes::Bytes;
use futures_util::future::try_join_all;
use holdfast_core::ports::BodyKey;
use holdfast_core::records::Key;
use holdfast_core::time::Timestamp;

use super::DynamoStore;
use super::fault::Fault;
use super::items::{Item, PK, TTL, key_item, number_of, ttl};
use super::request::{Action, Refusal, Request};
use super::terms::Terms;
use super::values::number;

const MAX_PART_BYTES: usize = 380_000;
const DATA: &str = "data";
const PARTS: &str = "parts";
const COMPRESSED: &str = "compressed";
/// Small and fast enough for JSON.
const COMPRESSION_LEVEL: u8 = 5;
/// A limit for decompression, against an item that claims to be small.
const MAX_BODY_BYTES: usize = 16 << 20;

fn part_key(body: &BodyKey, part: usize) -> Key {
    Key::new(format!("body#{}#{}", body.tenant, body.event_key), format!("part#{part:03}"))
}

/// The parts of a body, the first one first.
fn parts_of(key: &BodyKey, body: &[u8], remove_at: Timestamp) -> Vec<Item> {
    let compressed = miniz_oxide::deflate::compress_to_vec_zlib(body, COMPRESSION_LEVEL);
    let smaller = compressed.len() < body.len();
    let stored = if smaller { Cow::Owned(compressed) } else { Cow::Borrowed(body) };
    // An empty body has one part too.
    let count = stored.len().div_ceil(MAX_PART_BYTES).max(1);
    let part = |n: usize| {
        let data = &stored[n * MAX_PART_BYTES..stored.len().min((n + 1) * MAX_PART_BYTES)];
        let mut item = key_item(&part_key(key, n));
        item.insert(DATA.to_owned(), AttributeValue::B(Blob::new(data)));
        item.insert(TTL.to_owned(), ttl(remove_at));
        if n == 0 {
            item.insert(PARTS.to_owned(), number(count));
            item.insert(COMPRESSED.to_owned(), AttributeValue::Bool(smaller));
        }
        item
    };
    (0..count).map(part).collect()
}

/// `None`: a part is missing, because the body has expired and is being removed.
fn join_parts(key: &BodyKey, items: &HashMap<Key, Item>) -> Result<Option<Bytes>, Fault> {
    let unreadable = || Fault::corrupt(part_key(key, 0), "it is not a body");
    let Some(first) = items.get(&part_key(key, 0)) else { return Ok(None) };
    let mut stored = Vec::new();
    for part in 0..number_of(first, PARTS).ok_or_else(unreadable)? {
        let Some(item) = items.get(&part_key(key, part)) else { return Ok(None) };
        let data = item.get(DATA).and_then(|data| data.as_b().ok()).ok_or_else(unreadable)?;
        stored.extend_from_slice(data.as_ref());
    }
    if first.get(COMPRESSED).is_some_and(|compressed| compressed == &AttributeValue::Bool(true)) {
        let body = miniz_oxide::inflate::decompress_to_vec_zlib_with_limit(&stored, MAX_BODY_BYTES);
        stored = body.map_err(|_| unreadable())?;
    }
    Ok(Some(stored.into()))
}

impl DynamoStore {
    pub(super) async fn put_all_bodies(
        &self,
        bodies: Vec<(BodyKey, Bytes)>,
        remove_at: Timestamp,
    ) -> Result<(), Fault> {
        let bodies: HashMap<BodyKey, Bytes> = bodies.into_iter().collect();
        let mut firsts = Vec::new();
        let mut rest = Vec::new();
        for (key, body) in &bodies {
            let mut parts = parts_of(key, body, remove_at).into_iter();
            firsts.extend(parts.next());
            rest.extend(parts);
        }
        for items in [rest, firsts] {
            let left = self.put_items(items).await?;
            if !left.is_empty() {
                return Err(Fault::Unprocessed { operation: "BatchWriteItem", count: left.len() });
            }
        }
        Ok(())
    }

    pub(super) async fn get_all_bodies(&self, keys: &[BodyKey]) -> Result<Vec<Option<Bytes>>, Fault> {
        let firsts: Vec<Key> = keys.iter().map(|key| part_key(key, 0)).collect();
        let mut items = self.get_items(&firsts).await?;
        let mut rest = Vec::new();
        for key in keys.iter().collect::<HashSet<_>>() {
            let count = items.get(&part_key(key, 0)).and_then(|first| number_of(first, PARTS)).unwrap_or(0);
            rest.extend((1..count).map(|part| part_key(key, part)));
        }
        if !rest.is_empty() {
            items.extend(self.get_items(&rest).await?);
        }
        keys.iter().map(|key| join_parts(key, &items)).collect()
    }

    /// The first part last, so that no body is kept longer than one of its parts.
    pub(super) async fn keep(&self, key: &BodyKey, remove_at: Timestamp) -> Result<bool, Fault> {
        let first = part_key(key, 0);
        let Some(found) = self.get_item(&first, Some(PARTS)).await? else { return Ok(false) };
        let count =
            number_of(&found, PARTS).ok_or_else(|| Fault::corrupt(first.clone(), "it is not a body"))?;
        let rest = (1..count).map(|part| self.keep_part(part_key(key, part), remove_at));
        let kept = try_join_all(rest).await?;
        Ok(kept.into_iter().all(|kept| kept) && self.keep_part(first, remove_at).await?)
    }

    /// The first part first, so that a body that can be found is complete.
    pub(super) async fn remove(&self, key: &BodyKey) -> Result<(), Fault> {
        let first = part_key(key, 0);
        let Some(found) = self.get_item(&first, Some(PARTS)).await? else { return Ok(()) };
        let count = number_of(&found, PARTS).unwrap_or(1);
        self.remove_part(first).await?;
        try_join_all((1..count).map(|part| self.remove_part(part_key(key, part)))).await?;
        Ok(())
    }

    async fn remove_part(&self, key: Key) -> Result<(), Fault> {
        let request = Request { action: Action::Delete(key), condition: None, terms: Terms::default() };
        match request.send(&self.client, &self.table).await {
            Ok(_) | Err(Refusal::Condition(_)) => Ok(()),
            Err(Refusal::Fault(fault)) => Err(fault),
            Err(Refusal::Busy | Refusal::Throttled) => {
                Err(Fault::Unprocessed { operation: "DeleteItem", count: 1 })
            }
        }
    }

    async fn keep_part(&self, key: Key, remove_at: Timestamp) -> Result<bool, Fault> {
        let mut terms = Terms::default();
        let sooner = terms.compare(TTL, "<", TTL, ttl(remove_at));
        let condition = format!("attribute_exists({}) AND {sooner}", terms.name(PK));
        let change = format!("SET {}", terms.compare(TTL, "=", TTL, ttl(remove_at)));
        let action = Action::Update { key, change };
        let request = Request { action, condition: Some(condition), terms };
        match request.send(&self.client, &self.table).await {
            Ok(_) => Ok(true),
            // It exists and is kept for longer already.
            Err(Refusal::Condition(found)) => Ok(found.is_some()),
            Err(Refusal::Fault(fault)) => Err(fault),
            Err(Refusal::Busy | Refusal::Throttled) => {
                Err(Fault::Unprocessed { operation: "UpdateItem", count: 1 })
            }
        }
    }
}

#[cfg(test)]
#[path = "bodies_tests.rs"]
mod tests;
