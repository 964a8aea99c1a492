//! Follows tickets to deliveries. An attempt is claimed before it is made.

use bytes::Bytes;
use futures_util::future::{join, join_all};

use super::super::recover::ParkedUrls;
use super::super::steps::BatchOutcomes;
use super::super::tickets::{delivery_ticket, linked_after, next_ticket};
use super::super::{Engine, Loaded, Result};
use super::attempt::Ready;
use super::batch::{Handled, Slot, all_failed};
use super::context::{Admission, DeliveryContext};
use crate::ports::{BodyKey, Delay, Expect, Outgoing, Write};
use crate::records::{Attempt, DeliveryRecord, DeliveryTicket};
use crate::rules::claim::{OnTicket, on_ticket};
use crate::rules::delivery::AttemptOutcome;
use crate::time::Timestamp;

pub(super) struct RetryTicket {
    pub(super) ticket: DeliveryTicket,
    /// It was received before.
    pub(super) redelivered: bool,
}

/// What follows from a ticket.
enum Decision {
    /// Nothing is left to do but to send these tickets.
    Send(Option<Outgoing>),
    /// The delivery is parked: its URL is looked at once more.
    RecheckUrl(DeliveryRecord),
    /// It may be attempted, as far as the record says.
    Due(Loaded<DeliveryRecord>),
}

/// A due delivery once its context was looked at.
enum Claim {
    Ready(Box<Ready>),
    /// With the step that released it, which does not count on the receiver then.
    Parked(Box<DeliveryRecord>),
    Dead(Box<DeliveryRecord>),
    /// Another function took it.
    Over,
}

impl Engine {
    pub(super) async fn deliver_tickets(
        &self,
        batch: Vec<(Slot, RetryTicket)>,
        until_real: Timestamp,
    ) -> Handled {
        if batch.is_empty() {
            return Handled::new();
        }
        let keys: Vec<_> = batch.iter().map(|(_, t)| DeliveryRecord::key(&t.ticket.key)).collect();
        let found = match self.repository.get_each::<DeliveryRecord>(&keys).await {
            Ok(found) => found,
            Err(error) => return all_failed(batch, &error),
        };
        let decided = join_all(batch.into_iter().zip(found).map(async |((slot, ticket), found)| {
            let decision = match found {
                Ok(Some(loaded)) => self.decide(&ticket, loaded).await,
                // A delivery that was removed after its time has no use for a ticket.
                Ok(None) => Ok(Decision::Send(None)),
                Err(error) => Err(error),
            };
            (slot, decision)
        }))
        .await;
        let mut handled = Handled::new();
        let (mut tickets, mut parked_at, mut due) = (Vec::new(), ParkedUrls::new(), Vec::new());
        for (slot, decision) in decided {
            match decision {
                Ok(Decision::Send(ticket)) => {
                    tickets.extend(ticket);
                    handled.push((slot, Ok(())));
                }
                Ok(Decision::RecheckUrl(record)) => {
                    parked_at.insert((record.key.tenant, record.url_id));
                    handled.push((slot, Ok(())));
                }
                Ok(Decision::Due(loaded)) => due.push((slot, loaded)),
                Err(error) => handled.push((slot, Err(error))),
            }
        }
        handled.extend(self.claim_and_attempt(due, &mut parked_at, until_real).await);
        self.recheck_after_parking(parked_at).await;
        self.send_tickets(tickets).await;
        handled
    }

    async fn decide(&self, ticket: &RetryTicket, loaded: Loaded<DeliveryRecord>) -> Result<Decision> {
        let now = self.ports.clock.both();
        let (record, links) = (&loaded.record, ticket.ticket.links);
        Ok(match on_ticket(&record.progress, ticket.ticket.number(), ticket.redelivered, now) {
            OnTicket::End => Decision::Send(None),
            OnTicket::ResendCurrent | OnTicket::WaitUntilDue => {
                Decision::Send(next_ticket(record, now.schedule).and_then(|next| linked_after(links, next)))
            }
            OnTicket::WaitForLease(left) => {
                let delay = Delay::at_most(self.ports.clock.to_schedule(left));
                Decision::Send(linked_after(links, delivery_ticket(record, delay)))
            }
            OnTicket::RecheckUrl => Decision::RecheckUrl(loaded.record),
            OnTicket::Expire => {
                self.expire(&loaded).await?;
                Decision::Send(None)
            }
            OnTicket::CountAsInterrupted => Decision::Send(self.count_as_interrupted(&loaded).await?),
            OnTicket::Claim => Decision::Due(loaded),
        })
    }

