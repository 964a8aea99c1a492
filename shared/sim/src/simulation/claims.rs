//! The claims of one process: each is used for a request, or given back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use holdfast_core::ports::{AttemptRequest, AttemptResult, Sender};
use holdfast_core::records::DeliveryRecord;
use holdfast_core::rules::delivery::{AttemptNumber, Lease};
use holdfast_core::rules::shortage::Shortage;

use super::faults::Faults;
use super::receivers::{Receivers, delivery_of};

/// Deliveries that the process has claimed, and neither requested nor written since, with the attempt that it has claimed.
#[derive(Default)]
pub(super) struct Claims(Mutex<BTreeMap<String, AttemptNumber>>);

impl Claims {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, AttemptNumber>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The process has replaced a delivery. `was_unused`: it had claimed it and made no request. `false`: it gives the claim back as if it
    /// had made one.
    pub(super) fn wrote(&self, before: &DeliveryRecord, after: &DeliveryRecord, was_unused: bool) -> bool {
        let (old, new) = (&before.progress, &after.progress);
        let takes = |lease: Option<Lease>| lease.map_or(0, |lease| lease.takes);
        // Also if the write took so long that the lease has lapsed: the process does not know that, and goes on.
        if takes(new.lease) > takes(old.lease) {
            self.lock().insert(after.key.id(), new.number());
            return true;
        }
        let is_same_attempt = new.number() == old.number() && new.state.is_live();
        !(was_unused && is_same_attempt) || takes(new.lease) < takes(old.lease)
    }

    pub(super) fn is_unused(&self, delivery: &str) -> bool {
        self.lock().contains_key(delivery)
    }

    /// It tries to write the delivery, or makes the request: from then on it has done what it can. Returns the attempt that it had claimed.
    pub(super) fn use_for(&self, delivery: &str) -> Option<AttemptNumber> {
        self.lock().remove(delivery)
    }

    /// What is left when an invocation has ended.
    pub(super) fn take(&self) -> BTreeSet<String> {
        std::mem::take(&mut *self.lock()).into_keys().collect()
    }
}

/// The receivers as one process reaches them, if it has what a request takes.
pub(super) struct ProcessSender {
    pub(super) receivers: Arc<Receivers>,
    pub(super) faults: Arc<Faults>,
    pub(super) claims: Arc<Claims>,
}

#[async_trait]
impl Sender for ProcessSender {
    async fn send(&self, request: AttemptRequest) -> Result<AttemptResult, Shortage> {
        if self.faults.happens(self.faults.rates().shortage, "fault: a process has a shortage") {
            return Err(Shortage::Ports);
        }
        let claimed = self.claims.use_for(&delivery_of(&request));
        Ok(self.receivers.receive(request, claimed).await)
    }
}
