//! The scenarios, one per file.

mod activity;
mod announced;
mod audit;
mod auth;
mod bad_input;
mod bulk;
mod deliver;
mod disable;
mod fan_out;
mod freeze;
mod idempotent;
mod large;
mod lists;
mod moving;
mod neighbour;
mod quotas;
mod replaying;
mod retry_after;
mod retry_schedule;
mod slow_neighbour;
mod traced;
mod unsubscribe;

use std::pin::Pin;

use anyhow::Result;

use crate::scene::Scene;

type Running<'a> = Pin<Box<dyn Future<Output = Result<()>> + 'a>>;

pub struct Scenario {
    pub name: &'static str,
    pub run: for<'a> fn(Scene<'a>) -> Running<'a>,
}

macro_rules! scenarios {
    ($($name:ident),* $(,)?) => {
        vec![$(Scenario { name: stringify!($name), run: |scene| Box::pin($name::run(scene)) }),*]
    };
}

/// The longest one is first, so that the others run beside it.
#[must_use]
pub fn all() -> Vec<Scenario> {
    scenarios![
        retry_schedule,
        deliver,
        disable,
        freeze,
        idempotent,
        bulk,
        replaying,
        lists,
        bad_input,
        auth,
        slow_neighbour,
        retry_after,
        traced,
        unsubscribe,
        moving,
        large,
        fan_out,
        activity,
        audit,
        announced,
        quotas,
    ]
}
