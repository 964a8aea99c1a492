use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use holdfast_core::ids::Tenant;
use holdfast_core::ports::{BodyKey, QueueName, Store};
use holdfast_core::records::{Attempt, Record};
use holdfast_core::rules::delivery::{AttemptOutcome, DeliveryState};
use holdfast_core::rules::health::UrlState;
use holdfast_core::rules::schedule::Schedule;
use holdfast_core::time::Timestamp;

use super::{Kept, LATE, SKEW, keep};
use crate::block_on;
use crate::simulation::World;

const MAX_ATTEMPTS: usize = 12;
const LIFETIME: Duration = Duration::from_secs(52 * 3_600);

impl World {
    /// Attempts by delivery and epoch, in order.
    fn attempts(&self) -> BTreeMap<(String, u32), Vec<Attempt>> {
        let mut attempts: BTreeMap<_, Vec<Attempt>> = BTreeMap::new();
        for record in self.hosts.store.all() {
            if let Record::Attempt(attempt) = record {
                attempts.entry((attempt.key.id(), attempt.epoch)).or_default().push(attempt);
            }
        }
        for of_one in attempts.values_mut() {
            of_one.sort_by_key(|attempt| (attempt.n, attempt.at));
        }
        attempts
    }

    /// Every delivery of an accepted event was received, or is in the store.
    pub(super) fn check_nothing_is_lost(&self) -> Kept {
        let mut events: BTreeMap<(Tenant, String), String> = BTreeMap::new();
        let mut known: BTreeSet<String> = BTreeSet::new();
        for record in self.hosts.store.all() {
            match record {
                Record::Event(event) => drop(events.insert((event.tenant, event.id), event.event_key.0)),
                Record::Delivery(delivery) => drop(known.insert(delivery.key.id())),
                _ => {}
            }
        }
        let requests = self.hosts.receivers.requests();
        let received = requests.iter().filter(|request| (200..300).contains(&request.status));
        known.extend(received.map(|request| request.delivery.clone()));
        let accepted = self.accepted.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        for (event, deliveries) in accepted.iter() {
            let Some(key) = events.get(event) else {
                keep!("accepted is never lost", *deliveries == 0, "{event:?} is not in the store");
                continue;
            };
            let prefix = format!("dlv_{key}");
            let found = known.range(prefix.clone()..).take_while(|id| id.starts_with(&prefix)).count() as u64;
            // More, if an earlier answer did not arrive and a subscription was deleted since.
            keep!(
                "accepted is never lost",
                found >= *deliveries,
                "{found} of {deliveries} of {event:?} are known"
            );
        }
        Ok(())
    }

    /// By what the receivers saw: an attempt may be missing in the log.
    pub(super) fn check_never_early(&self) -> Kept {
        let schedule = Schedule::default();
        let mut first_at: BTreeMap<(&str, u32, u32), Timestamp> = BTreeMap::new();
        let requests = self.hosts.receivers.requests();
        for request in requests.iter() {
            let (epoch, n) = request.claimed.unwrap_or_default();
            let at = first_at.entry((&request.delivery, epoch, n)).or_insert(request.at);
            *at = request.at.min(*at);
        }
        for ((delivery, epoch, n), at) in &first_at {
            let before = n.checked_sub(1).and_then(|before| first_at.get(&(*delivery, *epoch, before)));
            let (Some(before), Some(gap)) = (before, schedule.gap_before_retry(*n)) else { continue };
            let due = *before + gap;
            keep!(
                "never early",
                *at + SKEW >= due,
                "attempt {n} of {delivery}, epoch {epoch}: at {at}, due {due}"
            );
        }
        Ok(())
    }

    pub(super) fn check_number_of_attempts(&self) -> Kept {
        for ((delivery, epoch), attempts) in self.attempts() {
            let numbers: BTreeSet<u32> = attempts.iter().map(|attempt| attempt.n).collect();
            keep!(
                "at most 12 attempts",
                numbers.len() <= MAX_ATTEMPTS,
                "{delivery} in epoch {epoch}: {numbers:?}"
            );
        }
        Ok(())
    }

