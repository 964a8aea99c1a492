//! Attempts of a batch, all at the same time, and what follows from them: the body, the record, then the ticket.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{join, join_all, join3};

use super::attempt::{Attempted, Ready};
use super::enqueue::{announce_ticket, release_ticket, ticket_for};
use super::surroundings::{Prospect, Surroundings};
use super::{DeliveryLog, Engine, MOST_CONFLICTS, Unavailable};
use crate::ids::{DeliveryKey, Tenant, UrlId};
use crate::ports::{BodyKey, Outgoing, StoreError};
use crate::records::{DeliveryRecord, LoggedDelivery, Reason, Record, UrlRecord, VERSION};
use crate::rules::health::{Outcome, UrlState};
use crate::time::Timestamp;

/// The URLs at which something was parked: each is looked at once more afterwards.
pub(super) type Parking = BTreeSet<(Tenant, UrlId)>;

impl Engine {
    /// Attempts everything that is ready, at the same time. One result per delivery, in their order.
    pub(super) async fn attempt_and_conclude(
        &self,
        ready: Vec<Ready>,
        around: &Surroundings,
        until_real: Timestamp,
    ) -> Vec<Result<(), Unavailable>> {
        let attempted =
            join_all(ready.into_iter().map(|one| self.attempt_freshly(one, around, until_real))).await;
        self.conclude_all(attempted).await
    }

    pub(super) async fn conclude_all(
        &self,
        attempted: Vec<Result<Attempted, Unavailable>>,
    ) -> Vec<Result<(), Unavailable>> {
        let done: Vec<&Attempted> = attempted.iter().flatten().collect();
        let (released, (), concluded) =
            join3(self.count_on_urls(&done), self.log_successes(&done), self.conclude_each(&attempted)).await;
        let mut tickets = released;
        let mut results = Vec::with_capacity(concluded.len());
        for one in concluded {
            results.push(one.map(|ticket| tickets.extend(ticket)));
        }
        self.hint(tickets).await;
        results
    }

    /// Reads health again if it was read too long ago. Begins nothing that could not end in time.
    async fn attempt_freshly(
        &self,
        mut ready: Ready,
        around: &Surroundings,
        until_real: Timestamp,
    ) -> Result<Attempted, Unavailable> {
        // Asked by each attempt for itself: in a large batch the last one begins a good while after the first.
        let mut fresh = around.is_fresh(self.ports.clock.now_real());
        for _ in 0..MOST_CONFLICTS {
            if let Err(error) = self.check_time(until_real) {
                self.give_back(ready).await?;
                return Err(error);
            }
            if fresh {
                return Ok(self.attempt(ready).await);
            }
            let around = self.look_around(std::iter::once((ready.key(), &ready.subscription.url_id))).await?;
            let Prospect::Attempt { generation, subscription } = around.prospect(ready.key()) else { break };
            let subscription = subscription.clone();
            fresh = around.is_fresh(self.ports.clock.now_real());
            ready.goes_to(subscription, generation);
        }
        self.give_back(ready).await?;
        // The message comes again and finds things as they are now.
        Err(Unavailable("the URL or its subscription changed before the attempt started".to_owned()))
    }

    /// Nothing was attempted, so nothing was taken.
    async fn give_back(&self, ready: Ready) -> Result<(), Unavailable> {
        if let Some((claimed, version)) = ready.claimed {
            let mut free = claimed.clone();
            free.unclaim();
            self.put_delivery(&claimed, version, free, Vec::new()).await?;
        }
        Ok(())
    }

    /// One write per URL. A write that fails is dropped: it never sends a message back. Answers the tickets that follow
    /// from changes of state.
    async fn count_on_urls(&self, done: &[&Attempted]) -> Vec<Outgoing> {
        let mut tallies: HashMap<(&Tenant, &UrlId), Vec<Outcome>> = HashMap::new();
        for one in done {
            tallies.entry((&one.ready.key().tenant, one.url_id())).or_default().push(one.outcome());
        }
        let counted = join_all(tallies.into_iter().map(|((tenant, url_id), mut outcomes)| async move {
            outcomes.sort_by_key(|o| o.ended_at);
            let now = self.ports.clock.both();
            self.ports.store.count_outcomes(tenant, url_id, outcomes, now).await
        }));
        counted.await.into_iter().flat_map(|one| self.after_count(one)).collect()
    }

