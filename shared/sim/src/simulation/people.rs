//! Producers, who post an event again until it is accepted, and people, who do what they like.

use std::sync::Arc;
use std::time::Duration;

use holdfast_core::engine::{AcceptError, NewEvent, NewSubscription, SubscriptionPatch};
use holdfast_core::ids::Tenant;
use holdfast_core::records::{DeliveryRecord, Record, Subscription, UrlReplay};
use holdfast_core::rules::delivery::DeliveryState;
use holdfast_core::rules::health::OperatorAction;

use super::World;
use super::hosts::{Function, Process};

/// A producer that has no answer asks again after a moment.
const AGAIN: Duration = Duration::from_secs(2);
const DAY: usize = 43_200;

impl World {
    /// Posts events until they are accepted.
    pub(super) async fn post(self: Arc<World>, tenant: Tenant, events: Vec<NewEvent>) {
        // Longer than any trouble: a producer that gives up has been promised nothing.
        for _ in 0..DAY {
            let accepting = async |process: &Process| process.engine.accept(&tenant, events.clone()).await;
            match self.hosts.run(Function::Ingest, accepting).await {
                Some(Ok(accepted)) => {
                    for (event, accepted) in events.iter().zip(accepted) {
                        let id = event.id.clone().unwrap_or_default();
                        self.tell(|| format!("{tenant} has posted {id}: {} deliveries", accepted.deliveries));
                        self.accepted(&tenant, id, accepted.deliveries);
                    }
                    return;
                }
                Some(Err(AcceptError::Busy { .. })) => self.hosts.faults.counts.add("an id is busy"),
                Some(Err(_)) | None => self.hosts.faults.counts.add("a producer asks again"),
            }
            self.hosts.faults.time.sleep(AGAIN).await;
        }
    }

    /// Subscribes, and asks again until it is there.
    pub(super) async fn subscribe(self: Arc<World>, tenant: Tenant, url: String, event_type: &'static str) {
        for _ in 0..DAY {
            let new = NewSubscription::to(&url, event_type);
            let subscribed = self
                .hosts
                .run(Function::Admin, async |process| process.engine.subscribe(&tenant, new).await.is_ok())
                .await;
            if subscribed == Some(true) || self.is_subscribed(&tenant, &url, event_type) {
                return;
            }
            self.hosts.faults.time.sleep(AGAIN).await;
        }
    }

    fn is_subscribed(&self, tenant: &Tenant, url: &str, event_type: &str) -> bool {
        self.subscriptions().iter().any(|subscription| {
            subscription.tenant == *tenant
                && subscription.url == url
                && subscription.event_types.iter().any(|wanted| *wanted == event_type)
        })
    }

    pub(super) fn subscriptions(&self) -> Vec<Subscription> {
        let all = self.hosts.store.all().into_iter();
        all.filter_map(|record| match record {
            Record::Subscription(subscription) => Some(subscription),
            _ => None,
        })
        .collect()
    }

    pub(super) fn deliveries(&self) -> Vec<DeliveryRecord> {
        let all = self.hosts.store.all().into_iter();
        all.filter_map(|record| match record {
            Record::Delivery(delivery) => Some(delivery),
            _ => None,
        })
        .collect()
    }

    /// A person does one thing, perhaps without success.
    pub(super) async fn act(self: Arc<World>) {
        let dice = &self.hosts.faults.dice;
        let subscriptions = self.subscriptions();
        let Some(subscription) = dice.pick(&subscriptions).cloned() else { return };
        let Subscription { tenant, url_id, id, .. } = &subscription;
        let change = |patch| {
            let hosts = &self.hosts;
            async move {
                let update = async |process: &Process| {
                    process.engine.update_subscription(tenant, id, patch).await.is_ok()
                };
                hosts.run(Function::Admin, update).await
            }
        };
        let state = |action| {
            let hosts = &self.hosts;
            async move {
                let change = async |process: &Process| {
                    process.engine.change_url_state(tenant, url_id, action, None, false, "me").await.is_ok()
                };
                hosts.run(Function::Admin, change).await
            }
        };
        let (what, done) = match dice.below(9) {
            0 => ("a person: enable", state(OperatorAction::Enable).await),
            1 => ("a person: disable", state(OperatorAction::Disable).await),
            2 => ("a person: freeze", state(OperatorAction::Freeze).await),
            3 => (
                "a person: deactivate",
                change(SubscriptionPatch { active: Some(false), ..Default::default() }).await,
            ),
            4 => (
                "a person: activate",
                change(SubscriptionPatch { active: Some(true), ..Default::default() }).await,
            ),
            5 => {
                let url = dice.pick(&subscriptions).map(|other| other.url.clone());
                ("a person: move", change(SubscriptionPatch { url, ..Default::default() }).await)
            }
            6 => {
                let delete =
                    async |process: &Process| process.engine.delete_subscription(tenant, id).await.is_ok();
                ("a person: delete", self.hosts.run(Function::Admin, delete).await)
            }
            7 => {
                let states = vec![DeliveryState::Dead, DeliveryState::Delivered];
                let wanted = UrlReplay {
                    url_id: url_id.clone(),
                    since: None,
                    until: None,
                    states,
                    expired_since: None,
                };
                let replay =
                    async |process: &Process| process.engine.replay_url(tenant, wanted).await.is_ok();
                ("a person: replay a URL", self.hosts.run(Function::Admin, replay).await)
            }
            _ => {
                let deliveries = self.deliveries();
                let Some(delivery) = dice.pick(&deliveries) else { return };
                let replay = async |process: &Process| process.engine.replay(&delivery.key).await.is_ok();
                ("a person: replay", self.hosts.run(Function::Admin, replay).await)
            }
        };
        self.tell(|| format!("{what} {id} {}: {done:?}", subscription.url));
        if done == Some(true) {
            self.hosts.faults.counts.add(what);
        }
    }
}
