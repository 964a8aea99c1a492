//! What passes through the ports: recorded for the checks at the end, and checked at once where that is possible.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use holdfast_core::ids::{Tenant, UrlId};
use holdfast_core::ports::{Outgoing, QueueName};
use holdfast_core::records::{DeliveryRecord, Message, Record, UrlRecord};
use holdfast_core::rules::delivery::{DeliveryState, Reason};
use holdfast_core::rules::health::Outcome;
use holdfast_core::time::Timestamp;

use super::checks::Broken;
use super::counts::Counts;
use super::reference_health::Facts;

/// How far two clocks may be apart.
const SKEW: Duration = Duration::from_secs(2);
const STEP: Duration = Duration::from_secs(5);
/// A delivery expires 52 hours after its first attempt, which may be long after it was queued, but not long before.
const MIN_LIFE: Duration = Duration::from_secs(49 * 3_600);

/// One for all hosts.
pub(super) struct Observer {
    counts: Arc<Counts>,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    /// The first promise that was seen broken.
    broken: Option<Broken>,
    /// When deliveries left parked, by the generation of their URL.
    releases: BTreeMap<(Tenant, UrlId, u64), Vec<Timestamp>>,
    /// When the first message of a delivery was queued.
    queued_at: BTreeMap<String, Timestamp>,
    /// Deliveries with a first message that does not say that it is a repeat.
    unmarked: BTreeSet<String>,
    /// When the store learned of the last change of a URL's state: later than the outcome that caused it.
    changed_at: BTreeMap<(Tenant, UrlId), Timestamp>,
    /// How many outcomes were counted on a URL: successes and failures.
    outcomes: BTreeMap<(Tenant, UrlId), (u64, u64)>,
}