    /// After the first attempt that the record knows: one whose outcome could not be recorded does not count.
    pub(super) fn check_nothing_after_52_hours(&self) -> Kept {
        let attempts = self.attempts();
        for delivery in self.deliveries() {
            let (id, progress) = (delivery.key.id(), &delivery.progress);
            let began = progress.first_attempt_at.unwrap_or(progress.epoch_began_at);
            let of_epoch = attempts.get(&(id.clone(), progress.epoch));
            let Some(last) = of_epoch.and_then(|attempts| attempts.iter().map(|attempt| attempt.at).max())
            else {
                continue;
            };
            let late = last.since(began);
            keep!(
                "nothing after 52 hours",
                late <= LIFETIME + SKEW,
                "{id}: {late:?} after the first attempt"
            );
        }
        Ok(())
    }

    /// A success that is in the log ends its epoch.
    pub(super) fn check_success_ends(&self) -> Kept {
        let attempts = self.attempts();
        for delivery in self.deliveries() {
            let (id, progress) = (delivery.key.id(), &delivery.progress);
            let Some(attempts) = attempts.get(&(id.clone(), progress.epoch)) else { continue };
            let succeeded = attempts.iter().any(|attempt| attempt.outcome == AttemptOutcome::Success);
            let is_delivered = progress.state == DeliveryState::Delivered;
            keep!(
                "a success ends a delivery",
                !succeeded || is_delivered,
                "{id} is {} ({:?})",
                progress.state.as_str(),
                progress.reason
            );
        }
        Ok(())
    }

    /// After days without trouble nothing is under way that should have ended.
    pub(super) fn check_everything_ends(&self) -> Kept {
        let now = self.hosts.now();
        for delivery in self.deliveries().into_iter().filter(|delivery| delivery.progress.state.is_live()) {
            let (id, progress) = (delivery.key.id(), &delivery.progress);
            // One that waits for an attempt after its end is looked at when that would be due, and shown as dead before.
            let looked_at =
                if progress.state == DeliveryState::Waiting { progress.due_at } else { progress.expires_at };
            let is_over = now > progress.expires_at.max(looked_at) + LATE + SKEW;
            keep!("everything ends", !is_over, "{id} has expired at {}", progress.expires_at);
        }
        let jobs =
            self.hosts.store.all().into_iter().filter(|record| matches!(record, Record::Job(_))).count();
        keep!("everything ends", jobs == 0, "{jobs} jobs are left");
        let left = self.hosts.queue.messages(QueueName::First);
        keep!("everything ends", left.is_empty(), "first attempts are left: {left:?}");
        Ok(())
    }

    /// What is alive is looked at some day and has its body; what is over is removed some day.
    pub(super) fn check_lives_are_looked_after(&self) -> Kept {
        for delivery in self.deliveries() {
            let (id, progress) = (delivery.key.id(), &delivery.progress);
            let is_live = progress.state.is_live();
            keep!(
                "live records are kept",
                is_live == progress.look_at.is_some(),
                "{id}: look_at {:?}",
                progress.look_at
            );
            keep!(
                "live records are kept",
                is_live == progress.remove_at.is_none(),
                "{id}: remove_at {:?}",
                progress.remove_at
            );
            if is_live {
                let body = block_on(self.hosts.store.get_bodies(&[BodyKey::of(&delivery.key)]));
                let has_body = body.is_ok_and(|bodies| bodies.iter().all(Option::is_some));
                keep!("live records have their bodies", has_body, "{id} has none");
            }
        }
        Ok(())
    }

    /// While nothing goes wrong, a waiting delivery is attempted when it is due.
    pub(super) fn check_nothing_is_late(&self) -> Kept {
        self.check_lives_are_looked_after()?;
        let now = self.hosts.now();
        let urls = self.urls();
        for delivery in self.deliveries() {
            let progress = &delivery.progress;
            let late = now.since(progress.due_at);
            // One that is being attempted is on its way.
            let is_late = late > LATE + SKEW && !progress.is_leased(now);
            let id = delivery.key.id();
            match progress.state {
                DeliveryState::Waiting => keep!("never late", !is_late, "{id} was due {late:?} ago"),
                DeliveryState::Parked => {
                    let url = urls.get(&(delivery.key.tenant.clone(), delivery.url_id.clone()));
                    let stuck = url.is_none_or(|url| {
                        url.health.state == UrlState::Enabled
                            && url.releasing.is_none()
                            && now.since(url.health.since) > LATE
                    });
                    keep!("nothing stays parked at an enabled URL", !stuck, "{id} at {}", delivery.url);
                }
                DeliveryState::Delivered | DeliveryState::Dead => {}
            }
        }
        Ok(())
    }
}
