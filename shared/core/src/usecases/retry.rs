//! Follows tickets to deliveries. An attempt is claimed before it is made.

use bytes::Bytes;
use futures_util::future::join_all;

use super::attempt::Ready;
use super::conclude::Parking;
use super::enqueue::{delivery_ticket, ticket_for};
use super::handle::DeliveryTicket;
use super::surroundings::{Prospect, Surroundings};
use super::{Engine, Unavailable};
use crate::ports::{BodyKey, Delay, Expect, Outgoing, Write};
use crate::records::{Attempt, AttemptOutcome, DeliveryRecord, NewDelivery, Record, Subscription};
use crate::rules::claim::{OnTicket, on_ticket};
use crate::time::Timestamp;

/// What is to be done at the end of the batch, or at once.
enum Decided {
    Nothing,
    Ticket(Option<Outgoing>),
    LookAtUrl(DeliveryRecord),
    /// May be attempted, as far as the record says.
    Due(DeliveryRecord, u64),
}

/// A due delivery after its surroundings were looked at.
enum Taken {
    Ready(Box<Ready>),
    Parked(Box<DeliveryRecord>),
    Over,
}

impl Engine {
    pub(super) async fn deliver_tickets(
        &self,
        batch: Vec<DeliveryTicket>,
        until_real: Timestamp,
    ) -> Vec<Result<(), Unavailable>> {
        if batch.is_empty() {
            return Vec::new();
        }
        let keys: Vec<_> = batch.iter().map(|t| DeliveryRecord::key(&t.key)).collect();
        let found = match self.get_all(&keys).await {
            Ok(found) => found,
            Err(error) => return batch.iter().map(|_| Err(Unavailable(error.to_string()))).collect(),
        };
        let decided = join_all(batch.iter().zip(found).map(|(ticket, found)| async move {
            match found.map(|v| (v.record, v.version)) {
                Some((Record::Delivery(record), version)) => self.decide(ticket, record, version).await,
                _ => Ok(Decided::Nothing),
            }
        }))
        .await;
        let mut results = Vec::with_capacity(batch.len());
        let (mut tickets, mut parking, mut due) = (Vec::new(), Parking::new(), Vec::new());
        for (index, one) in decided.into_iter().enumerate() {
            results.push(one.map(|decided| match decided {
                Decided::Nothing => {}
                Decided::Ticket(ticket) => tickets.extend(ticket),
                Decided::LookAtUrl(record) => {
                    parking.insert((record.key.tenant, record.url_id));
                }
                Decided::Due(record, version) => due.push((index, record, version)),
            }));
        }
        for (index, result) in self.take(due, &mut parking, until_real).await {
            results[index] = result;
        }
        self.after_parking(parking).await;
        self.hint(tickets).await;
        results
    }

    async fn decide(
        &self,
        ticket: &DeliveryTicket,
        record: DeliveryRecord,
        version: u64,
    ) -> Result<Decided, Unavailable> {
        let now = self.ports.clock.both();
        let meaning =
            on_ticket(&record, (ticket.epoch, ticket.n), ticket.redelivered, now.schedule, now.real);
        Ok(match meaning {
            OnTicket::End => Decided::Nothing,
            OnTicket::ResendCurrent | OnTicket::WaitUntilDue => {
                Decided::Ticket(ticket_for(&record, now.schedule))
            }
            OnTicket::WaitForLease(left) => {
                let delay = Delay::at_most(self.ports.clock.stretch(left));
                Decided::Ticket(Some(delivery_ticket(&record, delay)))
            }
            OnTicket::LookAtUrl => Decided::LookAtUrl(record),
            OnTicket::Expire => {
                self.expire(record, version).await?;
                Decided::Nothing
            }
            OnTicket::CountAsInterrupted => {
                Decided::Ticket(self.count_as_interrupted(record, version).await?)
            }
            OnTicket::Claim => Decided::Due(record, version),
        })
    }

