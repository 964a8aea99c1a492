use std::collections::{BTreeMap, BTreeSet};

use holdfast_core::ids::{Tenant, UrlId};
use holdfast_core::records::{ParkedPointer, Record, UrlRecord};
use holdfast_core::rules::delivery::DeliveryState;
use holdfast_core::rules::health::UrlState;

use super::{Kept, LATE, SKEW, keep};
use crate::simulation::World;

impl World {
    pub(super) fn urls(&self) -> BTreeMap<(Tenant, UrlId), UrlRecord> {
        let all = self.hosts.store.all().into_iter();
        all.filter_map(|record| match record {
            Record::Url(url) => Some(((url.tenant.clone(), url.id.clone()), url)),
            _ => None,
        })
        .collect()
    }

    /// Records and pointers agree.
    pub(super) fn check_parked(&self) -> Kept {
        let mut pointers = BTreeSet::new();
        let mut expected = BTreeSet::new();
        for record in self.hosts.store.all() {
            match record {
                Record::Parked(pointer) => drop(pointers.insert(pointer.key())),
                Record::Delivery(delivery) if delivery.progress.state == DeliveryState::Parked => {
                    expected.insert(ParkedPointer::of(&delivery).key());
                }
                _ => {}
            }
        }
        keep!(
            "a parked delivery has one pointer",
            pointers == expected,
            "{pointers:?} instead of {expected:?}"
        );
        Ok(())
    }

    /// A disabled URL at which something is due is probed.
    pub(super) fn check_probes_are_made(&self) -> Kept {
        let now = self.hosts.now();
        let urls = self.urls();
        for delivery in self.deliveries() {
            let progress = &delivery.progress;
            if progress.state != DeliveryState::Parked || now.since(progress.due_at) <= LATE + SKEW {
                continue;
            }
            let url = urls.get(&(delivery.key.tenant.clone(), delivery.url_id.clone()));
            let Some(url) = url.filter(|url| url.health.state == UrlState::Disabled) else { continue };
            let late = url.health.next_probe_at.map_or(std::time::Duration::ZERO, |at| now.since(at));
            keep!(
                "a disabled URL is probed",
                late <= LATE + SKEW,
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

    /// Which states and ends there were.
    pub(in crate::simulation) fn count_what_happened(&self) {
        let counts = &self.hosts.faults.counts;
        for record in self.hosts.store.all() {
            match record {
                Record::History(entry) => counts.add(match (entry.from, entry.to) {
                    (UrlState::Enabled, UrlState::Disabled) => "a URL: enabled to disabled",
                    (UrlState::Disabled, UrlState::Enabled) => "a URL: disabled to enabled",
                    (UrlState::Enabled, UrlState::Frozen) => "a URL: enabled to frozen",
                    (UrlState::Disabled, UrlState::Frozen) => "a URL: disabled to frozen",
                    (UrlState::Frozen, UrlState::Enabled) => "a URL: frozen to enabled",
                    _ => "a URL: another change",
                }),
                Record::Delivery(delivery) => counts.add(match delivery.progress.reason {
                    None => "a delivery is delivered in the end",
                    Some(holdfast_core::rules::delivery::Reason::Exhausted) => "a delivery is exhausted",
                    Some(holdfast_core::rules::delivery::Reason::Expired) => "a delivery has expired",
                    Some(holdfast_core::rules::delivery::Reason::Unsubscribed) => {
                        "a delivery is unsubscribed"
                    }
                    Some(holdfast_core::rules::delivery::Reason::Inactive) => "a delivery is inactive",
                }),
                Record::Attempt(attempt) => counts.add(match attempt.outcome {
                    holdfast_core::rules::delivery::AttemptOutcome::Success => "an attempt succeeds",
                    holdfast_core::rules::delivery::AttemptOutcome::Failure => "an attempt fails",
                    holdfast_core::rules::delivery::AttemptOutcome::Interrupted => {
                        "an attempt is interrupted"
                    }
                }),
                _ => {}
            }
        }
    }
}
