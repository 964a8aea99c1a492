//! Ends a delivery that was not delivered. It stays, with its reason, for replay.

use super::{Engine, Unavailable};
use crate::ports::{Expect, Write};
use crate::records::{DeliveryRecord, DeliveryState, ParkedPointer, Reason, Record};

impl Engine {
    pub(super) async fn expire(&self, record: DeliveryRecord, version: u64) -> Result<bool, Unavailable> {
        self.make_dead(record, version, Reason::Expired).await
    }

    /// `false`: the record was changed by somebody else in the meantime.
    pub(super) async fn make_dead(
        &self,
        record: DeliveryRecord,
        version: u64,
        reason: Reason,
    ) -> Result<bool, Unavailable> {
        let mut dead = record.clone();
        dead.die(reason, self.ports.clock.now(), self.settings.keep);
        self.put_delivery(&record, version, dead).await
    }

    /// Replaces a record that may be parked: record and pointer enter and leave parked in one transaction.
    pub(super) async fn put_delivery(
        &self,
        before: &DeliveryRecord,
        version: u64,
        after: DeliveryRecord,
    ) -> Result<bool, Unavailable> {
        let mut writes = Vec::with_capacity(2);
        if before.state == DeliveryState::Parked && after.state != DeliveryState::Parked {
            writes.push(Write::Delete { key: ParkedPointer::of(before).key(), expect: Expect::Any });
        }
        writes.push(Write::put(Record::Delivery(after), Expect::Version(version)));
        self.try_write(writes).await
    }
}
