//! The promises, checked on what the store holds and on what the receivers saw.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_core::ports::{BodyKey, Store};
use holdfast_core::records::{Attempt, DeliveryRecord, ParkedPointer, Record, Subscription, UrlRecord};
use holdfast_core::rules::delivery::DeliveryState;
use holdfast_core::rules::health::{PROBE_INTERVAL, UrlState};
use holdfast_core::rules::schedule::Schedule;
use holdfast_core::time::Timestamp;

use super::World;
use crate::block_on;

/// The most attempts of one epoch that count.
const MAX_COUNTED: usize = 12;

impl World {
    /// # Panics
    /// If a promise is broken.
    pub fn check(&self) {
        self.check_nothing_lost();
        self.check_never_early();
        self.check_one_probe();
        self.check_parked();
        self.check_looked_after();
        self.check_guards();
        self.check_bodies();
    }

    /// A live delivery always has its body.
    fn check_bodies(&self) {
        for record in self.deliveries().into_iter().filter(|record| record.progress.state.is_live()) {
            let body = block_on(self.store.get_bodies(&[BodyKey::of(&record.key)]));
            assert!(body.expect("the memory store answers")[0].is_some(), "{} has no body", record.key.id());
        }
    }

    /// Every delivery that was accepted was received, or stands in the store.
    fn check_nothing_lost(&self) {
        let events: BTreeMap<String, String> = self
            .store
            .all()
            .into_iter()
            .filter_map(|record| match record {
                Record::Event(event) => Some((event.id, event.event_key.0)),
                _ => None,
            })
            .collect();
        let received = self
            .receiver
            .requests()
            .into_iter()
            .filter(|s| (200..300).contains(&s.status))
            .map(|s| s.delivery);
        let recorded = self.deliveries().into_iter().map(|record| record.key.id());
        let known: BTreeSet<String> = received.chain(recorded).collect();
        for (id, deliveries) in self.accepted() {
            let event_key = events.get(id).unwrap_or_else(|| panic!("the event {id} is lost"));
            let prefix = format!("dlv_{event_key}");
            let found = known.iter().filter(|delivery| delivery.starts_with(&prefix)).count() as u64;
            assert_eq!(found, *deliveries, "a delivery of {id} is lost");
        }
    }

    fn check_never_early(&self) {
        let schedule = Schedule::default();
        let mut by_delivery: BTreeMap<(String, u32), Vec<Attempt>> = BTreeMap::new();
        for record in self.store.all() {
            if let Record::Attempt(attempt) = record {
                by_delivery.entry((attempt.key.id(), attempt.epoch)).or_default().push(attempt);
            }
        }
        for ((delivery, epoch), mut attempts) in by_delivery {
            attempts.sort_by_key(|a| (a.n, a.at));
            let numbers: BTreeSet<u32> = attempts.iter().map(|a| a.n).collect();
            assert!(
                numbers.len() <= MAX_COUNTED,
                "{delivery} has more than {MAX_COUNTED} attempts in epoch {epoch}"
            );
            for n in numbers.iter().filter(|n| **n > 0) {
                let first_at = |n: u32| attempts.iter().find(|a| a.n == n).map(|a| a.at);
                let (Some(before), Some(at)) = (first_at(n - 1), first_at(*n)) else { continue };
                let gap = schedule.gap_before_retry(*n).expect("retry n is on the schedule");
                assert!(at >= before + gap, "{delivery}: attempt {n} was early");
            }
        }
    }

    /// Without deaths no attempt is made twice: every request has its own number in the log.
    ///
    /// # Panics
    /// If one was.
    pub fn check_nothing_repeated(&self) {
        let mut logged: BTreeMap<String, usize> = BTreeMap::new();
        for record in self.store.all() {
            match record {
                Record::Attempt(attempt) => *logged.entry(attempt.key.id()).or_default() += 1,
                Record::Logged(log) => *logged.entry(log.delivery.key.id()).or_default() += 1,
                _ => {}
            }
        }
        let mut requests: BTreeMap<String, usize> = BTreeMap::new();
        for seen in self.receiver.requests() {
            *requests.entry(seen.delivery).or_default() += 1;
        }
        assert_eq!(requests, logged, "requests and logged attempts differ");
        let numbers: BTreeSet<_> = self
            .store
            .all()
            .into_iter()
            .filter_map(|record| match record {
                Record::Attempt(a) => Some((a.key.id(), a.epoch, a.n)),
                Record::Logged(log) => Some((log.delivery.key.id(), 0, 0)),
                _ => None,
            })
            .collect();
        assert_eq!(numbers.len(), logged.values().sum::<usize>(), "an attempt was made twice");
    }

