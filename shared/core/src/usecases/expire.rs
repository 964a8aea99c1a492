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
        self.put_delivery(&record, version, dead, Vec::new()).await
    }

    /// Replaces a record that may be parked: record and pointer enter and leave parked, and move to another URL, in one transaction.
    /// `with` is written in the same one. `false`: somebody else changed something.
    pub(super) async fn put_delivery(
        &self,
        before: &DeliveryRecord,
        version: u64,
        after: DeliveryRecord,
        with: Vec<Write>,
    ) -> Result<bool, Unavailable> {
        let mut writes = with;
        let pointer = |record: &DeliveryRecord| {
            (record.state == DeliveryState::Parked).then(|| ParkedPointer::of(record))
        };
        let (old, new) = (pointer(before), pointer(&after));
        // When only the sweep looked at it, the pointer stays as it is.
        if old != new {
            let stays = |old: &ParkedPointer| new.as_ref().is_some_and(|new| new.key() == old.key());
            let gone = old.filter(|old| !stays(old));
            writes.extend(gone.map(|old| Write::Delete { key: old.key(), expect: Expect::Any }));
            writes.extend(new.map(|new| Write::put(Record::Parked(new), Expect::Any)));
        }
        writes.push(Write::put(Record::Delivery(after), Expect::Version(version)));
        self.try_write(writes).await
    }
}
