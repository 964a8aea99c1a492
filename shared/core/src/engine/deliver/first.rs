//! First attempts, a batch at once. No claim is needed: only this message knows of the delivery.

use std::sync::atomic::Ordering;

use bytes::Bytes;
use futures_util::future::{join, join_all, join3};

use super::super::recover::ParkedUrls;
use super::super::{Engine, Loaded, Result, Unavailable};
use super::attempt::Ready;
use super::batch::{Handled, Slot, all_failed};
use super::bodies::Bodies;
use super::context::{Admission, DeliveryContext};
use super::retry::RetryTicket;
use crate::ids::UrlId;
use crate::ports::{BodyKey, Delay, Outgoing, QueueName};
use crate::records::{DeliveryRecord, DeliveryTicket, FirstAttempt, LoggedDelivery, Message, NewDelivery};
use crate::rules::delivery::{DeliveryState, Reason};
use crate::rules::latency::is_slow;
use crate::time::Timestamp;

/// A message that was received this often may be killing functions: it gets a record, and its attempt is claimed like a retry.
const SUSPICIOUS_RECEIVES: u32 = 3;

/// A first-attempt message, with how often it was received.
pub(super) struct FirstMessage {
    pub(super) message: FirstAttempt,
    pub(super) receive_count: u32,
    pub(super) body_is_stored: bool,
}

impl FirstMessage {
    /// A body that is nowhere else: if the message is deleted, it is gone.
    pub(super) fn only_body(&self) -> Option<&Bytes> {
        self.message.body.as_ref().filter(|_| !self.body_is_stored)
    }

    /// How often its attempt may have been made without counting: as often as it was received before, because it has no record that
    /// would tell.
    fn spared(&self) -> u32 {
        self.receive_count.saturating_sub(1)
    }

    /// As a new message, which has been received zero times: if this one may have been attempted before, it says so.
    fn sent_on(self) -> Outgoing {
        let again = self.message.again || self.receive_count > 1;
        let message = Message::FirstAttempt(FirstAttempt { again, ..self.message });
        Outgoing { message, delay: Delay::NONE }
    }
}

/// What a message turns out to be, once its record was read.
enum Classified {
    New(FirstMessage),
    /// There is a record: it is the truth, and the message is only a hint.
    Known(RetryTicket),
    /// It was delivered at once.
    Delivered,
}

/// What is to be done with a new delivery.
enum Prepared {
    Attempt(Box<Ready>),
    /// It may not be attempted now, and is recorded like this.
    HoldBack(Box<DeliveryRecord>),
    /// Its URL answers slowly: another queue is for that.
    SendToSlowQueue,
}

impl Engine {
    pub(super) async fn deliver_firsts(
        &self,
        batch: Vec<(Slot, FirstMessage)>,
        until_real: Timestamp,
    ) -> Handled {
        let classified =
            join_all(batch.into_iter().map(async |(slot, first)| (slot, self.classify(first).await))).await;
        let (mut handled, mut new, mut known) = (Handled::new(), Vec::new(), Vec::new());
        for (slot, classified) in classified {
            match classified {
                Ok(Classified::New(message)) => new.push((slot, message)),
                Ok(Classified::Known(ticket)) => known.push((slot, ticket)),
                Ok(Classified::Delivered) => handled.push((slot, Ok(()))),
                Err(error) => handled.push((slot, Err(error))),
            }
        }
        let (new, known) =
            join(self.deliver_new(new, until_real), self.deliver_tickets(known, until_real)).await;
        handled.extend(new);
        handled.extend(known);
        handled
    }

    async fn classify(&self, first: FirstMessage) -> Result<Classified> {
        let FirstMessage { message, receive_count, .. } = &first;
        if *receive_count <= 1 && !message.again {
            return Ok(Classified::New(first));
        }
        let (record, logged) = (DeliveryRecord::key(&message.key), LoggedDelivery::key(&message.key));
        let (record, logged) =
            self.repository.get_both::<DeliveryRecord, LoggedDelivery>(record, logged).await?;
        if logged.is_some() {
            return Ok(Classified::Delivered);
        }
        if record.is_none() {
            if *receive_count < SUSPICIOUS_RECEIVES {
                return Ok(Classified::New(first));
            }
            self.create_record(&first).await?;
        }
        let FirstAttempt { key, url_id, .. } = first.message;
        let ticket = DeliveryTicket { key, url_id, epoch: 0, n: 0, links: 0 };
        Ok(Classified::Known(RetryTicket { ticket, redelivered: true }))
    }

    async fn create_record(&self, first: &FirstMessage) -> Result<()> {
        let message = &first.message;
        let context = self.load_context(std::iter::once((&message.key, &message.url_id))).await?;
        let mut record = match context.admission(&message.key)? {
            Admission::Attempt { subscription, .. } | Admission::Park { subscription } => {
                self.new_record(message, &subscription.url_id, subscription.url)
            }
            Admission::Dead(reason) => self.dead_record(message, &context, reason)?,
        };
        record.progress.spared = first.spared();
        self.store_new(first, record).await
    }