    /// Claims and attempts what is due, parks what may not be attempted.
    async fn claim_and_attempt(
        &self,
        due: Vec<(Slot, Loaded<DeliveryRecord>)>,
        parked_at: &mut ParkedUrls,
        until_real: Timestamp,
    ) -> Handled {
        if due.is_empty() {
            return Handled::new();
        }
        // Before health is read: bodies may take a while, and health must be fresh.
        let bodies = self.load_bodies(due.iter().map(|(_, due)| BodyKey::of(&due.record.key))).await;
        let deliveries = due.iter().map(|(_, due)| (&due.record.key, &due.record.url_id));
        let context = match self.load_context(deliveries).await {
            Ok(context) => context,
            Err(error) => return all_failed(due, &error),
        };
        if let Err(error) = self.check_time(until_real) {
            return all_failed(due, &error);
        }
        let claims = join_all(due.into_iter().map(async |(slot, due)| {
            let claim = match bodies.get(&BodyKey::of(&due.record.key)) {
                Ok(body) => self.claim(due, body, &context).await,
                Err(error) => Err(error),
            };
            (slot, claim)
        }))
        .await;
        let (mut handled, mut ready, mut not_attempted) = (Handled::new(), Vec::new(), Vec::new());
        for (slot, claim) in claims {
            match claim {
                Ok(Claim::Ready(one)) => ready.push((slot, *one)),
                Ok(Claim::Parked(record)) => {
                    parked_at.insert((record.key.tenant.clone(), record.url_id.clone()));
                    not_attempted.push(record);
                    handled.push((slot, Ok(())));
                }
                Ok(Claim::Dead(record)) => {
                    not_attempted.push(record);
                    handled.push((slot, Ok(())));
                }
                Ok(Claim::Over) => handled.push((slot, Ok(()))),
                Err(error) => handled.push((slot, Err(error))),
            }
        }
        let mut on_steps = BatchOutcomes::default();
        not_attempted.iter().for_each(|record| on_steps.add_not_attempted(record));
        let (attempted, ()) =
            join(self.attempt_all(ready, &context, until_real), self.count_on_steps(on_steps)).await;
        handled.extend(attempted);
        handled
    }

    async fn claim(
        &self,
        due: Loaded<DeliveryRecord>,
        body: Bytes,
        context: &DeliveryContext,
    ) -> Result<Claim> {
        let mut record = due.record.clone();
        match context.admission(&record.key)? {
            Admission::Dead(reason) => {
                self.make_dead(&due, reason).await?;
                Ok(Claim::Dead(Box::new(record)))
            }
            Admission::Park { subscription } => {
                record.retarget(&subscription);
                let released_in = record.released_in.take();
                record.progress.park();
                // If another writer was faster, it decides what becomes of the delivery.
                self.repository.replace_delivery(&due, record.clone(), Vec::new()).await?;
                Ok(Claim::Parked(Box::new(DeliveryRecord { released_in, ..record })))
            }
            Admission::Attempt { subscription, allowed_by } => {
                record.retarget(&subscription);
                record.progress.claim(self.ports.clock.both(), self.settings.function_timeout);
                if !self.repository.replace_delivery(&due, record.clone(), Vec::new()).await? {
                    return Ok(Claim::Over);
                }
                let delivery = Loaded { record, version: due.version + 1 };
                let ready = Ready { delivery, body, subscription, allowed_by, body_is_inline: false };
                Ok(Claim::Ready(Box::new(ready)))
            }
        }
    }

    /// Two functions died during this attempt. It counts on the delivery but not on the URL, whose response is not known.
    pub(crate) async fn count_as_interrupted(
        &self,
        loaded: &Loaded<DeliveryRecord>,
    ) -> Result<Option<Outgoing>> {
        let now = self.ports.clock.now();
        let record = &loaded.record;
        let attempt = Attempt {
            key: record.key.clone(),
            epoch: record.progress.epoch,
            n: record.progress.next_attempt,
            at: now,
            outcome: AttemptOutcome::Interrupted,
            status: None,
            error: Some("interrupted: the attempt was started twice and never ended".to_owned()),
            ms: 0,
            excerpt: None,
            remove_at: self.attempt_remove_at(now),
        };
        let mut failed = record.clone();
        failed.progress.fail(&self.settings.schedule, now, None, now, self.settings.keep);
        let ticket = next_ticket(&failed, now);
        let with = vec![Write::put(attempt.clone(), Expect::Any)];
        if !self.repository.replace_delivery(loaded, failed, with).await? {
            return Ok(None);
        }
        self.add_summary(record, &attempt);
        Ok(ticket)
    }
}
