use std::collections::BTreeMap;

use holdfast_core::ids::{DeliveryKey, SubscriptionId, Tenant, UrlId};
use holdfast_core::records::{
    Attempt, DeliveryRecord, HistoryEntry, JobRecord, LoggedDelivery, ParkedPointer, Record, Subscription,
    UrlRecord,
};

/// Everything in the store, by what it is, read once for all checks.
#[derive(Default)]
pub(in crate::simulation) struct Snapshot {
    /// The key of each event, by its id.
    pub(super) events: BTreeMap<(Tenant, String), String>,
    pub(in crate::simulation) deliveries: Vec<DeliveryRecord>,
    pub(in crate::simulation) logged: Vec<LoggedDelivery>,
    /// By delivery and epoch, in order.
    pub(super) attempts: BTreeMap<(String, u32), Vec<Attempt>>,
    pub(super) pointers: Vec<ParkedPointer>,
    pub(super) urls: BTreeMap<(Tenant, UrlId), UrlRecord>,
    pub(super) history: Vec<HistoryEntry>,
    pub(in crate::simulation) subscriptions: BTreeMap<(Tenant, SubscriptionId), Subscription>,
    pub(super) jobs: Vec<JobRecord>,
}

impl Snapshot {
    pub(in crate::simulation) fn of(records: Vec<Record>) -> Snapshot {
        let mut snapshot = Snapshot::default();
        for record in records {
            snapshot.add(record);
        }
        for of_one in snapshot.attempts.values_mut() {
            of_one.sort_by_key(|attempt| (attempt.n, attempt.at));
        }
        snapshot
    }

    fn add(&mut self, record: Record) {
        match record {
            Record::Event(event) => drop(self.events.insert((event.tenant, event.id), event.event_key.0)),
            Record::Delivery(delivery) => self.deliveries.push(delivery),
            Record::Logged(logged) => self.logged.push(logged),
            Record::Attempt(attempt) => {
                self.attempts.entry((attempt.key.id(), attempt.epoch)).or_default().push(attempt);
            }
            Record::Parked(pointer) => self.pointers.push(pointer),
            Record::Url(url) => drop(self.urls.insert((url.tenant.clone(), url.id.clone()), url)),
            Record::History(entry) => self.history.push(entry),
            Record::Subscription(one) => {
                self.subscriptions.insert((one.tenant.clone(), one.id.clone()), one);
            }
            Record::Job(job) => self.jobs.push(job),
            _ => {}
        }
    }

    pub(super) fn url_of(&self, delivery: &DeliveryRecord) -> Option<&UrlRecord> {
        self.urls.get(&(delivery.key.tenant.clone(), delivery.url_id.clone()))
    }

    pub(super) fn subscription_of(&self, key: &DeliveryKey) -> Option<&Subscription> {
        self.subscriptions.get(&(key.tenant.clone(), key.subscription_id.clone()))
    }
}
