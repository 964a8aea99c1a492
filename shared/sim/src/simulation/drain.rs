//! How long it takes to release what is parked at one URL, when nothing goes wrong.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use holdfast_core::ids::{DeliveryKey, EventKey, SubscriptionId, Tenant, UrlId};
use holdfast_core::ports::{BodyKey, Clock, Expect, Write};
use holdfast_core::records::{DeliveryRecord, NewDelivery, ParkedPointer};
use holdfast_core::rules::health::OperatorAction;
use holdfast_core::time::Timestamp;

use super::hosts::{Function, Process};
use super::plan::Plan;
use super::receivers::Behaviour;
use super::story::Story;
use super::{InMemory, Simulation, World};
use crate::me;
use crate::{Memory, block_on};

const URL: &str = "http://recovered.test/";
const EVENT_TYPE: &str = "order.created";
/// The receiver takes this long for each.
const ANSWERS_AFTER: Duration = Duration::from_millis(50);
/// What one machine has for retries, in batches.
const CONCURRENCY: usize = 64;
/// Long enough for any number of deliveries that fits into memory.
const MAX_TIME: Duration = Duration::from_secs(24 * 3_600);

/// Parks this many deliveries at a frozen URL whose receiver answers in 50 ms, enables it, and returns how long it takes, in schedule time,
/// until the receiver has got them all.
///
/// # Panics
/// If that takes more than a day.
#[must_use]
pub fn drain(parked: usize, ceiling: u32) -> Duration {
    let behaviour = vec![(Timestamp::ZERO, Behaviour::AnswersAfter(ANSWERS_AFTER))];
    let plan = Plan::quiet(BTreeMap::from([(URL.to_owned(), behaviour)]));
    let mut simulation = Simulation::with_plan(
        0,
        plan,
        Story::default(),
        |clock| Arc::new(InMemory::new(clock)),
        |settings| {
            settings.release_ceiling = ceiling;
        },
    );
    simulation.concurrency = CONCURRENCY;
    simulation.max_polls = u64::MAX;
    let tenant = Tenant::from("tenant-0");
    let world = Arc::clone(&simulation.world);
    let subscribed = Arc::clone(&world);
    simulation.executor.spawn(async move { subscribed.subscribe(&tenant, URL, EVENT_TYPE).await });
    simulation.run(Memory::START + Duration::from_secs(1));
    simulation.change_state(OperatorAction::Freeze);
    world.park(parked);
    let began_at = simulation.time.now();
    simulation.change_state(OperatorAction::Enable);
    while world.hosts.receivers.requests().len() < parked {
        let now = simulation.time.now();
        assert!(now.since(began_at) < MAX_TIME, "a release ends");
        simulation.run(now + Duration::from_secs(5));
    }
    let requests = world.hosts.receivers.requests();
    requests.last().map_or(Duration::ZERO, |last| last.at.since(began_at))
}

impl Simulation {
    fn run(&mut self, until: Timestamp) {
        let kept = self.run_until(until);
        assert_eq!(kept, Ok(()), "a promise is broken");
    }

    fn change_state(&mut self, action: OperatorAction) {
        let (world, done) = (Arc::clone(&self.world), Arc::new(Mutex::new(false)));
        let is_done = Arc::clone(&done);
        self.executor.spawn(async move {
            let (tenant, url_id) = (Tenant::from("tenant-0"), UrlId::of(URL));
            let change = async |process: &Process| {
                process.engine.change_url_state(&tenant, &url_id, action, None, false, me()).await.is_ok()
            };
            let changed = world.hosts.run(Function::Admin, change).await;
            assert_eq!(changed, Some(true), "{action:?} does not succeed");
            *is_done.lock().expect("no task panics") = true;
        });
        while !*done.lock().expect("no task panics") {
            let soon = self.time.now() + Duration::from_millis(50);
            self.run(soon);
        }
    }
}

impl World {
    fn park(&self, count: usize) {
        let subscription = self.snapshot().subscriptions.into_values().next().expect("there is one");
        for number in 0..count {
            let accepted_at = Memory::START + Duration::from_millis(number as u64 / 1_000);
            let event_key = EventKey::of(&format!("event-{number}"), accepted_at);
            let subscription_id: SubscriptionId = subscription.id.clone();
            let key = DeliveryKey { tenant: subscription.tenant.clone(), event_key, subscription_id };
            let body = (BodyKey::of(&key), Bytes::from_static(b"{}"));
            let new = NewDelivery {
                key,
                event_id: format!("event-{number}"),
                event_type: EVENT_TYPE.to_owned(),
                accepted_at,
                url_id: subscription.url_id.clone(),
                url: subscription.url.clone(),
                trace: None,
            };
            let mut delivery = DeliveryRecord::new(new, &self.hosts.settings.schedule);
            delivery.progress.park();
            let pointer = ParkedPointer::of(&delivery);
            let store = self.hosts.backend.store();
            block_on(store.put_bodies(vec![body], Timestamp::MAX)).expect("memory takes it");
            let writes = vec![Write::put(delivery, Expect::Absent), Write::put(pointer, Expect::Absent)];
            block_on(store.write(writes)).expect("memory takes it");
        }
    }
}
