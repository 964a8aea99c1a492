//! The bodies of a batch.

use std::collections::{BTreeSet, HashMap};

use bytes::Bytes;

use super::super::{Engine, Result, Unavailable};
use super::body_cache::Place;
use super::first::FirstMessage;
use crate::ports::{BodyKey, StoreError};

/// Bodies that were loaded for a batch, or why they could not be.
pub(super) struct Bodies(HashMap<BodyKey, Result<Bytes>>);

impl Bodies {
    pub(super) fn get(&self, key: &BodyKey) -> Result<Bytes> {
        self.0.get(key).cloned().unwrap_or_else(|| Err(Unavailable::BodyMissing(key.event_key.clone())))
    }
}

impl Engine {
    /// Each once, and all at the same time. Other batches that need one of them now wait for it instead of reading it too.
    pub(super) async fn load_bodies(&self, keys: impl Iterator<Item = BodyKey>) -> Bodies {
        // In order, so that two batches never wait for each other.
        let keys: BTreeSet<BodyKey> = keys.collect();
        let places: Vec<Place> = keys.iter().map(|key| self.bodies.place(key)).collect();
        let (mut bodies, mut missing, mut to_fill) = (HashMap::new(), Vec::new(), Vec::new());
        for (key, place) in keys.into_iter().zip(&places) {
            let body = place.lock().await;
            match &*body {
                Some(body) => {
                    bodies.insert(key, Ok(body.clone()));
                }
                None => {
                    missing.push(key);
                    to_fill.push(body);
                }
            }
        }
        let loaded = self.read_bodies(&missing).await;
        for ((key, body), mut place) in missing.into_iter().zip(loaded).zip(to_fill) {
            *place = body.as_ref().ok().cloned();
            self.bodies.resize(&key, body.as_ref().map_or(0, Bytes::len));
            bodies.insert(key, body);
        }
        Bodies(bodies)
    }

    /// In the order of the keys.
    async fn read_bodies(&self, keys: &[BodyKey]) -> Vec<Result<Bytes>> {
        if keys.is_empty() {
            return Vec::new();
        }
        match self.ports.store.get_bodies(keys).await {
            Ok(found) => found.into_iter().zip(keys).map(|(body, key)| present(body, key)).collect(),
            // One damaged body must not keep the deliveries of the others waiting.
            Err(StoreError::Unreadable { .. }) => {
                let mut loaded = Vec::with_capacity(keys.len());
                for key in keys {
                    loaded.push(self.load_body(key).await);
                }
                loaded
            }
            Err(error) => keys.iter().map(|_| Err(error.clone().into())).collect(),
        }
    }

    pub(crate) async fn load_body(&self, key: &BodyKey) -> Result<Bytes> {
        let found = self.ports.store.get_bodies(std::slice::from_ref(key)).await?;
        present(found.into_iter().next().flatten(), key)
    }

    /// A delivery that gets a record needs its body in the store, because its message is deleted.
    pub(super) async fn store_only_body(&self, first: &FirstMessage) -> Result<()> {
        let Some(body) = first.only_body() else { return Ok(()) };
        let body = vec![(BodyKey::of(&first.message.key), body.clone())];
        Ok(self.ports.store.put_bodies(body, self.body_remove_at()).await?)
    }
}

fn present(body: Option<Bytes>, key: &BodyKey) -> Result<Bytes> {
    body.ok_or_else(|| Unavailable::BodyMissing(key.event_key.clone()))
}
