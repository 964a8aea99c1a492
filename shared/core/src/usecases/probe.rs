//! Tries a disabled URL with one real delivery: the parked one that was due earliest.

use super::retry::ready_to_retry;
use super::surroundings::Prospect;
use super::{Engine, MOST_CONFLICTS, Unavailable};
use crate::ids::{Tenant, UrlId};
use crate::ports::{BodyKey, Expect, Order, Query, Write};
use crate::records::{DeliveryRecord, DeliveryState, ParkedPointer, Record, UrlRecord};
use crate::rules::claim::{OnTicket, on_ticket};
use crate::rules::resettle::{Fate, fate};
use crate::time::Timestamp;

/// How many candidates are looked at in one go.
const CANDIDATES: usize = 20;

impl Engine {
    pub(super) async fn probe(
        &self,
        tenant: &Tenant,
        url_id: &UrlId,
        until_real: Timestamp,
    ) -> Result<(), Unavailable> {
        for _ in 0..MOST_CONFLICTS {
            let Some((url, version)) = self.get_url(tenant, url_id).await? else { return Ok(()) };
            if !url.health.probe_due(self.ports.clock.now()) {
                return Ok(());
            }
            let Some((record, record_version)) = self.find_candidate(tenant, url_id, until_real).await?
            else {
                // With nothing due no request is made: the first delivery that comes due is the probe.
                return Ok(());
            };
            if self.make_probe((url, version), (record, record_version), until_real).await? {
                return Ok(());
            }
        }
        Err(Unavailable(format!("{url_id} changes too often to be probed")))
    }

    /// The parked delivery that is due, was due earliest and can be claimed.
    async fn find_candidate(
        &self,
        tenant: &Tenant,
        url_id: &UrlId,
        until_real: Timestamp,
    ) -> Result<Option<(DeliveryRecord, u64)>, Unavailable> {
        let mut after = None;
        loop {
            // Many may have to be ended or moved on the way: whoever comes next finds fewer.
            self.check_time(until_real)?;
            let query = Query {
                partition: ParkedPointer::partition(tenant, url_id),
                prefix: String::new(),
                after,
                order: Order::Ascending,
                limit: CANDIDATES,
            };
            let page = self.ports.store.query(query).await?;
            for item in page.items {
                let Record::Parked(pointer) = item.record else { continue };
                if pointer.due_at > self.ports.clock.now() {
                    return Ok(None);
                }
                if let Some(candidate) = self.consider(pointer).await? {
                    return Ok(Some(candidate));
                }
            }
            after = page.next;
            if after.is_none() {
                return Ok(None);
            }
        }
    }

    /// `None`: it cannot be claimed, or it was ended or moved because its time is over or its subscription changed.
    async fn consider(&self, pointer: ParkedPointer) -> Result<Option<(DeliveryRecord, u64)>, Unavailable> {
        let found = self.get_with_subscription(&pointer.key).await?;
        let Some((record, version, subscription)) =
            found.filter(|(record, ..)| record.state == DeliveryState::Parked)
        else {
            return Ok(None);
        };
        if fate(&record, subscription.as_ref()) != Fate::Stay {
            self.settle_parked(&record.key).await?;
            return Ok(None);
        }
        let now = self.ports.clock.both();
        // As if it had just been let go: everything that forbids a claim then forbids it now.
        let mut free = record.clone();
        free.unpark(now.schedule);
        match on_ticket(&free, (record.epoch, record.next_attempt), false, now.schedule, now.real) {
            OnTicket::Claim => return Ok(Some((record, version))),
            OnTicket::Expire => {
                self.expire(record, version).await?;
            }
            OnTicket::CountAsInterrupted => {
                let ticket = self.count_as_interrupted(record, version).await?;
                self.hint(ticket.into_iter().collect()).await;
            }
            _ => {}
        }
        Ok(None)
    }

    /// Moving `next_probe_at`, claiming the delivery and taking it out of parked are one transaction: exactly one probe over all
    /// functions, and no probe without a delivery. `false`: something changed, look again.
    async fn make_probe(
        &self,
        (url, version): (UrlRecord, u64),
        (record, record_version): (DeliveryRecord, u64),
        until_real: Timestamp,
    ) -> Result<bool, Unavailable> {
        let body = self.load_body(&BodyKey::of(&record.key)).await?;
        let around = self.look_around(std::iter::once((&record.key, &url.id))).await?;
        let subscription = match around.prospect(&record.key) {
            Prospect::Park { subscription } if subscription.url_id == url.id => subscription.clone(),
            // Enabled by somebody else: not a probe any more.
            Prospect::Attempt { subscription, .. } if subscription.url_id == url.id => return Ok(true),
            // Its subscription changed just now: another delivery is the probe.
            Prospect::Die(_) | Prospect::Park { .. } | Prospect::Attempt { .. } => {
                self.settle_parked(&record.key).await?;
                return Ok(false);
            }
        };
        self.check_time(until_real)?;
        let now = self.ports.clock.both();
        let mut leased = url.clone();
        let function_timeout = self.ports.clock.stretch(self.settings.function_timeout);
        if !leased.lease_probe(now.schedule, function_timeout) {
            return Ok(true);
        }
        let mut claimed = record.clone();
        claimed.claim(now.schedule, now.real, self.settings.function_timeout);
        let lease = vec![Write::put(Record::Url(leased), Expect::Version(version))];
        if !self.put_delivery(&record, record_version, claimed.clone(), lease).await? {
            return Ok(false);
        }
        let ready = ready_to_retry(claimed, record_version + 1, body, subscription, url.health.generation);
        // Its write was conditional on the URL as it was read, so there is no need to read health again.
        let attempted = self.attempt(ready).await;
        self.conclude_all(vec![Ok(attempted)]).await.into_iter().collect::<Result<(), _>>()?;
        Ok(true)
    }
}
