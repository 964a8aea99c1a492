use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use holdfast_core::ids::{Tenant, UrlId};
use holdfast_core::ports::{
    BodyKey, Count, IndexCount, IndexQuery, Page, Query, Store, StoreError, Versioned, Write, WriteError,
};
use holdfast_core::records::{Key, Record, Unreadable, UrlRecord};
use holdfast_core::rules::health::Outcome;
use holdfast_core::time::Now;
use holdfast_core::time::Timestamp;

use crate::gate::Gate;

/// A method of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreCall {
    Get,
    Query,
    QueryIndex,
    CountIndex,
    Overdue,
    Write,
    PutEach,
    CountOutcomes,
    PutBodies,
    GetBodies,
    KeepBody,
    RemoveBody,
}

/// A store that fails or holds chosen calls, so that a test can act between two steps of a use-case. Calls that are not chosen
/// go straight through.
pub struct ScriptedStore {
    inner: Arc<dyn Store>,
    script: Mutex<Script>,
    gate: Gate,
    listed: AtomicUsize,
}

#[derive(Default)]
struct Script {
    to_fail: Vec<Chosen>,
    to_hold: Vec<Chosen>,
    damaged_bodies: Vec<BodyKey>,
}

struct Chosen {
    call: StoreCall,
    /// How many calls of this method pass before the chosen one.
    skip: usize,
}

/// Counts this call against the list. Returns whether it is a chosen one.
fn take(list: &mut Vec<Chosen>, call: StoreCall) -> bool {
    let mut taken = false;
    list.retain_mut(|chosen| {
        if chosen.call != call {
            return true;
        }
        let is_now = chosen.skip == 0;
        taken |= is_now;
        chosen.skip = chosen.skip.saturating_sub(1);
        !is_now
    });
    taken
}

impl ScriptedStore {
    #[must_use]
    pub fn new(inner: Arc<dyn Store>) -> ScriptedStore {
        ScriptedStore { inner, script: Mutex::default(), gate: Gate::default(), listed: AtomicUsize::new(0) }
    }

    /// The next `call` answers an error and has no effect.
    pub fn fail_next(&self, call: StoreCall) {
        self.fail_after(call, 0);
    }

    /// Like [`Self::fail_next`], after `skip` calls of this method that go through.
    pub fn fail_after(&self, call: StoreCall, skip: usize) {
        self.with(|script| script.to_fail.push(Chosen { call, skip }));
    }

    /// The next `call` has its effect, and its answer is held until [`Self::release`].
    pub fn hold_next(&self, call: StoreCall) {
        self.hold_after(call, 0);
    }

    /// Like [`Self::hold_next`], after `skip` calls of this method that go through.
    pub fn hold_after(&self, call: StoreCall, skip: usize) {
        self.with(|script| script.to_hold.push(Chosen { call, skip }));
    }

    /// From now on, this body cannot be read.
    pub fn damage_body(&self, key: BodyKey) {
        self.with(|script| script.damaged_bodies.push(key));
    }

    /// Lets every answer go that is held now.
    pub fn release(&self) {
        self.gate.open();
    }

    /// How many records the list indexes have answered with.
    #[must_use]
    pub fn listed(&self) -> usize {
        self.listed.load(Ordering::Relaxed)
    }

    fn before(&self, call: StoreCall) -> Result<(), StoreError> {
        if self.with(|script| take(&mut script.to_fail, call)) {
            return Err(StoreError::Failed(Arc::new(std::io::Error::other(format!(
                "{call:?} was told to fail"
            )))));
        }
        Ok(())
    }

    async fn after(&self, call: StoreCall) {
        if self.with(|script| take(&mut script.to_hold, call)) {
            self.gate.wait().await;
        }
    }

    fn with<T>(&self, act: impl FnOnce(&mut Script) -> T) -> T {
        act(&mut self.script.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

macro_rules! scripted {
    ($store:ident, $name:ident, $call:expr) => {{
        $store.before(StoreCall::$name)?;
        let answer = $call.await;
        $store.after(StoreCall::$name).await;
        answer
    }};
}

#[async_trait]
impl Store for ScriptedStore {
    async fn get(&self, keys: &[Key]) -> Result<Vec<Option<Versioned>>, StoreError> {
        scripted!(self, Get, self.inner.get(keys))
    }
    async fn query(&self, query: Query) -> Result<Page, StoreError> {
        scripted!(self, Query, self.inner.query(query))
    }
    async fn query_index(&self, query: IndexQuery) -> Result<Page, StoreError> {
        let page = scripted!(self, QueryIndex, self.inner.query_index(query))?;
        self.listed.fetch_add(page.items.len(), Ordering::Relaxed);
        Ok(page)
    }
    async fn count_index(&self, count: IndexCount) -> Result<Count, StoreError> {
        scripted!(self, CountIndex, self.inner.count_index(count))
    }
    async fn overdue(&self, shard: u8, until: Timestamp, limit: usize) -> Result<Vec<Versioned>, StoreError> {
        scripted!(self, Overdue, self.inner.overdue(shard, until, limit))
    }
    async fn write(&self, writes: Vec<Write>) -> Result<(), WriteError> {
        scripted!(self, Write, self.inner.write(writes))
    }
    async fn put_each(&self, records: Vec<Record>) -> Result<Vec<Record>, StoreError> {
        scripted!(self, PutEach, self.inner.put_each(records))
    }
    async fn count_outcomes(
        &self,
        tenant: &Tenant,
        url: &UrlId,
        outcomes: Vec<Outcome>,
        now: Now,
    ) -> Result<Option<(UrlRecord, UrlRecord)>, StoreError> {
        scripted!(self, CountOutcomes, self.inner.count_outcomes(tenant, url, outcomes, now))
    }
    async fn put_bodies(
        &self,
        bodies: Vec<(BodyKey, Bytes)>,
        remove_at: Timestamp,
    ) -> Result<(), StoreError> {
        scripted!(self, PutBodies, self.inner.put_bodies(bodies, remove_at))
    }
    async fn get_bodies(&self, keys: &[BodyKey]) -> Result<Vec<Option<Bytes>>, StoreError> {
        if let Some(bad) = keys.iter().find(|key| self.with(|script| script.damaged_bodies.contains(key))) {
            let key = Key::new("bodies".to_owned(), bad.event_key.as_str());
            return Err(StoreError::Unreadable { key, source: Unreadable::Corrupt("damaged".to_owned()) });
        }
        scripted!(self, GetBodies, self.inner.get_bodies(keys))
    }
    async fn keep_body(&self, key: &BodyKey, remove_at: Timestamp) -> Result<bool, StoreError> {
        scripted!(self, KeepBody, self.inner.keep_body(key, remove_at))
    }
    async fn remove_body(&self, key: &BodyKey) -> Result<(), StoreError> {
        scripted!(self, RemoveBody, self.inner.remove_body(key))
    }
}