    fn after_count(&self, counted: Result<Option<(UrlRecord, UrlRecord)>, StoreError>) -> Vec<Outgoing> {
        let (before, after) = match counted {
            Ok(Some(counted)) => counted,
            Ok(None) => return Vec::new(),
            Err(error) => {
                self.tally.health_writes_dropped.fetch_add(1, Ordering::Relaxed);
                tracing::error!(%error, "health.dropped");
                return Vec::new();
            }
        };
        if before.health.generation == after.health.generation {
            return Vec::new();
        }
        let (from, to) = (before.health.state.as_str(), after.health.state.as_str());
        tracing::warn!(tenant = %after.tenant, url_id = %after.id, from, to, why = after.health.reason, "url.changed");
        let mut tickets = vec![announce_ticket(&after.tenant, &after.id)];
        if let (true, Some(release)) = (before.health.state != UrlState::Enabled, after.releasing) {
            tickets.push(release_ticket(&after.tenant, &after.id, release.step, Duration::ZERO));
        }
        tickets
    }

    /// Keeps deliveries that succeeded at once, and their bodies for replay, if everything is logged.
    async fn log_successes(&self, done: &[&Attempted]) {
        let at_once = || done.iter().filter(|one| one.succeeded() && one.ready.claimed.is_none());
        if self.settings.delivery_log != DeliveryLog::All || at_once().next().is_none() {
            return;
        }
        let records = at_once().map(|one| Record::Logged(self.logged(one))).collect();
        let (records, bodies) =
            join(self.ports.store.put_each(records), self.store_bodies(at_once().copied())).await;
        if bodies.is_err() || records.map_or(true, |left| !left.is_empty()) {
            tracing::error!("some deliveries succeeded but could not be logged");
        }
    }

    fn logged(&self, one: &Attempted) -> LoggedDelivery {
        let new = &one.ready.new;
        LoggedDelivery {
            v: VERSION,
            key: new.key.clone(),
            event_id: new.event_id.clone(),
            event_type: new.event_type.clone(),
            accepted_at: new.accepted_at,
            url_id: new.url_id.clone(),
            url: new.url.clone(),
            attempt: self.attempt_record(one),
        }
    }

    /// Of those that came with their messages: the others are stored already.
    async fn store_bodies(&self, of: impl Iterator<Item = &Attempted>) -> Result<(), Unavailable> {
        let bodies: BTreeMap<BodyKey, Bytes> = of
            .filter(|one| one.ready.body_is_inline)
            .map(|one| (BodyKey::of(one.ready.key()), one.ready.body.clone()))
            .collect();
        if bodies.is_empty() {
            return Ok(());
        }
        Ok(self.ports.store.put_bodies(bodies.into_iter().collect(), self.body_remove_at()).await?)
    }

    /// Bodies and attempts are stored for all at once, before the records that need them. One answer for each, in their order.
    async fn conclude_each(
        &self,
        attempted: &[Result<Attempted, Unavailable>],
    ) -> Vec<Result<Option<Outgoing>, Unavailable>> {
        let recorded = || attempted.iter().flatten().filter(|one| one.needs_a_record());
        let (bodies, ()) =
            join(self.store_bodies(recorded().filter(|one| !one.succeeded())), self.log_attempts(recorded()))
                .await;
        let concluded = attempted.iter().map(|one| {
            let without_body = bodies.as_ref().err().map(|error| Unavailable(error.to_string()));
            async move {
                let one = one.as_ref().map_err(|e| Unavailable(e.to_string()))?;
                match without_body {
                    Some(error) if one.ready.body_is_inline && !one.succeeded() => Err(error),
                    _ => self.conclude(one).await,
                }
            }
        });
        join_all(concluded).await
    }