    /// Claims and attempts what is due, parks what may not be attempted.
    async fn take(
        &self,
        due: Vec<(usize, DeliveryRecord, u64)>,
        parking: &mut Parking,
        until_real: Timestamp,
    ) -> Vec<(usize, Result<(), Unavailable>)> {
        if due.is_empty() {
            return Vec::new();
        }
        // Before health is read: bodies may take a while, and health must be fresh.
        let bodies = self.load_bodies(due.iter().map(|(_, record, _)| BodyKey::of(&record.key))).await;
        let around = match self.look_around(due.iter().map(|(_, r, _)| (&r.key, &r.url_id))).await {
            Ok(around) => around,
            Err(error) => {
                return due.iter().map(|(i, ..)| (*i, Err(Unavailable(error.to_string())))).collect();
            }
        };
        if let Err(error) = self.check_time(until_real) {
            return due.iter().map(|(i, ..)| (*i, Err(Unavailable(error.to_string())))).collect();
        }
        let indexes: Vec<usize> = due.iter().map(|(index, ..)| *index).collect();
        let taken = join_all(due.into_iter().map(|(_, record, version)| {
            let (around, body) = (&around, bodies.get(&BodyKey::of(&record.key)));
            async move { self.take_one(record, version, body?, around).await }
        }))
        .await;
        let mut results = Vec::new();
        let (mut ready_indexes, mut ready) = (Vec::new(), Vec::new());
        for (index, one) in indexes.into_iter().zip(taken) {
            match one {
                Ok(Taken::Ready(one)) => {
                    ready_indexes.push(index);
                    ready.push(*one);
                }
                Ok(Taken::Parked(record)) => {
                    parking.insert((record.key.tenant, record.url_id));
                }
                Ok(Taken::Over) => {}
                Err(error) => results.push((index, Err(error))),
            }
        }
        results.extend(
            ready_indexes.into_iter().zip(self.attempt_and_conclude(ready, &around, until_real).await),
        );
        results
    }

    async fn take_one(
        &self,
        mut record: DeliveryRecord,
        version: u64,
        body: Bytes,
        around: &Surroundings,
    ) -> Result<Taken, Unavailable> {
        match around.prospect(&record.key) {
            Prospect::Die(reason) => {
                self.make_dead(record, version, reason).await?;
                Ok(Taken::Over)
            }
            Prospect::Park { subscription } => {
                record.head_for(subscription);
                self.park(&record, version).await?;
                Ok(Taken::Parked(Box::new(record)))
            }
            Prospect::Attempt { subscription, generation } => {
                record.head_for(subscription);
                let now = self.ports.clock.both();
                record.claim(now.schedule, now.real, self.settings.function_timeout);
                let claim = Write::put(Record::Delivery(record.clone()), Expect::Version(version));
                if !self.try_write(vec![claim]).await? {
                    // Somebody else took it.
                    return Ok(Taken::Over);
                }
                let ready = ready_to_retry(record, version + 1, body, subscription.clone(), generation);
                Ok(Taken::Ready(Box::new(ready)))
            }
        }
    }

    /// Two functions died over this attempt. It counts, but not on the URL: nobody knows what the URL would have said.
    pub(super) async fn count_as_interrupted(
        &self,
        record: DeliveryRecord,
        version: u64,
    ) -> Result<Option<Outgoing>, Unavailable> {
        let now = self.ports.clock.now();
        let attempt = Attempt {
            key: record.key.clone(),
            epoch: record.epoch,
            n: record.next_attempt,
            at: now,
            outcome: AttemptOutcome::Interrupted,
            status: None,
            error: Some("interrupted: the attempt was begun twice and never ended".to_owned()),
            ms: 0,
            excerpt: None,
            remove_at: self.attempt_remove_at(now),
        };
        let mut failed = record.clone();
        failed.fail(&self.settings.schedule, now, None, now, self.settings.keep);
        let ticket = ticket_for(&failed, now);
        let with = vec![Write::put(Record::Attempt(attempt.clone()), Expect::Any)];
        if !self.put_delivery(&record, version, failed, with).await? {
            return Ok(None);
        }
        self.note_interrupted(&record, &attempt);
        Ok(ticket)
    }
}

/// `version` is that of the claimed record.
pub(super) fn ready_to_retry(
    claimed: DeliveryRecord,
    version: u64,
    body: Bytes,
    subscription: Subscription,
    generation: u64,
) -> Ready {
    Ready {
        new: new_from(&claimed),
        body,
        subscription,
        generation,
        claimed: Some((claimed, version)),
        body_is_inline: false,
    }
}

fn new_from(record: &DeliveryRecord) -> NewDelivery {
    NewDelivery {
        key: record.key.clone(),
        event_id: record.event_id.clone(),
        event_type: record.event_type.clone(),
        accepted_at: record.accepted_at,
        url_id: record.url_id.clone(),
        url: record.url.clone(),
    }
}