    async fn deliver_new(&self, batch: Vec<(Slot, FirstMessage)>, until_real: Timestamp) -> Handled {
        if batch.is_empty() {
            return Handled::new();
        }
        // Before health is read: bodies may take a while, and health must be fresh.
        let messages = || batch.iter().map(|(_, first)| &first.message);
        let stored = messages().filter(|m| m.body.is_none()).map(|m| BodyKey::of(&m.key));
        let bodies = self.load_bodies(stored).await;
        let context = match self.load_context(messages().map(|m| (&m.key, &m.url_id))).await {
            Ok(context) => context,
            Err(error) => return all_failed(batch, &error),
        };
        let (mut handled, mut ready, mut held_back, mut slow) =
            (Handled::new(), Vec::new(), Vec::new(), Vec::new());
        for (slot, first) in batch {
            match self.prepare(&first, &context, &bodies) {
                Ok(Prepared::Attempt(one)) => ready.push((slot, *one)),
                Ok(Prepared::HoldBack(record)) => held_back.push((slot, first, *record)),
                Ok(Prepared::SendToSlowQueue) => slow.push((slot, first)),
                Err(error) => handled.push((slot, Err(error))),
            }
        }
        let (held_back, slow, attempted) = join3(
            self.hold_back(held_back),
            self.send_to_slow_queue(slow),
            self.attempt_all(ready, &context, until_real),
        )
        .await;
        handled.extend(held_back);
        handled.extend(slow);
        handled.extend(attempted);
        handled
    }

    fn prepare(&self, first: &FirstMessage, context: &DeliveryContext, bodies: &Bodies) -> Result<Prepared> {
        let message = &first.message;
        let admission = context.admission(&message.key)?;
        let is_expired =
            self.ports.clock.now() > self.settings.schedule.expires_at(message.accepted_at, None);
        let dead = |reason| {
            self.dead_record(message, context, reason).map(|record| Prepared::HoldBack(Box::new(record)))
        };
        let (subscription, allowed_by) = match admission {
            Admission::Dead(reason) => return dead(reason),
            // A message may have waited longer than its delivery may live.
            _ if is_expired => return dead(Reason::Expired),
            Admission::Park { subscription } => {
                let mut record = self.new_record(message, &subscription.url_id, subscription.url);
                record.progress.park();
                return Ok(Prepared::HoldBack(Box::new(record)));
            }
            Admission::Attempt { allowed_by, .. }
                if self.settings.slow_queue && is_slow(allowed_by.recent_ms, self.settings.http_timeout) =>
            {
                return Ok(Prepared::SendToSlowQueue);
            }
            Admission::Attempt { subscription, allowed_by } => (subscription, allowed_by),
        };
        let body = match &message.body {
            Some(body) => body.clone(),
            None => bodies.get(&BodyKey::of(&message.key))?,
        };
        let mut record = self.new_record(message, &subscription.url_id, subscription.url.clone());
        record.progress.spared = first.spared();
        let (delivery, body_is_inline) = (Loaded::not_stored(record), first.only_body().is_some());
        Ok(Prepared::Attempt(Box::new(Ready { delivery, body, subscription, allowed_by, body_is_inline })))
    }

    /// Each message goes on as it is, so that a slow URL does not keep this queue's messages for other URLs waiting.
    async fn send_to_slow_queue(&self, slow: Vec<(Slot, FirstMessage)>) -> Handled {
        if slow.is_empty() {
            return Handled::new();
        }
        let (slots, messages): (Vec<Slot>, Vec<Outgoing>) =
            slow.into_iter().map(|(slot, first)| (slot, first.sent_on())).unzip();
        let count = messages.len() as u64;
        match self.ports.queue.send(QueueName::Slow, messages).await {
            Ok(()) => {
                self.counters.sent_to_slow_queue.fetch_add(count, Ordering::Relaxed);
                slots.into_iter().map(|slot| (slot, Ok(()))).collect()
            }
            // Some may have been sent. They come again, and are marked as repeats then.
            Err(error) => {
                let error = Unavailable::from(error);
                slots.into_iter().map(|slot| (slot, Err(error.clone()))).collect()
            }
        }
    }

    /// Records what may not be attempted, parked or dead.
    async fn hold_back(&self, held_back: Vec<(Slot, FirstMessage, DeliveryRecord)>) -> Handled {
        let parked = held_back.iter().filter(|(_, _, record)| record.progress.state == DeliveryState::Parked);
        let parked_at: ParkedUrls =
            parked.map(|(_, _, record)| (record.key.tenant.clone(), record.url_id.clone())).collect();
        let stored = join_all(held_back.into_iter().map(async |(slot, first, record)| {
            let is_parked = record.progress.state == DeliveryState::Parked;
            (slot, is_parked, self.store_new(&first, record).await)
        }))
        .await;
        let rechecked = self.recheck_urls(parked_at).await;
        let recorded = stored.into_iter().map(|(slot, is_parked, stored)| {
            let result = if is_parked { stored.and_then(|()| rechecked.clone()) } else { stored };
            (slot, result)
        });
        recorded.collect()
    }

    /// Stores the body before the record. If the delivery got a record in the meantime, that is left as it is.
    async fn store_new(&self, first: &FirstMessage, record: DeliveryRecord) -> Result<()> {
        self.store_only_body(first).await?;
        self.repository.create_delivery(record).await?;
        Ok(())
    }

    fn new_record(&self, message: &FirstAttempt, url_id: &UrlId, url: String) -> DeliveryRecord {
        let new = NewDelivery {
            key: message.key.clone(),
            event_id: message.event_id.clone(),
            event_type: message.event_type.clone(),
            accepted_at: message.accepted_at,
            url_id: url_id.clone(),
            url,
            trace: message.trace.clone(),
        };
        DeliveryRecord::new(new, &self.settings.schedule)
    }

    /// Dead from the start, but visible and kept for replay.
    fn dead_record(
        &self,
        message: &FirstAttempt,
        context: &DeliveryContext,
        reason: Reason,
    ) -> Result<DeliveryRecord> {
        let url = context.url(&message.key.tenant, &message.url_id)?;
        let mut record = self.new_record(message, &message.url_id, url);
        record.progress.die(reason, self.ports.clock.now(), self.settings.keep);
        Ok(record)
    }
}
