//! The other side: receivers whose answers can be switched, and who remember what they got.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use holdfast_core::ids::{Tenant, UrlId};
use holdfast_core::ports::{Answer, AttemptRequest, AttemptResult, Clock, Sender};
use holdfast_core::records::Record;
use holdfast_core::rules::health::UrlState;
use holdfast_core::time::Timestamp;

use crate::{MemoryStore, VirtualClock};

/// One request as the receiver saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub url: String,
    pub delivery: String,
    pub at: Timestamp,
    pub status: u16,
    /// The state that the URL had in the store at that moment: a request at a disabled URL is a probe.
    pub state: UrlState,
    /// Since when: what was under way at that very moment may still arrive.
    pub since: Timestamp,
}

pub struct Receiver {
    clock: Arc<VirtualClock>,
    store: Arc<MemoryStore>,
    tenant: Tenant,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    answers: HashMap<String, u16>,
    /// How many further requests are answered with 500 before the answer counts.
    failures: HashMap<String, u32>,
    seen: Vec<Seen>,
}

impl Receiver {
    pub(super) fn new(clock: Arc<VirtualClock>, store: Arc<MemoryStore>, tenant: Tenant) -> Receiver {
        Receiver { clock, store, tenant, inner: Mutex::default() }
    }

    pub fn answer(&self, url: &str, status: u16) {
        self.lock().answers.insert(url.to_owned(), status);
    }

    pub fn fail_next(&self, url: &str, times: u32) {
        self.lock().failures.insert(url.to_owned(), times);
    }

    #[must_use]
    pub fn seen(&self) -> Vec<Seen> {
        self.lock().seen.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state_of(&self, url: &str) -> (UrlState, Timestamp) {
        let id = UrlId::of(url);
        let record = self.store.all().into_iter().find_map(|record| match record {
            Record::Url(record) if record.tenant == self.tenant && record.id == id => Some(record),
            _ => None,
        });
        record
            .map_or((UrlState::Enabled, Timestamp::ZERO), |record| (record.health.state, record.health.since))
    }
}

#[async_trait]
impl Sender for Receiver {
    async fn send(&self, request: AttemptRequest) -> AttemptResult {
        let header = |name: &str| request.headers.iter().find(|(n, _)| *n == name).map(|(_, v)| v.clone());
        let (state, since) = self.state_of(&request.url);
        let mut inner = self.lock();
        let status = match inner.failures.get_mut(&request.url) {
            Some(left) if *left > 0 => {
                *left -= 1;
                500
            }
            _ => inner.answers.get(&request.url).copied().unwrap_or(200),
        };
        let delivery = header("webhook-id").unwrap_or_default();
        inner.seen.push(Seen { url: request.url, delivery, at: self.clock.now(), status, state, since });
        let answer = Answer::Status { status, excerpt: String::new(), retry_after: None };
        AttemptResult { answer, took: Duration::ZERO }
    }
}
