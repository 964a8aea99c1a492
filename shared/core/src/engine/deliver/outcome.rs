//! Records what follows from the attempts of a batch: the body, the record, then the ticket.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{join, join_all, join4};

use super::super::steps::BatchOutcomes;
use super::super::tickets::{announce_ticket, next_ticket, release_ticket};
use super::super::{ConflictRetries, DeliveryLog, Engine, Result};
use super::attempt::Attempted;
use crate::ids::{Tenant, UrlId};
use crate::ports::{BodyKey, Outgoing, StoreError, chain};
use crate::records::{DeliveryRecord, LoggedDelivery, Record, UrlRecord};
use crate::rules::health::{Outcome, UrlState};

/// A URL before and after outcomes were counted on it. `None`: there is no such URL.
type Counted = Option<(UrlRecord, UrlRecord)>;

/// The outcomes of attempts at one URL, in the order in which they ended.
fn outcomes_in_order(mut attempted: Vec<&Attempted>) -> Vec<Outcome> {
    attempted.sort_by_key(|one| one.ended_at);
    let mut recent_ms = attempted.first().map_or(0, |one| one.ready.allowed_by.recent_ms);
    let outcomes = attempted.into_iter().map(|one| {
        let outcome = one.outcome(recent_ms);
        recent_ms = outcome.recent_ms;
        outcome
    });
    outcomes.collect()
}

/// What was not stored, and is not needed for anything else, is only told.
fn log_unless_stored(what: &str, records: Result<Vec<Record>, StoreError>, bodies: Result<()>) {
    if bodies.is_err() || records.map_or(true, |unstored| !unstored.is_empty()) {
        tracing::error!("some {what} could not be logged");
    }
}

impl Engine {
    /// One result per attempt, in their order.
    pub(crate) async fn record_outcomes(&self, attempted: &[Attempted]) -> Vec<Result<()>> {
        let mut on_steps = BatchOutcomes::default();
        attempted.iter().filter(|one| !one.is_ours).for_each(|one| on_steps.add_attempt(one));
        let (mut tickets, (), (), recorded) = join4(
            self.count_on_urls(attempted),
            self.count_on_steps(on_steps),
            self.log_successes(attempted),
            self.record_deliveries(attempted),
        )
        .await;
        let results = recorded.into_iter().map(|one| one.map(|ticket| tickets.extend(ticket))).collect();
        self.send_tickets(tickets).await;
        results
    }

    /// One write per URL. A write that fails is dropped: it never sends a message back. Returns the tickets that follow from
    /// changes of state.
    async fn count_on_urls(&self, attempted: &[Attempted]) -> Vec<Outgoing> {
        let mut by_url: BTreeMap<(&Tenant, &UrlId), Vec<&Attempted>> = BTreeMap::new();
        for one in attempted.iter().filter(|one| !one.is_ours) {
            by_url.entry((&one.ready.key().tenant, one.url_id())).or_default().push(one);
        }
        let counted = join_all(by_url.into_iter().map(async |((tenant, url_id), attempted)| {
            let url = attempted.first().map(|one| one.ready.subscription.url.clone()).unwrap_or_default();
            self.count_on_url(tenant, (url_id, &url), outcomes_in_order(attempted)).await
        }));
        counted.await.into_iter().flat_map(|one| self.tickets_after_count(one)).collect()
    }

    /// A URL without a record gets one first.
    async fn count_on_url(
        &self,
        tenant: &Tenant,
        url: (&UrlId, &str),
        outcomes: Vec<Outcome>,
    ) -> Result<Counted> {
        let (store, now) = (&self.ports.store, self.ports.clock.both());
        if let Some(counted) = store.count_outcomes(tenant, url.0, outcomes.clone(), now).await? {
            return Ok(Some(counted));
        }
        self.restore_url(tenant, url).await?;
        Ok(store.count_outcomes(tenant, url.0, outcomes, now).await?)
    }

    fn tickets_after_count(&self, counted: Result<Counted>) -> Vec<Outgoing> {
        let (before, after) = match counted {
            Ok(Some(counted)) => counted,
            Ok(None) => return Vec::new(),
            Err(error) => {
                self.counters.health_writes_dropped.fetch_add(1, Ordering::Relaxed);
                tracing::error!(error = chain(&error), "health.dropped");
                return Vec::new();
            }
        };
        self.log_trouble(&before, &after);
        let mut tickets = Vec::new();
        if before.announcement.is_none() && after.announcement.is_some() {
            tickets.push(announce_ticket(&after.tenant, &after.id));
        }
        if before.health.generation == after.health.generation {
            return tickets;
        }
        let (from, to) = (before.health.state.as_str(), after.health.state.as_str());
        tracing::warn!(tenant = %after.tenant, url_id = %after.id, from, to, why = after.health.reason, "url.changed");
        if let (true, Some(release)) = (before.health.state != UrlState::Enabled, &after.releasing) {
            tickets.push(release_ticket(&after.tenant, &after.id, release.step, Duration::ZERO));
        }
        tickets
    }

