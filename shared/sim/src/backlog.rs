use std::sync::Arc;

use async_trait::async_trait;
use holdfast_core::ids::Tenant;
use holdfast_core::ports::{Backlog, BodyKey, QueueName, Store, StoreError, Waiting};
use holdfast_core::records::{FirstAttempt, Message, Record};

use crate::{MemoryQueue, MemoryStore};

/// Counted by looking at everything: simulated worlds are small.
pub struct MemoryBacklog {
    pub store: Arc<MemoryStore>,
    pub queue: Arc<MemoryQueue>,
}

#[async_trait]
impl Backlog for MemoryBacklog {
    async fn of(&self, tenant: &Tenant) -> Result<Option<Waiting>, StoreError> {
        let mut by_url = Vec::new();
        let mut stored = Vec::new();
        for record in self.store.all() {
            if let Record::Delivery(delivery) = record
                && delivery.key.tenant == *tenant
                && delivery.progress.state.is_live()
            {
                stored.push((BodyKey::of(&delivery.key), delivery.url_id));
            }
        }
        for (message, _) in self.queue.messages(QueueName::First) {
            let Message::FirstAttempt(FirstAttempt { key, url_id, body, .. }) = message else { continue };
            match body {
                _ if key.tenant != *tenant => {}
                Some(body) => by_url.push((url_id, body.len() as u64)),
                None => stored.push((BodyKey::of(&key), url_id)),
            }
        }
        let keys: Vec<BodyKey> = stored.iter().map(|(key, _)| key.clone()).collect();
        let bodies = self.store.get_bodies(&keys).await?;
        let lengths = bodies.into_iter().map(|body| body.map_or(0, |body| body.len() as u64));
        by_url.extend(stored.into_iter().map(|(_, url_id)| url_id).zip(lengths));
        Ok(Some(Waiting::sum(by_url)))
    }

    async fn stored_bytes(&self, tenant: &Tenant) -> Result<Option<u64>, StoreError> {
        Ok(Some(self.store.body_bytes(tenant) + self.store.record_bytes(tenant)))
    }
}
