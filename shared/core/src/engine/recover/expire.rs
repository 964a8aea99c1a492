//! Ends a delivery that was not delivered. It stays, with its reason, for replay.

use super::super::{Engine, Loaded, Result};
use crate::records::DeliveryRecord;
use crate::rules::delivery::Reason;

impl Engine {
    pub(crate) async fn expire(&self, delivery: &Loaded<DeliveryRecord>) -> Result<bool> {
        self.make_dead(delivery, Reason::Expired).await
    }

    /// `false`: another writer changed the record in the meantime.
    pub(crate) async fn make_dead(&self, delivery: &Loaded<DeliveryRecord>, reason: Reason) -> Result<bool> {
        let mut dead = delivery.record.clone();
        dead.released_in = None;
        dead.progress.die(reason, self.ports.clock.now(), self.settings.keep);
        self.repository.replace_delivery(delivery, dead, Vec::new()).await
    }
}
