//! First attempts: a batch at once. These messages are not fenced: nobody else knows of the delivery yet.

use std::collections::{BTreeSet, HashMap};

use bytes::Bytes;
use futures_util::future::{join, join_all};

use super::attempt::Ready;
use super::conclude::Parking;
use super::handle::{DeliveryTicket, FirstMessage};
use super::surroundings::{Prospect, Surroundings};
use super::{Engine, Unavailable};
use crate::ids::UrlId;
use crate::messages::FirstAttempt;
use crate::ports::{BodyKey, Expect, Write};
use crate::records::{DeliveryRecord, LoggedDelivery, NewDelivery, Reason, Record};
use crate::time::Timestamp;

/// A message that came this often may be killing functions: it gets a record, and its attempt is claimed like a retry.
const SUSPICIOUS_RECEIVES: u32 = 3;

/// Bodies that were loaded for a batch, or why they could not be.
pub(super) struct Bodies(HashMap<BodyKey, Result<Bytes, Unavailable>>);

impl Bodies {
    pub(super) fn get(&self, key: &BodyKey) -> Result<Bytes, Unavailable> {
        match self.0.get(key) {
            Some(Ok(body)) => Ok(body.clone()),
            Some(Err(error)) => Err(Unavailable(error.to_string())),
            None => Err(Unavailable(format!("the body of {} was not loaded", key.event_key))),
        }
    }
}

/// What a message turns out to be, once its record was read.
enum Met {
    Fresh(FirstAttempt),
    /// There is a record: it is the truth, and the message is only a hint.
    Known(DeliveryTicket),
    Over,
}

impl Engine {
    pub(super) async fn deliver_firsts(
        &self,
        batch: Vec<FirstMessage>,
        until_real: Timestamp,
    ) -> Vec<Result<(), Unavailable>> {
        let met = join_all(batch.into_iter().map(|first| self.meet(first))).await;
        let mut results: Vec<Option<Result<(), Unavailable>>> = Vec::with_capacity(met.len());
        let (mut fresh, mut known) = (Vec::new(), Vec::new());
        for (index, met) in met.into_iter().enumerate() {
            results.push(None);
            match met {
                Ok(Met::Fresh(message)) => fresh.push((index, message)),
                Ok(Met::Known(ticket)) => known.push((index, ticket)),
                Ok(Met::Over) => results[index] = Some(Ok(())),
                Err(error) => results[index] = Some(Err(error)),
            }
        }
        let (fresh_indexes, fresh): (Vec<_>, Vec<_>) = fresh.into_iter().unzip();
        let (known_indexes, known): (Vec<_>, Vec<_>) = known.into_iter().unzip();
        let (fresh, known) =
            join(self.deliver_fresh(fresh, until_real), self.deliver_tickets(known, until_real)).await;
        for (index, result) in
            fresh_indexes.into_iter().zip(fresh).chain(known_indexes.into_iter().zip(known))
        {
            results[index] = Some(result);
        }
        results.into_iter().map(|r| r.unwrap_or(Ok(()))).collect()
    }

    async fn meet(&self, first: FirstMessage) -> Result<Met, Unavailable> {
        let FirstMessage { message, receive_count } = first;
        if receive_count <= 1 && !message.again {
            return Ok(Met::Fresh(message));
        }
        let keys = [DeliveryRecord::key(&message.key), LoggedDelivery::key(&message.key)];
        let found = self.ports.store.get(&keys).await?;
        let [record, logged] = &found[..] else { return Ok(Met::Fresh(message)) };
        if logged.is_some() {
            return Ok(Met::Over);
        }
        if record.is_none() {
            if receive_count < SUSPICIOUS_RECEIVES {
                return Ok(Met::Fresh(message));
            }
            self.give_record(&message).await?;
        }
        Ok(Met::Known(DeliveryTicket { key: message.key, epoch: 0, n: 0, redelivered: true }))
    }

    async fn give_record(&self, message: &FirstAttempt) -> Result<(), Unavailable> {
        self.store_inline_body(message).await?;
        let around = self.look_around(std::iter::once((&message.key, &message.url_id))).await?;
        let subscription = match around.prospect(&message.key) {
            Prospect::Attempt { subscription, .. } | Prospect::Park { subscription } => subscription,
            Prospect::Die(reason) => return self.bury(message, reason).await,
        };
        let new = new_delivery(message, &subscription.url_id, &subscription.url);
        let record = DeliveryRecord::new(new, &self.settings.schedule);
        self.create(record, Vec::new()).await?;
        Ok(())
    }

    async fn deliver_fresh(
        &self,
        batch: Vec<FirstAttempt>,
        until_real: Timestamp,
    ) -> Vec<Result<(), Unavailable>> {
        if batch.is_empty() {
            return Vec::new();
        }
        // Before health is read: bodies may take a while, and health must be fresh.
        let bodies =
            self.load_bodies(batch.iter().filter(|m| m.body.is_none()).map(|m| BodyKey::of(&m.key))).await;
        let around = match self.look_around(batch.iter().map(|m| (&m.key, &m.url_id))).await {
            Ok(around) => around,
            Err(error) => return batch.iter().map(|_| Err(Unavailable(error.to_string()))).collect(),
        };
        let mut results: Vec<Result<(), Unavailable>> = batch.iter().map(|_| Ok(())).collect();
        let (mut indexes, mut ready, mut others) = (Vec::new(), Vec::new(), Vec::new());
        for (index, message) in batch.iter().enumerate() {
            match self.prepare(message, &around, &bodies) {
                Ok(Some(one)) => {
                    indexes.push(index);
                    ready.push(one);
                }
                Ok(None) => others.push(index),
                Err(error) => results[index] = Err(error),
            }
        }
        let (held_back, attempted) = join(
            self.hold_back(others.iter().map(|index| &batch[*index]), &around),
            self.attempt_and_conclude(ready, &around, until_real),
        )
        .await;
        for (index, result) in others.into_iter().zip(held_back).chain(indexes.into_iter().zip(attempted)) {
            results[index] = result;
        }
        results
    }