impl Observer {
    pub(super) fn new(counts: Arc<Counts>) -> Observer {
        Observer { counts, seen: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn broken(&self) -> Result<(), Broken> {
        self.lock().broken.clone().map_or(Ok(()), Err)
    }

    pub(super) fn report(&self, promise: &'static str, what: String) {
        self.lock().broken.get_or_insert_with(|| Broken::new(promise, what));
    }

    /// Successes and failures that were counted on a URL.
    pub(super) fn outcomes(&self) -> BTreeMap<(Tenant, UrlId), (u64, u64)> {
        self.lock().outcomes.clone()
    }

    /// The delivery was made older than it is.
    pub(super) fn aged(&self, delivery: &str) {
        self.lock().queued_at.remove(delivery);
    }

    /// Since when the store has had the present state of a URL.
    pub(super) fn changed_at(&self, tenant: &Tenant, url: &UrlId) -> Timestamp {
        let changed_at = self.lock().changed_at.get(&(tenant.clone(), url.clone())).copied();
        changed_at.unwrap_or(Timestamp::ZERO)
    }

    fn note_change(&self, before: &UrlRecord, after: &UrlRecord, now: Timestamp) {
        if before.health.generation != after.health.generation {
            self.lock().changed_at.insert((after.tenant.clone(), after.id.clone()), now);
        }
    }

    /// Outcomes were counted on a URL.
    pub(super) fn counted(
        &self,
        before: &UrlRecord,
        after: &UrlRecord,
        outcomes: &[Outcome],
        now: Timestamp,
    ) {
        self.note_change(before, after, now);
        let mut expected = Facts::of(&before.health);
        outcomes.iter().for_each(|outcome| expected.count(outcome));
        let found = Facts::of(&after.health);
        if found != expected {
            let what = format!("{}: {outcomes:?} lead to {found:?} instead of {expected:?}", after.url);
            self.report("health follows from its outcomes", what);
        }
        let mut seen = self.lock();
        let counted = seen.outcomes.entry((after.tenant.clone(), after.id.clone())).or_default();
        for outcome in outcomes {
            *(if outcome.success { &mut counted.0 } else { &mut counted.1 }) += 1;
        }
        drop(seen);
        if outcomes.iter().any(|outcome| outcome.generation != before.health.generation) {
            self.counts.add("an outcome of an older generation");
        }
    }

    /// A host has replaced this record by this one. `generation` is that of the delivery's URL, `now` is true time and the host's.
    pub(super) fn replaced(
        &self,
        before: &Record,
        after: &Record,
        generation: impl FnOnce() -> u64,
        now: (Timestamp, Timestamp),
    ) {
        match (before, after) {
            (Record::Url(before), Record::Url(after)) => {
                self.note_change(before, after, now.0);
                self.url_replaced(before, after);
            }
            (Record::Delivery(before), Record::Delivery(after)) => {
                self.delivery_replaced(before, after, generation, now);
            }
            _ => {}
        }
    }

    fn url_replaced(&self, before: &UrlRecord, after: &UrlRecord) {
        if let (Some(before), Some(after)) = (&before.releasing, &after.releasing)
            && before.began_at == after.began_at
            && before.size != after.size
        {
            self.counts.add(match after.size {
                1 => "a release goes back to one",
                size if size < before.size => "a release becomes slower",
                _ => "a release becomes faster",
            });
        }
        let (old, new) = (Facts::of(&before.health), Facts::of(&after.health));
        let is_unchanged = old.clone().without_probe() == new.clone().without_probe();
        if !is_unchanged && !old.is_by_hand(&new) {
            let what = format!("{} was {old:?} and is {new:?}", after.url);
            self.report("health changes by outcomes and people only", what);
        }
    }

    fn delivery_replaced(
        &self,
        before: &DeliveryRecord,
        after: &DeliveryRecord,
        generation: impl FnOnce() -> u64,
        (now, host_now): (Timestamp, Timestamp),
    ) {
        let (old, new) = (&before.progress, &after.progress);
        let is_released = old.state == DeliveryState::Parked
            && new.state == DeliveryState::Waiting
            && new.epoch == old.epoch
            && !new.is_leased(host_now);
        if is_released {
            self.released(before, generation(), now);
        }
        if old.state == DeliveryState::Dead && new.state == DeliveryState::Delivered && new.epoch == old.epoch
        {
            self.counts.add(match old.reason {
                Some(Reason::Exhausted) => "a success after the last attempt was given up",
                _ => "a success after its delivery was given up",
            });
        }
        if new.reason == Some(Reason::Expired) && new.epoch == 0 && old.state.is_live() {
            let queued_at = self.lock().queued_at.get(&after.key.id()).copied();
            let lived = queued_at.map_or(MIN_LIFE, |queued_at| now.since(queued_at));
            if lived < MIN_LIFE {
                self.report("nothing expires early", format!("{} after {lived:?}", after.key.id()));
            }
        }
    }

    /// Steps of a release are 5 s apart and at most twice as large as the one before.
    fn released(&self, delivery: &DeliveryRecord, generation: u64, now: Timestamp) {
        self.counts.add("a delivery is released");
        let key = (delivery.key.tenant.clone(), delivery.url_id.clone(), generation);
        let mut seen = self.lock();
        let times = seen.releases.entry(key).or_default();
        times.push(now);
        let passed = now.since(times[0]) + SKEW;
        // One more than have begun: what a step was slow to write may come with the next one.
        let steps = (passed.as_secs() / STEP.as_secs() + 2).min(40);
        let (count, allowed) = (times.len(), (1_usize << steps) - 1);
        drop(seen);
        if count > allowed {
            let what = format!("{count} were released at {} in {passed:?}", delivery.url);
            self.report("a release keeps its pace", what);
        }
    }

    /// Hosts have sent these, whatever the queue makes of them.
    pub(super) fn sent(&self, queue: QueueName, messages: &[Outgoing], now: Timestamp) {
        for Outgoing { message, .. } in messages {
            match message {
                Message::FirstAttempt(first) if queue == QueueName::First => {
                    let id = first.key.id();
                    let mut seen = self.lock();
                    let is_repeated = seen.queued_at.contains_key(&id);
                    // When it began counts.
                    seen.queued_at.entry(id.clone()).or_insert(now);
                    // Of two functions that expand the same fan-out at the same time, the one that came first may send last.
                    let is_second_without_mark = !first.again && !seen.unmarked.insert(id.clone());
                    drop(seen);
                    if is_repeated {
                        self.counts.add("a first attempt is queued again");
                    }
                    if is_second_without_mark {
                        self.report(
                            "a repeated message says so",
                            format!("{id} was queued twice without a mark"),
                        );
                    }
                }
                Message::Delivery(ticket) if queue != QueueName::Retry => {
                    let what = format!("a ticket for {} is on {queue:?}", ticket.key.id());
                    self.report("retries have a queue of their own", what);
                }
                _ => {}
            }
        }
    }
}