    /// At a disabled URL there is at most one request in 10 minutes.
    fn check_one_probe(&self) {
        let mut last: BTreeMap<String, Timestamp> = BTreeMap::new();
        for seen in self.receiver.requests().into_iter().filter(|s| s.at > s.since) {
            assert_ne!(seen.state, UrlState::Frozen, "a frozen URL was attempted");
            if seen.state != UrlState::Disabled {
                last.remove(&seen.url);
                continue;
            }
            if let Some(before) = last.insert(seen.url.clone(), seen.at) {
                assert!(
                    seen.at.since(before) >= PROBE_INTERVAL,
                    "two probes of {} within 10 minutes",
                    seen.url
                );
            }
        }
        // Where hosts run side by side, what was under way at the very moment of the freeze may still arrive.
        let side_by_side = self.was_side_by_side();
        assert!(
            side_by_side || !self.receiver.requests().iter().any(|s| s.state == UrlState::Frozen),
            "a frozen URL was attempted"
        );
    }

    /// Records and pointers agree, and nothing is parked where it is never released.
    fn check_parked(&self) {
        let pointers: BTreeSet<_> = self
            .store
            .all()
            .into_iter()
            .filter_map(|record| match record {
                Record::Parked(pointer) => Some(pointer.key()),
                _ => None,
            })
            .collect();
        let parked: Vec<DeliveryRecord> =
            self.deliveries().into_iter().filter(|d| d.progress.state == DeliveryState::Parked).collect();
        let expected: BTreeSet<_> = parked.iter().map(|record| ParkedPointer::of(record).key()).collect();
        assert_eq!(pointers, expected, "pointers and parked records differ");
        let urls = self.urls();
        for record in parked {
            let url = urls.get(record.url_id.as_str()).expect("a delivery's URL");
            let stuck = url.health.state == UrlState::Enabled && url.releasing.is_none();
            assert!(!stuck, "{} stays parked at an enabled URL", record.key.id());
        }
    }

    /// Each subscription has the one guard that keeps equal ones away, and no guard is left of what was.
    fn check_guards(&self) {
        let (mut subscriptions, mut guards) = (Vec::new(), Vec::new());
        for record in self.store.all() {
            match record {
                Record::Subscription(subscription) => subscriptions.push(subscription.id),
                Record::SubscriptionGuard(guard) => guards.push(guard.subscription_id),
                _ => {}
            }
        }
        guards.sort();
        assert_eq!(guards, subscriptions, "subscriptions and guards differ");
    }

    /// Once nothing is left to do, every live delivery is where its subscription is.
    ///
    /// # Panics
    /// If one is not.
    pub fn check_settled(&self) {
        let subscriptions: BTreeMap<_, _> = self
            .store
            .all()
            .into_iter()
            .filter_map(|record| match record {
                Record::Subscription(subscription) => Some((subscription.id.clone(), subscription)),
                _ => None,
            })
            .collect();
        for record in self.deliveries().into_iter().filter(|record| record.progress.state.is_live()) {
            let subscription = subscriptions.get(&record.key.subscription_id);
            let at_home = subscription.is_some_and(|s| s.active && s.url_id == record.url_id);
            assert!(at_home, "{} is {} at {}", record.key.id(), record.progress.state.as_str(), record.url);
        }
        let left = self.store.all().into_iter().any(|record| matches!(record, Record::Job(_)));
        assert!(!left, "a job is not done");
    }

    /// Whatever is alive is looked at some day; whatever is over is removed some day.
    fn check_looked_after(&self) {
        for record in self.deliveries() {
            assert_eq!(
                record.progress.state.is_live(),
                record.progress.look_at.is_some(),
                "{}",
                record.key.id()
            );
            assert_eq!(
                record.progress.state.is_live(),
                record.progress.remove_at.is_none(),
                "{}",
                record.key.id()
            );
        }
    }

    #[must_use]
    pub fn deliveries(&self) -> Vec<DeliveryRecord> {
        let all = self.store.all().into_iter();
        all.filter_map(|record| match record {
            Record::Delivery(record) => Some(record),
            _ => None,
        })
        .collect()
    }

    /// The record of the delivery of an event to a subscription, if there is one.
    #[must_use]
    pub fn record(&self, event_id: &str, subscription: &Subscription) -> Option<DeliveryRecord> {
        let key = self.delivery(event_id, subscription);
        self.deliveries().into_iter().find(|record| record.key == key)
    }

    /// The URL that the subscription had when it was made.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn url(&self, subscription: &Subscription) -> UrlRecord {
        self.urls().remove(subscription.url_id.as_str()).expect("a subscription's URL")
    }

    /// The types of the accepted events that begin with this.
    #[must_use]
    pub fn events_of(&self, prefix: &str) -> Vec<String> {
        let all = self.store.all().into_iter();
        all.filter_map(|record| match record {
            Record::Event(event) => Some(event.event_type),
            _ => None,
        })
        .filter(|event_type| event_type.starts_with(prefix))
        .collect()
    }

    #[must_use]
    pub fn urls(&self) -> BTreeMap<String, UrlRecord> {
        let all = self.store.all().into_iter();
        all.filter_map(|record| match record {
            Record::Url(url) => Some((url.id.0.clone(), url)),
            _ => None,
        })
        .collect()
    }
}
