//! Everything that the plan has in store, as tasks that begin at their time.

use std::sync::Arc;
use std::time::Duration;

use holdfast_core::engine::NewEvent;
use holdfast_core::ids::Tenant;
use holdfast_core::time::Timestamp;

use super::faults::Service;
use super::plan::{FLOOD, FLOODED, FRESH, HANGING, HEALTHY, HOUR, NOISE, NOISY_TENANT, QUIET_TENANT, WIDE};
use super::{Simulation, World};
use crate::Memory;

/// So that most subscriptions are there.
const BEFORE_POSTS: Duration = Duration::from_secs(60);

fn events(event_type: &str, prefix: &str, count: usize) -> Vec<NewEvent> {
    let event = |n| NewEvent { id: Some(format!("{prefix}-{n}")), ..NewEvent::new(event_type, "1") };
    (0..count).map(event).collect()
}

impl Simulation {
    pub(super) fn begin(&mut self) {
        self.begin_subscriptions();
        self.begin_posts();
        self.begin_trouble();
        self.begin_flood();
        self.begin_calm_work();
    }

    fn at(&mut self, at: Timestamp, task: impl AsyncFnOnce(Arc<World>) + 'static) {
        let (world, time) = (Arc::clone(&self.world), Arc::clone(&self.time));
        self.executor.spawn(async move {
            time.sleep(at.since(Memory::START)).await;
            task(world).await;
        });
    }

    fn tenant(&self, number: usize) -> Tenant {
        Tenant(self.plan.tenants[number].clone())
    }

    fn begin_subscriptions(&mut self) {
        for (number, url, event_type) in self.plan.subscriptions.clone() {
            let tenant = self.tenant(number);
            self.at(Memory::START, async move |world| world.subscribe(&tenant, &url, event_type).await);
        }
        for (tenant, url, event_type) in [(QUIET_TENANT, HEALTHY, FRESH), (NOISY_TENANT, HANGING, NOISE)] {
            self.at(Memory::START, async move |world| {
                world.subscribe(&Tenant::from(tenant), url, event_type).await;
            });
        }
        for (number, url, preload) in self.plan.preloaded.clone() {
            let tenant = self.tenant(number);
            let at = Memory::START + Duration::from_secs(45);
            self.at(at, async move |world| world.preload(&tenant, &url, preload));
        }
    }

    fn begin_posts(&mut self) {
        for (n, (at, number, event_type, count)) in self.plan.posts.clone().into_iter().enumerate() {
            let (tenant, events) = (self.tenant(number), events(event_type, &format!("event-{n}"), count));
            self.at(at + BEFORE_POSTS, async move |world| world.post(&tenant, events).await);
        }
        let Some(wide) = &self.plan.wide else { return };
        let (tenant, count, posts) = (self.tenant(0), wide.subscriptions, wide.posts.clone());
        self.at(Memory::START, {
            let tenant = tenant.clone();
            async move |world| {
                for n in 0..count {
                    world.subscribe(&tenant, &format!("http://wide-{n}.test/"), WIDE).await;
                }
            }
        });
        for (n, at) in posts.into_iter().enumerate() {
            let (tenant, events) = (tenant.clone(), events(WIDE, &format!("wide-{n}"), 1));
            self.at(at, async move |world| world.post(&tenant, events).await);
        }
    }

    fn begin_trouble(&mut self) {
        for at in self.plan.actions.clone() {
            self.at(at, async |world| world.act().await);
        }
        for at in self.plan.ages_at.clone() {
            self.at(at, async |world| world.age_deliveries());
        }
        if let Some((at, number, url)) = self.plan.lost_record.clone() {
            let tenant = self.tenant(number);
            self.at(at, async move |world| world.lose_record(&tenant, &url));
        }
        for (at, is_store, lasts) in self.plan.outages.clone() {
            let service = if is_store { Service::Store } else { Service::Queue };
            self.at(at, async move |world| {
                world.tell(|| format!("{service:?} is down for {lasts:?}"));
                world.hosts.faults.take_down(service, lasts);
            });
        }
    }

    fn begin_flood(&mut self) {
        let Some(flood) = &self.plan.flood else { return };
        let (from, posts, count) = (flood.from, flood.posts, flood.events_in_post);
        for at in flood.freezes.clone() {
            let tenant = self.tenant(0);
            self.at(at, async move |world| world.freeze_for_a_moment(&tenant, FLOODED).await);
        }
        let tenant = self.tenant(0);
        self.at(from, async move |world| {
            world.subscribe(&tenant, FLOODED, FLOOD).await;
            for n in 0..posts {
                world.post(&tenant, events(FLOOD, &format!("flood-{n}"), count)).await;
            }
        });
    }

    /// What is done when nothing goes wrong any more.
    fn begin_calm_work(&mut self) {
        let noise = self.plan.noise;
        for (number, at) in self.plan.fresh.clone().into_iter().enumerate() {
            self.at(at, async move |world| world.post_fresh(number, noise).await);
        }
        let after_posts = self.world.calm_since + HOUR * 6;
        self.at(after_posts, async |world| world.replay_quickly().await);
    }
}
