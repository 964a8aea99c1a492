//! What the API shows when everything is at rest.

use std::collections::{BTreeMap, HashMap};

use anyhow::{Result, ensure};
use serde_json::Value;

use super::cast::TENANTS;
use super::world::World;
use crate::scene::Scene;
use crate::views::{items, number, text};

/// A list shows no more attempts of a delivery than this.
const MAX_ATTEMPTS_LISTED: usize = 24;
/// Nor does a delivery that is asked for alone show more than this.
const MAX_ATTEMPTS_SHOWN: usize = 100;

#[derive(Clone, Debug)]
pub(super) struct Delivery {
    pub(super) tenant: usize,
    pub(super) event_id: String,
    pub(super) subscription_id: String,
    pub(super) state: String,
    pub(super) reason: Option<String>,
    pub(super) epoch: u64,
    pub(super) attempts: Vec<Attempt>,
    /// Whether there may be older attempts.
    pub(super) has_more_attempts: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Attempt {
    pub(super) epoch: u64,
    pub(super) n: u64,
    pub(super) outcome: String,
    /// It failed because no answer came in time: its receiver may have answered all the same.
    pub(super) has_timed_out: bool,
}

impl Delivery {
    fn of(tenant: usize, value: &Value) -> Result<Delivery> {
        let attempts = value["attempts"].as_array().into_iter().flatten().map(Attempt::of);
        Ok(Delivery {
            tenant,
            event_id: text(value, "event_id")?.to_owned(),
            subscription_id: text(value, "subscription_id")?.to_owned(),
            state: text(value, "state")?.to_owned(),
            reason: value["reason"].as_str().map(str::to_owned),
            epoch: number(value, "epoch")?,
            attempts: attempts.collect::<Result<_>>()?,
            has_more_attempts: false,
        })
    }

    /// How many attempts had this outcome.
    pub(super) fn count(&self, outcome: &str) -> usize {
        self.attempts.iter().filter(|attempt| attempt.outcome == outcome).count()
    }
}

impl Attempt {
    fn of(value: &Value) -> Result<Attempt> {
        Ok(Attempt {
            epoch: number(value, "epoch")?,
            n: number(value, "n")?,
            outcome: text(value, "outcome")?.to_owned(),
            has_timed_out: value["error"].as_str().is_some_and(|error| error.starts_with("timeout")),
        })
    }
}

pub(super) struct Shown {
    /// By their ids.
    pub(super) deliveries: HashMap<String, Delivery>,
    /// For each tenant and state, the ids in the list of that state.
    pub(super) by_state: BTreeMap<(usize, &'static str), Vec<String>>,
    pub(super) overviews: Vec<Value>,
    /// For each tenant.
    pub(super) urls: Vec<Vec<Value>>,
}

pub(super) const STATES: [&str; 4] = ["waiting", "parked", "delivered", "dead"];

pub(super) async fn read(world: &World) -> Result<Shown> {
    let mut shown = Shown {
        deliveries: HashMap::new(),
        by_state: BTreeMap::new(),
        overviews: Vec::new(),
        urls: Vec::new(),
    };
    for tenant in 0..TENANTS {
        let host = world.host(tenant);
        let scene = Scene::new(&host, "soak");
        for value in scene.list("/v1/deliveries", "", 100).await? {
            let id = text(&value, "id")?.to_owned();
            let mut delivery = Delivery::of(tenant, &value)?;
            if delivery.attempts.len() >= MAX_ATTEMPTS_LISTED {
                let alone = host.get(&format!("/v1/deliveries/{id}")).await?.expect(200)?;
                delivery = Delivery::of(tenant, &alone)?;
                delivery.has_more_attempts = delivery.attempts.len() >= MAX_ATTEMPTS_SHOWN;
            }
            let is_new = shown.deliveries.insert(id.clone(), delivery).is_none();
            ensure!(is_new, "{id} is listed twice");
        }
        for state in STATES {
            let listed = scene.list("/v1/deliveries", &format!("&state={state}"), 100).await?;
            let ids = listed.iter().map(|delivery| Ok(text(delivery, "id")?.to_owned()));
            shown.by_state.insert((tenant, state), ids.collect::<Result<_>>()?);
        }
        shown.overviews.push(host.get("/v1/overview").await?.expect(200)?);
        shown.urls.push(scene.list("/v1/urls", "", 100).await?);
    }
    sample_events(world, &shown).await?;
    Ok(shown)
}

/// Whether each event shows the deliveries that the list has: of one event in a hundred, because there are many.
async fn sample_events(world: &World, shown: &Shown) -> Result<()> {
    let mut by_event: BTreeMap<(usize, &str), usize> = BTreeMap::new();
    for delivery in shown.deliveries.values() {
        *by_event.entry((delivery.tenant, &delivery.event_id)).or_default() += 1;
    }
    for ((tenant, event_id), count) in by_event.into_iter().step_by(100) {
        let path = format!("/v1/deliveries?event={event_id}&limit=100");
        let listed = items(&world.host(tenant).get(&path).await?.expect(200)?)?.len();
        if listed != count.min(100) {
            world.fault(format!("event {event_id} has {listed} deliveries, and {count} in the list of all"));
        }
    }
    Ok(())
}
