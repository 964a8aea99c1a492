use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::http::StatusCode;
use holdfast_api::Problem;
use holdfast_core::ports::Clock;

use super::name::Name;
use super::receiver::{Receiver, View};
use super::record::Arrived;
use super::reply::Reply;
use super::setting::Setting;

/// Receivers with a status as their name are limited in number anyway.
const MAX_SWITCHABLE: usize = 1_000;

pub(crate) struct Receivers {
    clock: Arc<dyn Clock>,
    kinds: Mutex<Kinds>,
}

#[derive(Default)]
struct Kinds {
    fixed: BTreeMap<String, Receiver>,
    switchable: BTreeMap<String, Receiver>,
}

impl Receivers {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Receivers {
        Receivers { clock, kinds: Mutex::default() }
    }

    pub(super) fn receive(&self, name: &Name, arrived: Arrived) -> Result<(Reply, Option<u32>), Problem> {
        let now = self.clock.both();
        Ok(self.lock().find_or_create(name)?.receive(arrived, now))
    }

    pub(super) fn switch(&self, name: &Name, setting: Setting) -> Result<View, Problem> {
        if let Some(reply) = name.fixed {
            let detail = format!(
                "the receiver '{}' always responds {reply}; switch one with another name, such as 'orders'",
                name.text
            );
            return Err(Problem::new(StatusCode::CONFLICT, detail));
        }
        let mut kinds = self.lock();
        let receiver = kinds.find_or_create(name)?;
        receiver.setting = setting;
        Ok(receiver.counts(&name.text))
    }

    /// Does not create a receiver: one that was never used is shown like one that received nothing.
    pub(super) fn show(&self, name: &Name, limit: usize) -> View {
        let mut kinds = self.lock();
        kinds.of(name).get(&name.text).unwrap_or(&create(name)).newest(&name.text, limit)
    }

    /// A switched receiver keeps its setting. Any other receiver is removed, because it is the same as a new one.
    pub(super) fn forget(&self, name: &Name) {
        let mut kinds = self.lock();
        let by_name = kinds.of(name);
        let Some(old) = by_name.remove(&name.text) else { return };
        if name.fixed.is_none() && old.setting != Setting::default() {
            by_name.insert(name.text.clone(), Receiver::new(old.setting));
        }
    }

    pub(super) fn list(&self) -> Vec<View> {
        let kinds = self.lock();
        kinds.fixed.iter().chain(&kinds.switchable).map(|(name, receiver)| receiver.counts(name)).collect()
    }

    /// No change can panic halfway, so the data behind a poisoned lock is consistent.
    fn lock(&self) -> MutexGuard<'_, Kinds> {
        self.kinds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kinds {
    fn of(&mut self, name: &Name) -> &mut BTreeMap<String, Receiver> {
        if name.fixed.is_some() { &mut self.fixed } else { &mut self.switchable }
    }

    fn find_or_create(&mut self, name: &Name) -> Result<&mut Receiver, Problem> {
        let full = self.switchable.len() >= MAX_SWITCHABLE;
        let by_name = self.of(name);
        if full && name.fixed.is_none() && !by_name.contains_key(&name.text) {
            let detail =
                format!("there are {MAX_SWITCHABLE} receivers already; delete some that are not switched");
            return Err(Problem::new(StatusCode::INSUFFICIENT_STORAGE, detail));
        }
        Ok(by_name.entry(name.text.clone()).or_insert_with(|| create(name)))
    }
}

fn create(name: &Name) -> Receiver {
    Receiver::new(name.fixed.map_or_else(Setting::default, Setting::always))
}
