//! Keeps count of what this engine does, and writes it down about once a second.
//!
//! These are statistics. They are kept in memory until they are written, so a process that is killed loses the last second of
//! them; nothing is decided by them, and no use-case waits for them: hosts write them between other things.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use data_encoding::HEXLOWER;

use super::super::deliver::Attempted;
use super::super::{DeliveryLog, Engine};
use crate::ids::Tenant;
use crate::ports::chain;
use crate::records::{Attempt, AttemptSummaries, AttemptSummary, DeliveryRecord, Key, MinuteRecord, Record};
use crate::rules::activity::{Counts, MINUTE, Pace, minute_of};
use crate::time::{Now, Timestamp};

/// The most summaries of one tenant that are written at once. More than a person can read in a second, and few enough that they cost
/// little beside the attempts themselves.
const MAX_SUMMARIES: usize = 20;
/// The longest text of an error that is kept in a summary; the delivery has all of it.
const MAX_ERROR_LEN: usize = 200;
/// A store that does not take them must not fill the memory: the oldest minutes are forgotten.
const MAX_MINUTES: usize = 1_440;

/// A day and an hour of minutes.
const KEEP_MINUTES: Duration = Duration::from_secs(25 * 3600);
/// In real time: the feed is followed live.
const KEEP_SUMMARIES: Duration = Duration::from_secs(3600);

#[derive(Default)]
pub(crate) struct Activity(Mutex<State>);

#[derive(Default)]
struct State {
    tenants: BTreeMap<Tenant, OfTenant>,
    pace: Pace,
    /// One at a time, so that an older count never comes to lie over a newer one.
    writing: bool,
    /// Tells this engine's records from those of all others. Made when first needed.
    engine: Option<String>,
    written: u64,
}

#[derive(Default)]
struct OfTenant {
    minutes: BTreeMap<Timestamp, Minute>,
    summaries: VecDeque<AttemptSummary>,
    omitted: u64,
}

#[derive(Default)]
struct Minute {
    counts: Counts,
    /// As the store has them.
    written: Counts,
}

impl Minute {
    fn is_written(&self) -> bool {
        self.counts == self.written
    }
}

impl OfTenant {
    fn minute(&mut self, now: Timestamp) -> &mut Counts {
        let minute = minute_of(now);
        if self.minutes.len() >= MAX_MINUTES && !self.minutes.contains_key(&minute) {
            self.minutes.pop_first();
        }
        &mut self.minutes.entry(minute).or_default().counts
    }

    fn show(&mut self, summary: AttemptSummary) {
        self.summaries.push_back(summary);
        self.omit_oldest();
    }

    fn omit_oldest(&mut self) {
        while self.summaries.len() > MAX_SUMMARIES {
            self.summaries.pop_front();
            self.omitted += 1;
        }
    }

    fn has_news(&self) -> bool {
        !self.summaries.is_empty() || self.minutes.values().any(|minute| !minute.is_written())
    }
}

/// The right to write, given back when it is dropped, also half-way.
struct Turn<'a>(&'a Activity);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.lock().writing = false;
    }
}

impl Activity {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(
        &self,
        tenant: &Tenant,
        now: Timestamp,
        summary: Option<AttemptSummary>,
        add: impl Fn(&mut Counts),
    ) {
        let mut state = self.lock();
        let of_tenant = match state.tenants.get_mut(tenant) {
            Some(of_tenant) => of_tenant,
            None => state.tenants.entry(tenant.clone()).or_default(),
        };
        add(of_tenant.minute(now));
        if let Some(summary) = summary {
            of_tenant.show(summary);
        }
    }