    /// An attempt that cannot be logged was made all the same: what follows from it is more important than its log.
    async fn log_attempts(&self, of: impl Iterator<Item = &Attempted>) {
        let attempts: Vec<Record> = of.map(|one| Record::Attempt(self.attempt_record(one))).collect();
        if attempts.is_empty() {
            return;
        }
        if self.ports.store.put_each(attempts).await.map_or(true, |left| !left.is_empty()) {
            tracing::error!("some attempts could not be logged");
        }
    }

    /// Makes the record say what happened. Answers the ticket that is to be sent.
    async fn conclude(&self, one: &Attempted) -> Result<Option<Outgoing>, Unavailable> {
        if tracing::enabled!(tracing::Level::INFO) {
            self.log_attempt(one, &self.record_after(one));
        }
        match &one.ready.claimed {
            Some((record, version)) => self.conclude_claimed(one, record.clone(), *version).await,
            None if one.succeeded() => Ok(None),
            None => self.record_first_failure(one).await,
        }
    }

    /// The delivery as this attempt leaves it.
    fn record_after(&self, one: &Attempted) -> DeliveryRecord {
        let mut record = match &one.ready.claimed {
            Some((claimed, _)) => claimed.clone(),
            None => DeliveryRecord::new(one.ready.new.clone(), &self.settings.schedule),
        };
        self.apply(one, &mut record);
        record
    }

    async fn record_first_failure(&self, one: &Attempted) -> Result<Option<Outgoing>, Unavailable> {
        let record = self.record_after(one);
        let ticket = ticket_for(&record, self.ports.clock.now());
        // If somebody else has recorded this delivery, they are looking after it.
        Ok(if self.create(record, Vec::new()).await? { ticket } else { None })
    }

    fn apply(&self, one: &Attempted, record: &mut DeliveryRecord) {
        if one.succeeded() {
            record.succeed(one.ended_at, self.settings.keep);
        } else {
            let asked =
                one.result.answer.asked_to_wait().map(|wait| one.ended_at.since(one.started_at) + wait);
            let now = self.ports.clock.now();
            record.fail(&self.settings.schedule, one.started_at, asked, now, self.settings.keep);
        }
    }

    /// The record may have changed since it was claimed: the sweep looked at it, or the lease lapsed.
    async fn conclude_claimed(
        &self,
        one: &Attempted,
        claimed: DeliveryRecord,
        mut version: u64,
    ) -> Result<Option<Outgoing>, Unavailable> {
        let number = (claimed.epoch, claimed.next_attempt);
        let mut current = claimed;
        for _ in 0..MOST_CONFLICTS {
            let mut record = current.clone();
            self.apply(one, &mut record);
            let ticket = ticket_for(&record, self.ports.clock.now());
            if self.put_delivery(&current, version, record, Vec::new()).await? {
                return Ok(ticket);
            }
            let Some((fresh, fresh_version)) = self.get_delivery(one.ready.key()).await? else {
                return Ok(None);
            };
            // A success is a success, even when the next attempt has been prepared already.
            let goes_on = fresh.state.is_live() && (one.succeeded() || fresh.next_attempt == number.1);
            // Given up while the attempt was under way; a failure changes nothing about that.
            let given_up = [Reason::Expired, Reason::Unsubscribed, Reason::Inactive];
            let came_late = fresh.reason.is_some_and(|reason| given_up.contains(&reason)) && one.succeeded();
            let concerns = fresh.epoch == number.0 && (goes_on || came_late);
            if !concerns {
                return Ok(None);
            }
            (current, version) = (fresh, fresh_version);
        }
        Err(Unavailable(format!("{} changes too often", one.ready.key().id())))
    }

    pub(super) async fn get_delivery(
        &self,
        key: &DeliveryKey,
    ) -> Result<Option<(DeliveryRecord, u64)>, Unavailable> {
        let found = self.get_one(DeliveryRecord::key(key)).await?;
        Ok(found.and_then(|v| match v.record {
            Record::Delivery(record) => Some((record, v.version)),
            _ => None,
        }))
    }
}
