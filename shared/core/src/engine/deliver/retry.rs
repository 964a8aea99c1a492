//! Follows tickets to deliveries. An attempt is claimed before it is made.

use bytes::Bytes;
use futures_util::future::{join, join_all};

use super::super::recover::ParkedUrls;
use super::super::repository::typed;
use super::super::steps::BatchOutcomes;
use super::super::tickets::{delivery_ticket, linked_after, next_ticket};
use super::super::{DeliveryLog, Engine, Loaded, Result};
use super::attempt::Ready;
use super::batch::{Handled, Slot, all_failed};
use super::context::{Admission, DeliveryContext};
use crate::ports::{BodyKey, Delay, Expect, Outgoing, Query, Write};
use crate::records::{Attempt, DeliveryRecord, DeliveryTicket, LoggedDelivery};
use crate::rules::claim::{OnTicket, on_ticket};
use crate::rules::delivery::{AttemptNumber, AttemptOutcome};
use crate::time::Timestamp;

pub(super) struct RetryTicket {
    pub(super) ticket: DeliveryTicket,
    /// It was received before.
    pub(super) redelivered: bool,
}

/// More than are made of one attempt, which is taken twice.
const MAX_TAKEN: usize = 10;

/// The delivery of a ticket, and its log if that was read.
type Found = (Option<Loaded<DeliveryRecord>>, Option<LoggedDelivery>);

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
        let found = match self.load_deliveries(batch.iter().map(|(_, ticket)| &ticket.ticket)).await {
            Ok(found) => found,
            Err(error) => return all_failed(batch, &error),
        };
        let decided = join_all(batch.into_iter().zip(found).map(async |((slot, ticket), found)| {
            let decision = match found {
                Ok((Some(loaded), logged)) => self.decide(&ticket, loaded, logged).await,
                // A delivery that was removed after its time has no use for a ticket.
                Ok((None, _)) => Ok(Decision::Send(None)),
                Err(error) => Err(error),
            };
            (slot, decision)
        }))
        .await;
        let mut handled = Handled::new();
        let (mut tickets, mut parked, mut due) = (Vec::new(), Vec::new(), Vec::new());
        for (slot, decision) in decided {
            match decision {
                Ok(Decision::Send(ticket)) => {
                    tickets.extend(ticket);
                    handled.push((slot, Ok(())));
                }
                Ok(Decision::RecheckUrl(record)) => parked.push((slot, record)),
                Ok(Decision::Due(loaded)) => due.push((slot, loaded)),
                Err(error) => handled.push((slot, Err(error))),
            }
        }
        handled.extend(self.claim_and_attempt(due, &mut parked, until_real).await);
        handled.extend(self.recheck_where_parked(parked).await);
        self.send_tickets(tickets).await;
        handled
    }

    async fn recheck_where_parked(&self, parked: Vec<(Slot, DeliveryRecord)>) -> Handled {
        let (slots, urls): (Vec<Slot>, ParkedUrls) =
            parked.into_iter().map(|(slot, record)| (slot, (record.key.tenant, record.url_id))).unzip();
        let rechecked = self.recheck_urls(urls).await;
        slots.into_iter().map(|slot| (slot, rechecked.clone())).collect()
    }

    /// The delivery of each ticket, and before retry 1 also its log, by one read.
    async fn load_deliveries(
        &self,
        tickets: impl Iterator<Item = &DeliveryTicket>,
    ) -> Result<Vec<Result<Found>>> {
        let (mut keys, mut reads_log) = (Vec::new(), Vec::new());
        for ticket in tickets {
            keys.push(DeliveryRecord::key(&ticket.key));
            reads_log.push(self.may_be_logged(ticket.number()));
            if self.may_be_logged(ticket.number()) {
                keys.push(LoggedDelivery::key(&ticket.key));
            }
        }
        let mut found = self.repository.get_all(&keys).await?.into_iter();
        let mut next = || found.next().flatten();
        let deliveries = reads_log.into_iter().map(|reads_log| {
            let (record, logged) = (next(), if reads_log { next() } else { None });
            Ok((typed(record)?, typed(logged)?.map(|logged| logged.record)))
        });
        Ok(deliveries.collect())
    }

    /// First attempts are not fenced: of two copies of a message, one may have failed and the other one succeeded. The first failure makes
    /// the record, so the attempt that follows it is the one to ask.
    fn may_be_logged(&self, number: AttemptNumber) -> bool {
        self.settings.delivery_log == DeliveryLog::All && number == AttemptNumber { epoch: 0, n: 1 }
    }

    async fn decide(
        &self,
        ticket: &RetryTicket,
        mut loaded: Loaded<DeliveryRecord>,
        logged: Option<LoggedDelivery>,
    ) -> Result<Decision> {
        loaded.record.progress.end_lease_if(|until_real| self.is_of_earlier_process(until_real));
        let now = self.ports.clock.both();
        let (record, links) = (&loaded.record, ticket.ticket.links);
        let decided = on_ticket(&record.progress, ticket.ticket.number(), ticket.redelivered, now);
        let goes_on = matches!(decided, OnTicket::Expire | OnTicket::CountAsInterrupted | OnTicket::Claim);
        if goes_on && self.end_if_it_succeeded(&loaded).await? {
            return Ok(Decision::Send(None));
        }
        Ok(match decided {
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
            OnTicket::Claim => match logged {
                Some(logged) => {
                    self.end_as_logged(&loaded, &logged).await?;
                    Decision::Send(None)
                }
                None => Decision::Due(loaded),
            },
        })
    }

    /// A function that made the attempt may have died, or could not reach the store any more, after it had logged a success.
    async fn end_if_it_succeeded(&self, loaded: &Loaded<DeliveryRecord>) -> Result<bool> {
        let DeliveryRecord { key, progress, .. } = &loaded.record;
        let number = progress.number();
        if progress.lease.is_none() {
            return Ok(false);
        }
        let query = Query::of(DeliveryRecord::partition(&key.tenant, &key.event_key), MAX_TAKEN)
            .prefix(Attempt::prefix(&key.subscription_id, number));
        let attempts = self.repository.list::<Attempt>(query).await?.items;
        let Some(success) = attempts.into_iter().find(|attempt| attempt.outcome == AttemptOutcome::Success)
        else {
            return Ok(false);
        };
        self.end_at(loaded, success.ended_at()).await?;
        Ok(true)
    }

    /// Another copy of the first attempt has succeeded.
    async fn end_as_logged(&self, loaded: &Loaded<DeliveryRecord>, logged: &LoggedDelivery) -> Result<()> {
        self.end_at(loaded, logged.attempt.ended_at()).await
    }

    async fn end_at(&self, loaded: &Loaded<DeliveryRecord>, ended_at: Timestamp) -> Result<()> {
        let mut delivered = loaded.record.clone();
        delivered.progress.succeed(ended_at, self.settings.keep);
        // If another writer was faster, it decides what becomes of the delivery.
        self.repository.replace_delivery(loaded, delivered, Vec::new()).await?;
        Ok(())
    }

    /// Whether another copy of the first attempt has succeeded, for a delivery whose ticket is not at hand.
    pub(crate) async fn end_if_logged(&self, loaded: &Loaded<DeliveryRecord>) -> Result<bool> {
        let record = &loaded.record;
        if !self.may_be_logged(record.progress.number()) {
            return Ok(false);
        }
        let Some(logged) = self.repository.get(LoggedDelivery::key(&record.key)).await? else {
            return Ok(false);
        };
        self.end_as_logged(loaded, &logged.record).await?;
        Ok(true)
    }

    /// Claims and attempts what is due, parks what may not be attempted and adds it to `parked`.
    async fn claim_and_attempt(
        &self,
        due: Vec<(Slot, Loaded<DeliveryRecord>)>,
        parked: &mut Vec<(Slot, DeliveryRecord)>,
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
                    not_attempted.push(record.clone());
                    parked.push((slot, *record));
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
