//! Tries a disabled URL with one real delivery: the parked one that was due earliest.

use super::super::deliver::{Admission, AllowedBy, Ready};
use super::super::tickets::probe_ticket;
use super::super::{ConflictRetries, Engine, Loaded, Result};
use crate::ids::{Tenant, UrlId};
use crate::ports::{BodyKey, Expect, Write};
use crate::records::{DeliveryRecord, ParkedPointer, UrlRecord};
use crate::rules::claim::{OnTicket, on_ticket};
use crate::rules::delivery::DeliveryState;
use crate::rules::look_at::TICKET_GRACE;
use crate::rules::reassign::Reassignment;
use crate::time::Timestamp;

/// How many candidates one read brings.
const PAGE: usize = 20;

impl Engine {
    pub(crate) async fn probe(&self, tenant: &Tenant, url_id: &UrlId, until_real: Timestamp) -> Result<()> {
        let mut retries = ConflictRetries::new();
        loop {
            let Some(url) = self.repository.get_url(tenant, url_id).await? else { return Ok(()) };
            let now = self.ports.clock.now();
            if !url.record.health.probe_due(now) {
                self.send_early_on(&url.record, now).await;
                return Ok(());
            }
            let Some(delivery) = self.find_candidate(tenant, url_id, until_real).await? else {
                // With nothing due no request is made: the first delivery that comes due is the probe.
                return Ok(());
            };
            if self.make_probe(url, delivery, until_real).await? {
                return Ok(());
            }
            retries.again(url_id)?;
        }
    }

    /// A ticket that comes early, because clocks differ, is sent on to the due time. One that comes very early has lost to another: the
    /// probe was just made. It ends, or such tickets would be sent on without end.
    async fn send_early_on(&self, url: &UrlRecord, now: Timestamp) {
        let wait = url.health.next_probe_at.map(|at| at.since(now)).filter(|wait| *wait <= TICKET_GRACE);
        let ticket = wait.map(|wait| probe_ticket(&url.tenant, &url.id, wait));
        self.send_tickets(ticket.into_iter().collect()).await;
    }

    /// The parked delivery that is due, was due earliest and can be claimed.
    async fn find_candidate(
        &self,
        tenant: &Tenant,
        url_id: &UrlId,
        until_real: Timestamp,
    ) -> Result<Option<Loaded<DeliveryRecord>>> {
        let mut after = None;
        loop {
            // Many may have to be ended or moved on the way: the next probe finds fewer.
            self.check_time(until_real)?;
            let page = self.repository.list_parked(tenant, url_id, after, PAGE).await?;
            for pointer in page.items {
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

    /// `None`: it cannot be claimed, or it was ended or moved because it expired or its subscription changed.
    async fn consider(&self, pointer: ParkedPointer) -> Result<Option<Loaded<DeliveryRecord>>> {
        let Some((delivery, subscription)) = self.load_with_subscription(&pointer.key).await? else {
            return Ok(None);
        };
        if delivery.record.progress.state != DeliveryState::Parked {
            return Ok(None);
        }
        if delivery.record.reassignment(subscription.as_ref()) != Reassignment::Stay {
            self.reassign_parked(&delivery.record.key).await?;
            return Ok(None);
        }
        let now = self.ports.clock.both();
        // As if it had just been released: everything that forbids a claim then forbids it now.
        let mut released = delivery.record.progress.clone();
        released.unpark(now.schedule);
        match on_ticket(&released, released.number(), false, now) {
            OnTicket::Claim => {
                let is_over = self.end_if_logged(&delivery).await?;
                return Ok((!is_over).then_some(delivery));
            }
            OnTicket::Expire => {
                self.expire(&delivery).await?;
            }
            OnTicket::CountAsInterrupted => {
                let ticket = self.count_as_interrupted(&delivery).await?;
                self.send_tickets(ticket.into_iter().collect()).await;
            }
            OnTicket::End
            | OnTicket::ResendCurrent
            | OnTicket::WaitUntilDue
            | OnTicket::WaitForLease(_)
            | OnTicket::RecheckUrl => {}
        }
        Ok(None)
    }

    /// Moving `next_probe_at`, claiming the delivery and taking it out of parked are one transaction: exactly one probe over all
    /// functions, and no probe without a delivery. `false`: something changed, look again.
    async fn make_probe(
        &self,
        url: Loaded<UrlRecord>,
        delivery: Loaded<DeliveryRecord>,
        until_real: Timestamp,
    ) -> Result<bool> {
        let key = delivery.record.key.clone();
        let body = self.load_body(&BodyKey::of(&key)).await?;
        let context = self.load_context(std::iter::once((&key, &url.record.id))).await?;
        let subscription = match context.admission(&key)? {
            Admission::Park { subscription } if subscription.url_id == url.record.id => subscription,
            // Its subscription changed just now, and another delivery is the probe; or the URL was enabled, and no probe is due any more.
            Admission::Dead(_) | Admission::Park { .. } | Admission::Attempt { .. } => {
                self.reassign_parked(&key).await?;
                return Ok(false);
            }
        };
        self.check_time(until_real)?;
        let now = self.ports.clock.both();
        let (generation, recent_ms) = (url.record.health.generation, url.record.recent_ms);
        let mut leased = url.record;
        let function_timeout = self.ports.clock.to_schedule(self.settings.function_timeout);
        if !leased.lease_probe(now.schedule, function_timeout) {
            return Ok(true);
        }
        let mut claimed = delivery.record.clone();
        claimed.progress.claim(now, self.settings.function_timeout);
        let lease = vec![Write::put(leased.clone(), Expect::Version(url.version))];
        if !self.repository.replace_delivery(&delivery, claimed.clone(), lease).await? {
            return Ok(false);
        }
        let delivery = Loaded { record: claimed, version: delivery.version + 1 };
        // The write was conditional on the URL as it was read, so there is no need to read health again.
        let allowed_by = AllowedBy { generation, is_failing: true, recent_ms };
        let ready = Ready { delivery, body, subscription, allowed_by, body_is_inline: false };
        match self.attempt(ready).await {
            Ok(attempted) => {
                self.record_outcomes(&[attempted]).await.into_iter().collect::<Result<(), _>>()?;
                Ok(true)
            }
            Err(not_made) => {
                let url = Loaded { record: leased, version: url.version + 1 };
                self.give_back_probe(url, not_made.ready.delivery).await?;
                Err(not_made.shortage.into())
            }
        }
    }

    /// No probe was made: its delivery is parked again, and the probe is due as before. If something changed meanwhile, the sweep
    /// looks at both.
    async fn give_back_probe(
        &self,
        Loaded { record: mut url, version }: Loaded<UrlRecord>,
        delivery: Loaded<DeliveryRecord>,
    ) -> Result<()> {
        let mut parked = delivery.record.clone();
        parked.progress.give_back_claim();
        parked.progress.park();
        url.give_back_probe(self.ports.clock.now());
        let with = vec![Write::put(url, Expect::Version(version))];
        self.repository.replace_delivery(&delivery, parked, with).await?;
        Ok(())
    }
}
