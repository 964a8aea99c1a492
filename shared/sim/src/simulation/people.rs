//! Producers, who post an event again until it is accepted, and people, who do what they like.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use holdfast_core::engine::{AcceptError, NewEvent, NewSubscription, ReplayUrlError, SubscriptionPatch};
use holdfast_core::ids::{Tenant, UrlId};
use holdfast_core::ports::Versioned;
use holdfast_core::records::{Record, ReplayRecord, ReplayState, Subscription, UrlReplay};
use holdfast_core::rules::delivery::DeliveryState;
use holdfast_core::rules::health::OperatorAction;

use super::World;
use super::hosts::{Function, Process};
use super::plan::{FRESH, HEALTHY, NOISE, NOISY_TENANT, QUIET_TENANT};
use crate::block_on;
use crate::me;

/// A producer that has no answer asks again after a moment.
const AGAIN: Duration = Duration::from_secs(2);
const DAY: usize = 43_200;
const A_MOMENT: Duration = Duration::from_secs(6);
const FRESH_EVENTS: usize = 8;
/// Five steps, of 1, 2, 4, 8 and 9, are 25 s.
const QUICKLY: Duration = Duration::from_secs(120);

impl World {
    /// Posts events until they are accepted.
    pub(super) async fn post(self: &Arc<World>, tenant: &Tenant, events: Vec<NewEvent>) {
        // Longer than any trouble: a producer that gives up has been promised nothing.
        for _ in 0..DAY {
            let accepting = async |process: &Process| process.engine.accept(tenant, events.clone()).await;
            match self.hosts.run(Function::Ingest, accepting).await {
                Some(Ok(accepted)) => {
                    for (event, accepted) in events.iter().zip(accepted) {
                        let id = event.id.clone().unwrap_or_default();
                        self.tell(|| format!("{tenant} has posted {id}: {} deliveries", accepted.deliveries));
                        self.accepted(tenant, id, accepted.deliveries);
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
    pub(super) async fn subscribe(&self, tenant: &Tenant, url: &str, event_type: &'static str) {
        for _ in 0..DAY {
            let new = NewSubscription::to(url, event_type);
            let subscribed = self
                .hosts
                .run(Function::Admin, async |process| {
                    process.engine.subscribe(tenant, new, me()).await.is_ok()
                })
                .await;
            if subscribed == Some(true) || self.is_subscribed(tenant, url, event_type) {
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

    fn subscriptions(&self) -> Vec<Subscription> {
        self.snapshot().subscriptions.into_values().collect()
    }

    /// Without those of receivers that are for when nothing goes wrong.
    fn subscriptions_in_trouble(&self) -> Vec<Subscription> {
        let mut subscriptions = self.subscriptions();
        subscriptions.retain(|one| ![QUIET_TENANT, NOISY_TENANT].contains(&one.tenant.as_str()));
        subscriptions
    }

    /// Freezes a URL, and enables it again when that is done.
    pub(super) async fn freeze_for_a_moment(&self, tenant: &Tenant, url: &str) {
        let url_id = UrlId::of(url);
        for action in [OperatorAction::Freeze, OperatorAction::Enable] {
            let change = async |process: &Process| {
                process.engine.change_url_state(tenant, &url_id, action, None, false, me()).await.is_ok()
            };
            let done = self.hosts.run(Function::Admin, change).await;
            self.tell(|| format!("a person: {action:?} {url}: {done:?}"));
            self.hosts.faults.time.sleep(A_MOMENT).await;
        }
    }

    /// Posts events for the receiver that always succeeds, beside others that keep the functions busy.
    pub(super) async fn post_fresh(self: Arc<World>, number: usize, noise: usize) {
        let event = |event_type, id| NewEvent { id: Some(id), ..NewEvent::new(event_type, "1") };
        let noisy = (0..noise).map(|n| event(NOISE, format!("noise-{number}-{n}")));
        if noise > 0 {
            self.post(&Tenant::from(NOISY_TENANT), noisy.collect()).await;
        }
        let tenant = Tenant::from(QUIET_TENANT);
        let ids: Vec<String> = (0..FRESH_EVENTS).map(|n| format!("fresh-{number}-{n}")).collect();
        self.post(&tenant, ids.iter().map(|id| event(FRESH, id.clone())).collect()).await;
        let now = self.hosts.now();
        let mut fresh = self.fresh.lock().unwrap_or_else(PoisonError::into_inner);
        fresh.extend(ids.into_iter().map(|id| ((tenant.clone(), id), now)));
    }

    /// Replays everything at the receiver that always succeeds, when nothing goes wrong: that takes less than a minute.
    pub(super) async fn replay_quickly(self: Arc<World>) {
        let tenant = Tenant::from(QUIET_TENANT);
        let url_id = UrlId::of(HEALTHY);
        let states = vec![DeliveryState::Delivered];
        let wanted = UrlReplay { url_id, since: None, until: None, states, expired_since: None };
        let replay = async |process: &Process| process.engine.replay_url(&tenant, wanted, me()).await;
        let Some(Ok(shown)) = self.hosts.run(Function::Admin, replay).await else {
            return self.hosts.observer.report("what is kept can be replayed", "a URL cannot".to_owned());
        };
        self.hosts.faults.time.sleep(QUICKLY).await;
        let key = ReplayRecord::key(&tenant, &shown.id);
        let now = block_on(self.hosts.backend.store().get(&[key]));
        let is_running = |found: &Versioned| match &found.record {
            Record::Replay(replay) => replay.state == ReplayState::Running,
            _ => false,
        };
        if now.is_ok_and(|now| now.iter().flatten().any(is_running)) {
            let what = format!("{} deliveries take more than {QUICKLY:?}", shown.matched);
            self.hosts.observer.report("a bulk replay keeps its pace", what);
        }
    }

    /// Replays every delivery that the receiver which always succeeds has got and that is still kept.
    pub(super) async fn replay_all_kept(self: Arc<World>) {
        let tenant = Tenant::from(QUIET_TENANT);
        let snapshot = self.snapshot();
        let known: BTreeSet<_> = snapshot.deliveries.iter().map(|delivery| &delivery.key).collect();
        let logged = snapshot.logged.iter().map(|logged| &logged.delivery.key);
        let at_once = logged.filter(|key| !known.contains(key));
        for key in known.iter().copied().chain(at_once).filter(|key| key.tenant == tenant) {
            let replay = async |process: &Process| process.engine.replay(key, me()).await;
            let replayed = self.hosts.run(Function::Admin, replay).await;
            self.hosts.faults.counts.add("a delivery is replayed after days");
            if let Some(Err(error)) = replayed {
                let what = format!("{} cannot: {error}", key.id());
                self.hosts.observer.report("what is kept can be replayed", what);
            }
        }
    }

    /// A person does one thing, perhaps without success.
    pub(super) async fn act(self: Arc<World>) {
        let dice = &self.hosts.faults.dice;
        let subscriptions = self.subscriptions_in_trouble();
        let Some(subscription) = dice.pick(&subscriptions).cloned() else { return };
        let Subscription { tenant, url_id, id, .. } = &subscription;
        let change = |patch| {
            let hosts = &self.hosts;
            async move {
                let update = async |process: &Process| {
                    process.engine.update_subscription(tenant, id, patch, me()).await.is_ok()
                };
                hosts.run(Function::Admin, update).await
            }
        };
        let state = |action| {
            let hosts = &self.hosts;
            async move {
                let change = async |process: &Process| {
                    process.engine.change_url_state(tenant, url_id, action, None, false, me()).await.is_ok()
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
                let delete = async |process: &Process| {
                    process.engine.delete_subscription(tenant, id, me()).await.is_ok()
                };
                ("a person: delete", self.hosts.run(Function::Admin, delete).await)
            }
            7 => {
                let wanted = everything_finished(url_id);
                let replay = async |process: &Process| {
                    is_replayed(&process.engine.replay_url(tenant, wanted, me()).await)
                };
                ("a person: replay a URL", self.hosts.run(Function::Admin, replay).await)
            }
            _ => {
                let mut deliveries = self.snapshot().deliveries;
                deliveries.retain(|delivery| delivery.key.tenant == *tenant);
                let Some(delivery) = dice.pick(&deliveries) else { return };
                let replay =
                    async |process: &Process| process.engine.replay(&delivery.key, me()).await.is_ok();
                ("a person: replay", self.hosts.run(Function::Admin, replay).await)
            }
        };
        self.tell(|| format!("{what} {id} {}: {done:?}", subscription.url));
        if done == Some(true) {
            self.hosts.faults.counts.add(what);
        }
    }
}

fn everything_finished(url_id: &UrlId) -> UrlReplay {
    let states = vec![DeliveryState::Dead, DeliveryState::Delivered];
    UrlReplay { url_id: url_id.clone(), since: None, until: None, states, expired_since: None }
}

/// Now, or by a replay that is running.
fn is_replayed(replayed: &Result<ReplayRecord, ReplayUrlError>) -> bool {
    matches!(replayed, Ok(_) | Err(ReplayUrlError::Running(_)))
}
