use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use holdfast_core::ports::{BodyKey, QueueName};
use holdfast_core::records::{Job, JobRecord};
use holdfast_core::rules::delivery::{AttemptOutcome, DeliveryState};
use holdfast_core::rules::health::UrlState;
use holdfast_core::time::Timestamp;

use super::releases::DRAIN;
use super::{Kept, LATE, SKEW, Snapshot, keep};
use crate::block_on;
use crate::simulation::{Request, World};

const MAX_ATTEMPTS: usize = 12;
/// When the sweep looks at something that is due, at the latest: while a probe is made, the next one is due in 10 minutes and the time that a
/// function has.
const MAX_LOOK: Duration = Duration::from_secs(630);
/// An attempt is logged before its function ends, or not at all.
const TO_LOG: Duration = Duration::from_secs(40);
/// How long after their minute deaths are announced, at the earliest.
const DEATHS_SETTLE: Duration = Duration::from_secs(60);
const LIFETIME: Duration = Duration::from_secs(52 * 3_600);

/// As it is promised: not by the code that is checked.
fn gap_before_retry(n: u32) -> Option<Duration> {
    (1..=11).contains(&n).then(|| Duration::from_millis(84_800 << (n - 1)))
}

impl World {
    /// Every delivery of an accepted event was received, or is in the store.
    pub(super) fn check_nothing_is_lost(&self, snapshot: &Snapshot) -> Kept {
        let mut known: BTreeSet<String> =
            snapshot.deliveries.iter().map(|delivery| delivery.key.id()).collect();
        let requests = self.hosts.receivers.requests();
        let received = requests.iter().filter(|request| (200..300).contains(&request.status));
        known.extend(received.map(|request| request.delivery.clone()));
        let accepted = self.accepted.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        for (event, deliveries) in accepted.iter() {
            let Some(key) = snapshot.events.get(event) else {
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
        let mut first_at: BTreeMap<(&str, u32, u32), Timestamp> = BTreeMap::new();
        let requests = self.hosts.receivers.requests();
        for request in requests.iter() {
            let (epoch, n) = request.claimed.unwrap_or_default();
            let at = first_at.entry((&request.delivery, epoch, n)).or_insert(request.at);
            *at = request.at.min(*at);
        }
        for ((delivery, epoch, n), at) in &first_at {
            let before = n.checked_sub(1).and_then(|before| first_at.get(&(*delivery, *epoch, before)));
            let (Some(before), Some(gap)) = (before, gap_before_retry(*n)) else { continue };
            let due = *before + gap;
            keep!(
                "never early",
                *at + SKEW + self.drift(gap) >= due,
                "attempt {n} of {delivery}, epoch {epoch}: at {at}, due {due}"
            );
        }
        Ok(())
    }

    pub(super) fn check_number_of_attempts(&self, snapshot: &Snapshot) -> Kept {
        for ((delivery, epoch), attempts) in &snapshot.attempts {
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
    pub(super) fn check_nothing_after_52_hours(&self, snapshot: &Snapshot) -> Kept {
        for delivery in &snapshot.deliveries {
            let (id, progress) = (delivery.key.id(), &delivery.progress);
            let began = progress.first_attempt_at.unwrap_or(progress.epoch_began_at);
            let of_epoch = snapshot.attempts.get(&(id.clone(), progress.epoch));
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
    pub(super) fn check_success_ends(&self, snapshot: &Snapshot) -> Kept {
        self.check_first_success_ends(snapshot)?;
        for delivery in &snapshot.deliveries {
            let (id, progress) = (delivery.key.id(), &delivery.progress);
            let attempts = snapshot.attempts.get(&(id.clone(), progress.epoch));
            let mut attempts = attempts.into_iter().flatten();
            let succeeded = attempts.any(|attempt| attempt.outcome == AttemptOutcome::Success);
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

    /// Of two copies of a first attempt one may fail: before its retry the log is read.
    fn check_first_success_ends(&self, snapshot: &Snapshot) -> Kept {
        let requests = self.hosts.receivers.requests();
        let is_first_retry = |request: &&Request| request.claimed == Some((0, 1));
        let mut retried_at: BTreeMap<&str, Timestamp> = BTreeMap::new();
        for request in requests.iter().filter(is_first_retry).filter(|_| self.hosts.machine.is_none()) {
            retried_at.insert(&request.delivery, request.at);
        }
        for logged in &snapshot.logged {
            let (id, succeeded_at) = (logged.delivery.key.id(), logged.attempt.at);
            let retried_at = retried_at.get(id.as_str());
            keep!(
                "a success ends a delivery",
                retried_at.is_none_or(|retried_at| *retried_at <= succeeded_at + TO_LOG),
                "{id} succeeded at {succeeded_at} and was retried at {retried_at:?}"
            );
        }
        Ok(())
    }

    /// After days without trouble nothing is under way that should have ended.
    pub(super) fn check_everything_ends(&self, snapshot: &Snapshot) -> Kept {
        let now = self.hosts.schedule_now();
        for delivery in snapshot.deliveries.iter().filter(|delivery| delivery.progress.state.is_live()) {
            let (id, progress) = (delivery.key.id(), &delivery.progress);
            // One that waits for an attempt after its end is looked at when that would be due, and shown as dead before.
            let looked_at =
                if progress.state == DeliveryState::Waiting { progress.due_at } else { progress.expires_at };
            let is_over = now > progress.expires_at.max(looked_at) + LATE + SKEW;
            keep!("everything ends", !is_over, "{id} has expired at {}", progress.expires_at);
        }
        // Deaths are announced when their minute is over and everyone who might add one has ended. All other jobs have ended long ago.
        let is_over = |job: &&JobRecord| match &job.job {
            Job::AnnounceDeaths(deaths) => now > deaths.until() + DEATHS_SETTLE + LATE + SKEW,
            _ => true,
        };
        let left: Vec<_> = snapshot.jobs.iter().filter(is_over).collect();
        keep!("everything ends", left.is_empty(), "jobs are left: {left:?}");
        for queue in [QueueName::First, QueueName::Slow] {
            let left = self.hosts.backend.messages(queue);
            keep!("everything ends", left == 0, "{left} first attempts are left on {queue:?}");
        }
        Ok(())
    }

    /// What is alive is looked at some day and has its body; what is over is removed some day.
    pub(super) fn check_lives_are_looked_after(&self, snapshot: &Snapshot) -> Kept {
        for delivery in &snapshot.deliveries {
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
                let body = block_on(self.hosts.backend.store().get_bodies(&[BodyKey::of(&delivery.key)]));
                let has_body = body.is_ok_and(|bodies| bodies.iter().all(Option::is_some));
                keep!("live records have their bodies", has_body, "{id} has none");
            }
        }
        Ok(())
    }

    /// While nothing goes wrong, a waiting delivery is attempted when it is due.
    pub(super) fn check_nothing_is_late(&self, snapshot: &Snapshot) -> Kept {
        self.check_lives_are_looked_after(snapshot)?;
        let now = self.hosts.schedule_now();
        for delivery in &snapshot.deliveries {
            let progress = &delivery.progress;
            let late = now.since(progress.due_at);
            // One that is being attempted is on its way, and one that was parked until a moment ago has just been released.
            let is_released = delivery.released_in.is_some()
                && snapshot.url_of(delivery).is_some_and(|url| now.since(url.health.since) <= LATE + DRAIN);
            let is_late = late > LATE + SKEW && !progress.is_leased(now) && !is_released;
            let id = delivery.key.id();
            match progress.state {
                DeliveryState::Waiting => keep!("never late", !is_late, "{id} was due {late:?} ago"),
                DeliveryState::Parked => {
                    let stuck = snapshot.url_of(delivery).is_none_or(|url| {
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

    /// What is due is looked at within 10 minutes, should its ticket be lost.
    pub(super) fn check_looks(&self, snapshot: &Snapshot) -> Kept {
        let now = self.hosts.schedule_now();
        let soon = now + MAX_LOOK + SKEW;
        for delivery in &snapshot.deliveries {
            let progress = &delivery.progress;
            if !progress.state.is_live() || progress.due_at > now {
                continue;
            }
            let look_at = match progress.state {
                DeliveryState::Parked => match snapshot.url_of(delivery) {
                    Some(url) if url.health.state == UrlState::Disabled => url.next_look_at(),
                    // A frozen URL is left alone, and what is released has its own checks.
                    _ => continue,
                },
                _ => progress.look_at,
            };
            let (id, url) = (delivery.key.id(), &delivery.url);
            keep!(
                "what is due is looked at soon",
                look_at.is_some_and(|look_at| look_at <= soon),
                "{id} at {url}: {look_at:?}, and it is {now}"
            );
        }
        Ok(())
    }

    /// A receiver can postpone a retry at most to the time of the one after it. Counted from the last request, because the log is best
    /// effort; an attempt that was interrupted is always in the log.
    pub(super) fn check_due_times(&self, snapshot: &Snapshot) -> Kept {
        let mut last_request: BTreeMap<&str, Timestamp> = BTreeMap::new();
        let requests = self.hosts.receivers.requests();
        for request in requests.iter() {
            last_request.insert(&request.delivery, request.at);
        }
        let waiting = snapshot.deliveries.iter().filter(|one| one.progress.state == DeliveryState::Waiting);
        for delivery in waiting.filter(|_| self.hosts.machine.is_none()) {
            let progress = &delivery.progress;
            let (id, n, due_at) = (delivery.key.id(), progress.next_attempt, progress.due_at);
            let logged = snapshot.attempts.get(&(id.clone(), progress.epoch)).into_iter().flatten();
            let logged = logged.map(|attempt| attempt.at).max();
            let before = last_request.get(id.as_str()).copied().max(logged);
            let (Some(before), Some(gap)) = (before, gap_before_retry(n)) else { continue };
            let latest = before + gap + gap_before_retry(n + 1).unwrap_or_default() + SKEW;
            keep!(
                "retry-after is bounded",
                due_at <= latest,
                "retry {n} of {id} is due at {due_at}, {:?} after the attempt before",
                due_at.since(before)
            );
        }
        Ok(())
    }

    /// A live delivery is where its subscription is, which is active. People have done nothing for a while.
    pub(super) fn check_subscriptions_are_followed(&self, snapshot: &Snapshot) -> Kept {
        for delivery in snapshot.deliveries.iter().filter(|delivery| delivery.progress.state.is_live()) {
            // One that waits is looked at when it is due.
            if delivery.progress.state == DeliveryState::Waiting {
                continue;
            }
            let subscription = snapshot.subscription_of(&delivery.key);
            let is_wanted = subscription.is_some_and(|one| one.active && one.url_id == delivery.url_id);
            keep!(
                "deliveries follow their subscription",
                is_wanted,
                "{} is parked at {}, and its subscription is {subscription:?}",
                delivery.key.id(),
                delivery.url
            );
        }
        Ok(())
    }
}
