//! Receivers whose responses can be chosen, and that record the requests they get.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use holdfast_core::ids::{Tenant, UrlId};
use holdfast_core::ports::{AttemptRequest, AttemptResponse, AttemptResult, Clock, Sender};
use holdfast_core::records::{Record, UrlRecord};
use holdfast_core::rules::health::UrlState;
use holdfast_core::rules::shortage::Shortage;
use holdfast_core::time::Timestamp;

use crate::gate::Gate;
use crate::{MemoryStore, VirtualClock};

/// One request as the receiver saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub url: String,
    pub delivery: String,
    pub headers: Vec<(&'static str, String)>,
    pub body: Bytes,
    pub at: Timestamp,
    /// 0: there was no response yet, or its host died before it came.
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
    gate: Gate,
}

#[derive(Default)]
struct Inner {
    answers: HashMap<String, AttemptResponse>,
    /// How many further requests are answered with 500 before the answer counts.
    failures: HashMap<String, u32>,
    /// How many further attempts are not made, because the sender has run short of something.
    shortages: HashMap<String, (Shortage, u32)>,
    /// How long these take to answer, beside the time that passes while they are held.
    slow: HashMap<String, Duration>,
    /// Deliveries that are refused for good, by id.
    refused: HashSet<String>,
    /// The next request to each of these is answered only when it is let go.
    to_hold: HashSet<String>,
    seen: Vec<Request>,
}

impl Inner {
    fn next_shortage(&mut self, url: &str) -> Option<Shortage> {
        let (shortage, left) = self.shortages.get_mut(url).filter(|(_, left)| *left > 0)?;
        *left -= 1;
        Some(*shortage)
    }

    fn next_answer(&mut self, url: &str) -> AttemptResponse {
        match self.failures.get_mut(url) {
            Some(left) if *left > 0 => {
                *left -= 1;
                with_status(500)
            }
            _ => self.answers.get(url).cloned().unwrap_or_else(|| with_status(200)),
        }
    }
}

fn with_status(status: u16) -> AttemptResponse {
    AttemptResponse::Status { status, excerpt: String::new(), retry_after: None }
}

fn status_of(answer: &AttemptResponse) -> u16 {
    match answer {
        AttemptResponse::Status { status, .. } => *status,
        AttemptResponse::Failed { .. } => 0,
    }
}

impl Receiver {
    pub(crate) fn new(clock: Arc<VirtualClock>, store: Arc<MemoryStore>, tenant: Tenant) -> Receiver {
        Receiver { clock, store, tenant, inner: Mutex::default(), gate: Gate::default() }
    }

    pub fn answer(&self, url: &str, status: u16) {
        self.answer_with(url, with_status(status));
    }

    pub fn answer_with(&self, url: &str, answer: AttemptResponse) {
        self.lock().answers.insert(url.to_owned(), answer);
    }

    /// The next request to this URL stays under way until [`Self::release`], and gets the answer that counts then.
    pub fn hold_next(&self, url: &str) {
        self.lock().to_hold.insert(url.to_owned());
    }

    /// Answers every request that is held now.
    pub fn release(&self) {
        self.gate.open();
    }

    pub fn fail_next(&self, url: &str, times: u32) {
        self.lock().failures.insert(url.to_owned(), times);
    }

    /// The delivery with this id is answered with 400 whenever it comes.
    pub fn refuse(&self, delivery: String) {
        self.lock().refused.insert(delivery);
    }

    /// This URL's answers take so long, as its senders see it. No time passes.
    pub fn answer_after(&self, url: &str, takes: Duration) {
        self.lock().slow.insert(url.to_owned(), takes);
    }

    /// The next attempts at this URL are not made: the sender has run short of something.
    pub fn run_short(&self, url: &str, shortage: Shortage, times: u32) {
        self.lock().shortages.insert(url.to_owned(), (shortage, times));
    }

    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        self.lock().seen.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state_of(&self, url: &str) -> (UrlState, Timestamp) {
        match self.store.record(&UrlRecord::key(&self.tenant, &UrlId::of(url))) {
            Some(Record::Url(record)) => (record.health.state, record.health.since),
            _ => (UrlState::Enabled, Timestamp::ZERO),
        }
    }
}

#[async_trait]
impl Sender for Receiver {
    async fn send(&self, request: AttemptRequest) -> Result<AttemptResult, Shortage> {
        let header = |name: &str| request.headers.iter().find(|(n, _)| *n == name).map(|(_, v)| v.clone());
        let (state, since) = self.state_of(&request.url);
        let arrived = self.clock.both();
        let delivery = header("webhook-id").unwrap_or_default();
        let (number, held) = {
            let mut inner = self.lock();
            if let Some(shortage) = inner.next_shortage(&request.url) {
                return Err(shortage);
            }
            let (url, headers, body) = (request.url.clone(), request.headers.clone(), request.body.clone());
            let at = arrived.schedule;
            inner.seen.push(Request { url, delivery, headers, body, at, status: 0, state, since });
            (inner.seen.len() - 1, inner.to_hold.remove(&request.url))
        };
        if held {
            self.gate.wait().await;
        }
        let mut inner = self.lock();
        let is_refused = inner.refused.contains(&inner.seen[number].delivery);
        let answer = if is_refused { with_status(400) } else { inner.next_answer(&request.url) };
        inner.seen[number].status = status_of(&answer);
        let slow = inner.slow.get(&request.url).copied().unwrap_or_default();
        Ok(AttemptResult { response: answer, took: self.clock.now_real().since(arrived.real) + slow })
    }
}