    /// One line when a URL gets into trouble, and one when it is out of it.
    fn log_trouble(&self, before: &UrlRecord, after: &UrlRecord) {
        let (tenant, url_id, health) = (&after.tenant, &after.id, &after.health);
        match (before.health.failing, health.failing) {
            (false, true) => {
                self.counters.urls_failing.fetch_add(1, Ordering::Relaxed);
                let error = health.last_failure.as_ref().map(|last| &last.error);
                let kind = error.map(|error| error.kind.as_str());
                let status = error.and_then(|error| error.status);
                tracing::warn!(%tenant, %url_id, kind, status, streak = health.streak, "url.failing");
            }
            (true, false) => {
                self.counters.urls_recovered.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(%tenant, %url_id, "url.recovered");
            }
            _ => {}
        }
    }

    /// Keeps deliveries that succeeded at once, and their bodies for replay, if everything is logged.
    async fn log_successes(&self, attempted: &[Attempted]) {
        let at_once = || attempted.iter().filter(|one| !one.needs_record());
        if self.settings.delivery_log != DeliveryLog::All || at_once().next().is_none() {
            return;
        }
        let records = at_once()
            .map(|one| {
                Record::Logged(LoggedDelivery::new(&one.ready.delivery.record, self.attempt_record(one)))
            })
            .collect();
        let (records, bodies) = join(self.ports.store.put_each(records), self.store_bodies(at_once())).await;
        log_unless_stored("deliveries that succeeded", records, bodies);
    }

    /// The bodies that came with their messages: the others are stored already.
    async fn store_bodies(&self, of: impl Iterator<Item = &Attempted>) -> Result<()> {
        let bodies: BTreeMap<BodyKey, Bytes> = of
            .filter(|one| one.ready.body_is_inline)
            .map(|one| (BodyKey::of(one.ready.key()), one.ready.body.clone()))
            .collect();
        if bodies.is_empty() {
            return Ok(());
        }
        Ok(self.ports.store.put_bodies(bodies.into_iter().collect(), self.body_remove_at()).await?)
    }

    /// Bodies and attempts are stored for all at once, before the records that need them. Returns the ticket of each delivery, in
    /// the order of the attempts.
    async fn record_deliveries(&self, attempted: &[Attempted]) -> Vec<Result<Option<Outgoing>>> {
        let recorded = || attempted.iter().filter(|one| one.needs_record());
        let (bodies, ()) =
            join(self.store_bodies(recorded().filter(|one| !one.succeeded())), self.log_attempts(recorded()))
                .await;
        let bodies = &bodies;
        join_all(attempted.iter().map(async |one| match bodies {
            // Without its body the delivery could never be retried: the message comes again.
            Err(error) if one.ready.body_is_inline && !one.succeeded() => Err(error.clone()),
            _ => self.record_delivery(one).await,
        }))
        .await
    }

    /// An attempt that cannot be logged was made all the same, and what follows from it matters more than its log.
    async fn log_attempts(&self, of: impl Iterator<Item = &Attempted>) {
        let attempts: Vec<Record> = of.map(|one| Record::Attempt(self.attempt_record(one))).collect();
        if attempts.is_empty() {
            return;
        }
        log_unless_stored("attempts", self.ports.store.put_each(attempts).await, Ok(()));
    }

    /// Records what the attempt means for its delivery. Returns the ticket that is to be sent. The record may have changed since it
    /// was claimed: the sweep looked at it, or the lease lapsed.
    async fn record_delivery(&self, one: &Attempted) -> Result<Option<Outgoing>> {
        let mut current = one.ready.delivery.clone();
        let number = current.record.progress.number();
        let mut after = self.after_attempt(one, &current.record);
        self.log_attempt(one, &after);
        if !one.needs_record() {
            return Ok(None);
        }
        let mut retries = ConflictRetries::new();
        loop {
            let ticket = next_ticket(&after, self.ports.clock.now());
            if self.repository.replace_delivery(&current, after, Vec::new()).await? {
                return Ok(ticket);
            }
            if !current.is_stored() {
                // Another function has recorded this delivery, and that record has its own ticket.
                return Ok(None);
            }
            retries.again(one.ready.key().id())?;
            match self.repository.get_delivery(one.ready.key()).await? {
                Some(fresh) if fresh.record.progress.accepts_late(number, one.succeeded()) => current = fresh,
                // The delivery went on without this attempt, or was removed.
                _ => return Ok(None),
            }
            after = self.after_attempt(one, &current.record);
        }
    }

    /// The delivery as this attempt leaves it.
    fn after_attempt(&self, one: &Attempted, record: &DeliveryRecord) -> DeliveryRecord {
        let mut record = record.clone();
        record.released_in = None;
        let (schedule, keep) = (&self.settings.schedule, self.settings.keep);
        record.progress.apply(&one.end(), schedule, self.ports.clock.now(), keep);
        record
    }
}
