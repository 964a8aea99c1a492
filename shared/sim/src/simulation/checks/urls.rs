use std::collections::BTreeSet;
use std::time::Duration;

use holdfast_core::records::{DeliveryRecord, Key, ParkedPointer};
use holdfast_core::rules::delivery::{AttemptOutcome, DeliveryState, Reason};
use holdfast_core::rules::health::UrlState;

use super::{Kept, LATE, SKEW, Snapshot, keep};
use crate::simulation::World;

/// How late a probe may be once nothing goes wrong: the sweep finds it within a minute, and sends it on if it comes early.
const PROBE_LATE: Duration = Duration::from_secs(3 * 60);

impl World {
    /// Records and pointers agree.
    pub(super) fn check_parked(&self, snapshot: &Snapshot) -> Kept {
        let is_parked = |delivery: &&DeliveryRecord| delivery.progress.state == DeliveryState::Parked;
        let pointers: BTreeSet<Key> = snapshot.pointers.iter().map(ParkedPointer::key).collect();
        let parked = snapshot.deliveries.iter().filter(is_parked);
        let expected: BTreeSet<Key> = parked.map(|delivery| ParkedPointer::of(delivery).key()).collect();
        keep!(
            "a parked delivery has one pointer",
            pointers == expected,
            "{pointers:?} instead of {expected:?}"
        );
        Ok(())
    }

    /// A disabled URL at which something is due is probed.
    pub(super) fn check_probes_are_made(&self, snapshot: &Snapshot) -> Kept {
        let now = self.hosts.schedule_now();
        for delivery in &snapshot.deliveries {
            let progress = &delivery.progress;
            if progress.state != DeliveryState::Parked || now.since(progress.due_at) <= LATE + SKEW {
                continue;
            }
            let url = snapshot.url_of(delivery);
            let Some(url) = url.filter(|url| url.health.state == UrlState::Disabled) else { continue };
            let late = url.health.next_probe_at.map_or(Duration::ZERO, |at| now.since(at));
            keep!(
                "a disabled URL is probed",
                late <= PROBE_LATE + SKEW,
                "{} should have been, {late:?} ago",
                url.url
            );
        }
        Ok(())
    }

    /// Customers' failures are not ours.
    pub(super) fn check_no_dead_letters(&self) -> Kept {
        let dead =
            self.hosts.faults.counts.all().get("a message becomes a dead letter").copied().unwrap_or(0);
        keep!("no dead letters", dead == 0, "{dead} messages became dead letters");
        Ok(())
    }

    /// The hosts' clock passes as time does, whatever the machine's clock is set to.
    pub(super) fn check_time_passes(&self) -> Kept {
        let now = (self.hosts.now(), self.hosts.schedule_now());
        let last = self.last_clocks.lock().unwrap_or_else(std::sync::PoisonError::into_inner).replace(now);
        let Some(last) = last else { return Ok(()) };
        let (passed, shown) = (now.0.since(last.0), now.1.since(last.1));
        keep!(
            "time passes steadily",
            shown.abs_diff(passed) <= self.drift(passed) + SKEW,
            "in {passed:?} the clock of the machine went on by {shown:?}"
        );
        Ok(())
    }

    /// Which states and ends there were.
    pub(super) fn count_what_happened(&self, snapshot: &Snapshot) {
        let counts = &self.hosts.faults.counts;
        for entry in &snapshot.history {
            counts.add(match (entry.from, entry.to) {
                (UrlState::Enabled, UrlState::Disabled) => "a URL: enabled to disabled",
                (UrlState::Disabled, UrlState::Enabled) => "a URL: disabled to enabled",
                (UrlState::Enabled, UrlState::Frozen) => "a URL: enabled to frozen",
                (UrlState::Disabled, UrlState::Frozen) => "a URL: disabled to frozen",
                (UrlState::Frozen, UrlState::Enabled) => "a URL: frozen to enabled",
                _ => "a URL: another change",
            });
        }
        for delivery in &snapshot.deliveries {
            counts.add(match delivery.progress.reason {
                None => "a delivery is delivered in the end",
                Some(Reason::Exhausted) => "a delivery is exhausted",
                Some(Reason::Expired) => "a delivery has expired",
                Some(Reason::Unsubscribed) => "a delivery is unsubscribed",
                Some(Reason::Inactive) => "a delivery is inactive",
            });
        }
        for attempt in snapshot.attempts.values().flatten() {
            counts.add(match attempt.outcome {
                AttemptOutcome::Success => "an attempt succeeds",
                AttemptOutcome::Failure => "an attempt fails",
                AttemptOutcome::Interrupted => "an attempt is interrupted",
            });
        }
    }
}