    /// `None`: there is nothing to write, or it is not the time.
    fn begin(&self, now_real: Timestamp, force: bool) -> Option<Turn<'_>> {
        let mut state = self.lock();
        let has_news = state.tenants.values().any(OfTenant::has_news);
        if state.writing || !has_news || !(state.pace.take(now_real) || force) {
            return None;
        }
        state.writing = true;
        Some(Turn(self))
    }

    /// What is to be written. Summaries are taken; minutes stay until they are known to be written and nothing is added any more.
    fn take(&self, now: Now, summaries_remove_at: Timestamp, new_engine: impl Fn() -> String) -> Vec<Record> {
        let mut state = self.lock();
        let State { tenants, engine, written, .. } = &mut *state;
        let engine = engine.get_or_insert_with(new_engine);
        let mut records = Vec::new();
        tenants.retain(|tenant, of_tenant| {
            of_tenant.minutes.retain(|minute, one| !one.is_written() || *minute + MINUTE * 3 > now.schedule);
            for (minute, one) in of_tenant.minutes.iter().filter(|(_, one)| !one.is_written()) {
                records.push(Record::Minute(MinuteRecord {
                    tenant: tenant.clone(),
                    minute: *minute,
                    engine: engine.clone(),
                    counts: one.counts.clone(),
                    remove_at: *minute + KEEP_MINUTES,
                }));
            }
            if !of_tenant.summaries.is_empty() {
                *written += 1;
                records.push(Record::AttemptSummaries(AttemptSummaries {
                    tenant: tenant.clone(),
                    at_real: now.real,
                    engine: engine.clone(),
                    number: *written,
                    summaries: of_tenant.summaries.drain(..).collect(),
                    omitted: std::mem::take(&mut of_tenant.omitted),
                    remove_at: summaries_remove_at,
                }));
            }
            !of_tenant.minutes.is_empty()
        });
        records
    }

    /// What was not written is kept for the next time.
    fn settle(&self, records: Vec<Record>, left: &BTreeSet<Key>) {
        let mut state = self.lock();
        for record in records {
            let is_left = left.contains(&record.key());
            match record {
                Record::Minute(record) if !is_left => {
                    let of_tenant = state.tenants.get_mut(&record.tenant);
                    if let Some(one) = of_tenant.and_then(|of| of.minutes.get_mut(&record.minute)) {
                        one.written = record.counts;
                    }
                }
                Record::AttemptSummaries(record) if is_left => {
                    let of_tenant = state.tenants.entry(record.tenant).or_default();
                    for summary in record.summaries.into_iter().rev() {
                        of_tenant.summaries.push_front(summary);
                    }
                    of_tenant.omitted += record.omitted;
                    of_tenant.omit_oldest();
                }
                _ => {}
            }
        }
    }
}

impl Engine {
    /// Writes what happened since the last time, if that was a second ago or there is a reason to (`force`). Cheap when there is
    /// nothing to do, and never fails: what cannot be written is kept for the next time, within bounds. May be dropped at any
    /// await, which costs at most some summaries.
    pub async fn flush_activity(&self, force: bool) {
        let now = self.ports.clock.both();
        let Some(_turn) = self.activity.begin(now.real, force) else { return };
        let summaries_remove_at = now.schedule + self.ports.clock.to_schedule(KEEP_SUMMARIES);
        let new_engine = || HEXLOWER.encode(&self.random::<8>());
        let records = self.activity.take(now, summaries_remove_at, new_engine);
        let left = match self.ports.store.put_each(records.clone()).await {
            Ok(left) => left.iter().map(Record::key).collect(),
            Err(error) => {
                tracing::warn!(error = chain(&error), "activity.kept");
                records.iter().map(Record::key).collect()
            }
        };
        self.activity.settle(records, &left);
    }

    pub(crate) fn count_events(&self, tenant: &Tenant, accepted: u64) {
        if accepted > 0 {
            self.counters.count_events(accepted);
            self.tenant_totals.count(tenant, |counters| counters.events_accepted += accepted);
            self.activity.count(tenant, self.ports.clock.now(), None, |counts| counts.events += accepted);
        }
    }

    pub(crate) fn count_attempt(&self, attempted: &Attempted) {
        let (record, attempt) = (&attempted.ready.delivery.record, self.attempt_record(attempted));
        // The cheapest log keeps nothing of what succeeds at once, here as elsewhere.
        if self.settings.delivery_log == DeliveryLog::All || attempted.needs_record() {
            return self.add_summary(record, &attempt);
        }
        self.add_attempt(&attempt, None);
    }

    pub(crate) fn add_summary(&self, record: &DeliveryRecord, attempt: &Attempt) {
        let summary = AttemptSummary {
            delivery_id: attempt.key.id(),
            event_id: record.event_id.clone(),
            event_type: record.event_type.clone(),
            subscription_id: attempt.key.subscription_id.to_string(),
            url_id: record.url_id.to_string(),
            epoch: attempt.epoch,
            n: attempt.n,
            at: attempt.at,
            outcome: attempt.outcome,
            status: attempt.status,
            error: attempt.error.as_ref().map(|error| error.chars().take(MAX_ERROR_LEN).collect()),
            ms: attempt.ms,
        };
        self.add_attempt(attempt, Some(summary));
    }

    fn add_attempt(&self, attempt: &Attempt, summary: Option<AttemptSummary>) {
        let (outcome, ms) = (attempt.outcome, attempt.ms);
        let count = |counts: &mut Counts| counts.count_attempt(outcome, ms);
        self.activity.count(&attempt.key.tenant, self.ports.clock.now(), summary, count);
    }
}