    /// `None`: it may not be attempted now.
    fn prepare(
        &self,
        message: &FirstAttempt,
        around: &Surroundings,
        bodies: &Bodies,
    ) -> Result<Option<Ready>, Unavailable> {
        let Prospect::Attempt { subscription, generation } = around.prospect(&message.key) else {
            return Ok(None);
        };
        if self.is_too_late(message) {
            return Ok(None);
        }
        let body = match &message.body {
            Some(body) => body.clone(),
            None => bodies.get(&BodyKey::of(&message.key))?,
        };
        Ok(Some(Ready {
            new: new_delivery(message, &subscription.url_id, &subscription.url),
            body,
            subscription: subscription.clone(),
            generation,
            claimed: None,
            body_is_inline: message.body.is_some(),
        }))
    }

    /// A message may have waited longer than its delivery may live.
    fn is_too_late(&self, message: &FirstAttempt) -> bool {
        self.ports.clock.now() > self.settings.schedule.expires_at(message.accepted_at, None)
    }

    /// Parks or buries what may not be attempted.
    async fn hold_back(
        &self,
        messages: impl Iterator<Item = &FirstAttempt>,
        around: &Surroundings,
    ) -> Vec<Result<(), Unavailable>> {
        let mut parking = Parking::default();
        let held = join_all(messages.map(|message| async move {
            match around.prospect(&message.key) {
                Prospect::Die(reason) => self.bury(message, reason).await.map(|()| None),
                _ if self.is_too_late(message) => self.bury(message, Reason::Expired).await.map(|()| None),
                Prospect::Park { subscription } | Prospect::Attempt { subscription, .. } => {
                    self.store_inline_body(message).await?;
                    let new = new_delivery(message, &subscription.url_id, &subscription.url);
                    let record = DeliveryRecord::new(new, &self.settings.schedule);
                    self.park_new(record).await?;
                    Ok(Some((message.key.tenant.clone(), subscription.url_id.clone())))
                }
            }
        }))
        .await;
        let results = held.into_iter().map(|one| one.map(|url| parking.extend(url))).collect();
        self.after_parking(parking).await;
        results
    }

    /// Nobody wants it any more: dead from the start, but visible and kept for replay.
    async fn bury(&self, message: &FirstAttempt, reason: Reason) -> Result<(), Unavailable> {
        self.store_inline_body(message).await?;
        let url = self
            .get_url(&message.key.tenant, &message.url_id)
            .await?
            .map(|(url, _)| url.url)
            .unwrap_or_default();
        let new = new_delivery(message, &message.url_id, &url);
        let mut record = DeliveryRecord::new(new, &self.settings.schedule);
        record.die(reason, self.ports.clock.now(), self.settings.keep);
        self.create(record, Vec::new()).await.map(|_| ())
    }

    /// `false`: there is a record already, which is never overwritten.
    pub(super) async fn create(&self, record: DeliveryRecord, with: Vec<Write>) -> Result<bool, Unavailable> {
        let mut writes = vec![Write::put(Record::Delivery(record), Expect::Absent)];
        writes.extend(with);
        self.try_write(writes).await
    }

    async fn store_inline_body(&self, message: &FirstAttempt) -> Result<(), Unavailable> {
        let Some(body) = &message.body else { return Ok(()) };
        let body = vec![(BodyKey::of(&message.key), body.clone())];
        Ok(self.ports.store.put_bodies(body, self.body_remove_at()).await?)
    }

    /// Each once, all at the same time: the deliveries of a fan-out share theirs.
    pub(super) async fn load_bodies(&self, keys: impl Iterator<Item = BodyKey>) -> Bodies {
        let keys: Vec<BodyKey> = keys.collect::<BTreeSet<_>>().into_iter().collect();
        if keys.is_empty() {
            return Bodies(HashMap::new());
        }
        let loaded = match self.ports.store.get_bodies(&keys).await {
            Ok(found) => found.into_iter().zip(&keys).map(|(body, key)| present(body, key)).collect(),
            Err(error) => keys.iter().map(|_| Err(Unavailable(error.to_string()))).collect::<Vec<_>>(),
        };
        Bodies(keys.into_iter().zip(loaded).collect())
    }

    pub(super) async fn load_body(&self, key: &BodyKey) -> Result<Bytes, Unavailable> {
        let found = self.ports.store.get_bodies(std::slice::from_ref(key)).await?;
        present(found.into_iter().next().flatten(), key)
    }
}

fn present(body: Option<Bytes>, key: &BodyKey) -> Result<Bytes, Unavailable> {
    body.ok_or_else(|| Unavailable(format!("the body of {} is missing", key.event_key)))
}

fn new_delivery(message: &FirstAttempt, url_id: &UrlId, url: &str) -> NewDelivery {
    NewDelivery {
        key: message.key.clone(),
        event_id: message.event_id.clone(),
        event_type: message.event_type.clone(),
        accepted_at: message.accepted_at,
        url_id: url_id.clone(),
        url: url.to_owned(),
    }
}
