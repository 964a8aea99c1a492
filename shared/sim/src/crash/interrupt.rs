//! Ports that can be interrupted before and after every effect.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use async_trait::async_trait;
use bytes::Bytes;
use holdfast_core::ids::{Tenant, UrlId};
use holdfast_core::ports::{
    AttemptRequest, AttemptResult, BodyKey, Count, IndexCount, IndexQuery, Outgoing, Page, Query, Queue,
    QueueName, SendError, Sender, Store, StoreError, Versioned, Write, WriteError,
};
use holdfast_core::records::{Key, Record, UrlRecord};
use holdfast_core::rules::health::Outcome;
use holdfast_core::rules::shortage::Shortage;
use holdfast_core::time::Now;
use holdfast_core::time::Timestamp;

/// Not ready the first time: a place where a use-case can be dropped.
#[derive(Default)]
struct Pause(bool);

impl Future for Pause {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Polls a future at most this often, and then drops it where it stands. `polls` counts down.
pub(super) fn drive<F: Future>(future: F, polls: &mut usize) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    while *polls > 0 {
        *polls -= 1;
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return Some(output);
        }
    }
    None
}

/// A port whose every call pauses before and after its effect.
pub struct Interruptible<P: ?Sized>(pub Arc<P>);

macro_rules! paused {
    ($call:expr) => {{
        Pause::default().await;
        let answer = $call.await;
        Pause::default().await;
        answer
    }};
}

#[async_trait]
impl Store for Interruptible<dyn Store> {
    async fn get(&self, keys: &[Key]) -> Result<Vec<Option<Versioned>>, StoreError> {
        paused!(self.0.get(keys))
    }
    async fn query(&self, query: Query) -> Result<Page, StoreError> {
        paused!(self.0.query(query))
    }
    async fn query_index(&self, query: IndexQuery) -> Result<Page, StoreError> {
        paused!(self.0.query_index(query))
    }
    async fn count_index(&self, count: IndexCount) -> Result<Count, StoreError> {
        paused!(self.0.count_index(count))
    }
    async fn overdue(&self, shard: u8, until: Timestamp, limit: usize) -> Result<Vec<Versioned>, StoreError> {
        paused!(self.0.overdue(shard, until, limit))
    }
    async fn write(&self, writes: Vec<Write>) -> Result<(), WriteError> {
        paused!(self.0.write(writes))
    }
    async fn put_each(&self, records: Vec<Record>) -> Result<Vec<Record>, StoreError> {
        paused!(self.0.put_each(records))
    }
    async fn count_outcomes(
        &self,
        tenant: &Tenant,
        url: &UrlId,
        outcomes: Vec<Outcome>,
        now: Now,
    ) -> Result<Option<(UrlRecord, UrlRecord)>, StoreError> {
        paused!(self.0.count_outcomes(tenant, url, outcomes, now))
    }
    async fn put_bodies(
        &self,
        bodies: Vec<(BodyKey, Bytes)>,
        remove_at: Timestamp,
    ) -> Result<(), StoreError> {
        paused!(self.0.put_bodies(bodies, remove_at))
    }
    async fn get_bodies(&self, keys: &[BodyKey]) -> Result<Vec<Option<Bytes>>, StoreError> {
        paused!(self.0.get_bodies(keys))
    }
    async fn keep_body(&self, key: &BodyKey, remove_at: Timestamp) -> Result<bool, StoreError> {
        paused!(self.0.keep_body(key, remove_at))
    }
    async fn remove_body(&self, key: &BodyKey) -> Result<(), StoreError> {
        paused!(self.0.remove_body(key))
    }
}

#[async_trait]
impl Queue for Interruptible<dyn Queue> {
    async fn send(&self, queue: QueueName, messages: Vec<Outgoing>) -> Result<(), SendError> {
        paused!(self.0.send(queue, messages))
    }
}

#[async_trait]
impl Sender for Interruptible<dyn Sender> {
    async fn send(&self, request: AttemptRequest) -> Result<AttemptResult, Shortage> {
        paused!(self.0.send(request))
    }
}
