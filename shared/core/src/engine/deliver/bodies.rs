//! The bodies of a batch.

use std::collections::{BTreeSet, HashMap};

use bytes::Bytes;

use super::super::{Engine, Result, Unavailable};
use crate::ports::{BodyKey, StoreError};
use crate::records::FirstAttempt;

/// Bodies that were loaded for a batch, or why they could not be.
pub(super) struct Bodies(HashMap<BodyKey, Result<Bytes>>);

impl Bodies {
    pub(super) fn get(&self, key: &BodyKey) -> Result<Bytes> {
        self.0.get(key).cloned().unwrap_or_else(|| Err(Unavailable::BodyMissing(key.event_key.clone())))
    }
}

impl Engine {
    /// Each once, all at the same time: the deliveries of a fan-out share one body.
    pub(super) async fn load_bodies(&self, keys: impl Iterator<Item = BodyKey>) -> Bodies {
        let keys: Vec<BodyKey> = keys.collect::<BTreeSet<_>>().into_iter().collect();
        if keys.is_empty() {
            return Bodies(HashMap::new());
        }
        let loaded: Vec<Result<Bytes>> = match self.ports.store.get_bodies(&keys).await {
            Ok(found) => found.into_iter().zip(&keys).map(|(body, key)| present(body, key)).collect(),
            // One damaged body must not keep the deliveries of the others waiting.
            Err(StoreError::Unreadable { .. }) if keys.len() > 1 => {
                let mut loaded = Vec::with_capacity(keys.len());
                for key in &keys {
                    loaded.push(self.load_body(key).await);
                }
                loaded
            }
            Err(error) => keys.iter().map(|_| Err(error.clone().into())).collect(),
        };
        Bodies(keys.into_iter().zip(loaded).collect())
    }

    pub(crate) async fn load_body(&self, key: &BodyKey) -> Result<Bytes> {
        let found = self.ports.store.get_bodies(std::slice::from_ref(key)).await?;
        present(found.into_iter().next().flatten(), key)
    }

    /// A delivery that gets a record needs its body in the store, because its message is deleted.
    pub(super) async fn store_inline_body(&self, message: &FirstAttempt) -> Result<()> {
        let Some(body) = &message.body else { return Ok(()) };
        let body = vec![(BodyKey::of(&message.key), body.clone())];
        Ok(self.ports.store.put_bodies(body, self.body_remove_at()).await?)
    }
}

fn present(body: Option<Bytes>, key: &BodyKey) -> Result<Bytes> {
    body.ok_or_else(|| Unavailable::BodyMissing(key.event_key.clone()))
}
