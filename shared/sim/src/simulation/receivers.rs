//! Receivers that succeed, fail, hang, flap and recover, and remember every request.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use holdfast_core::ids::{Tenant, UrlId};
use holdfast_core::ports::{AttemptRequest, AttemptResponse, AttemptResult, Clock, FailureKind};
use holdfast_core::records::{Key, Record, UrlRecord};
use holdfast_core::rules::delivery::AttemptNumber;
use holdfast_core::rules::health::UrlState;
use holdfast_core::time::Timestamp;

use super::backend::Backend;
use super::faults::Faults;
use super::observer::Observer;
use super::story::Story;
use super::time::MachineClock;
use crate::block_on;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behaviour {
    Succeeds,
    /// Answers with this status.
    Fails(u16),
    /// Never answers.
    Hangs,
    /// Cannot be reached.
    IsGone,
    /// Fails so often, whatever the event.
    Flaps {
        percent: u64,
    },
    /// Always refuses this share of the events, and takes the others.
    Refuses {
        percent: u64,
    },
    /// Asks to be left alone for so long.
    IsBusy {
        status: u16,
        retry_after: Duration,
    },
    /// Succeeds after up to three seconds.
    IsSlow,
    /// Succeeds after exactly this long.
    AnswersAfter(Duration),
}

/// One request as it reached a receiver.
#[derive(Clone, Debug)]
pub struct Request {
    pub tenant: Tenant,
    pub url: String,
    pub delivery: String,
    pub at: Timestamp,
    /// 0: there was no answer, or its host died before it came.
    pub status: u16,
    /// What the store had of the URL when the request came.
    pub state: UrlState,
    /// When the state began, by the outcome or the person that caused it.
    pub since: Timestamp,
    /// When the store learned of it.
    pub known_since: Timestamp,
    /// The attempt (epoch, n) that the process had claimed. Not read from the store: the lease may have lapsed, and another process may have
    /// claimed the delivery since.
    pub claimed: Option<(u32, u32)>,
}

pub(super) struct Receivers {
    pub(super) backend: Arc<dyn Backend>,
    pub(super) faults: Arc<Faults>,
    pub(super) story: Arc<Story>,
    pub(super) observer: Arc<Observer>,
    pub(super) machine: Option<Arc<MachineClock>>,
    pub(super) http_timeout: Duration,
    /// From then on, by URL, in the order of time.
    pub(super) behaviours: BTreeMap<String, Vec<(Timestamp, Behaviour)>>,
    pub(super) requests: Mutex<Vec<Request>>,
}

impl Receivers {
    pub(super) fn requests(&self) -> MutexGuard<'_, Vec<Request>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn behaviour(&self, url: &str) -> Behaviour {
        let now = self.faults.time.now();
        let phases = self.behaviours.get(url).map_or(&[][..], Vec::as_slice);
        phases.iter().rev().find(|(from, _)| *from <= now).map_or(Behaviour::Succeeds, |(_, now)| *now)
    }

    fn schedule_now(&self) -> Timestamp {
        self.machine.as_ref().map_or_else(|| self.faults.time.now(), |machine| machine.now())
    }

    fn read(&self, key: Key) -> Option<Record> {
        let found = block_on(self.backend.store().get(&[key])).ok()?;
        found.into_iter().next().flatten().map(|found| found.record)
    }

    /// The request, and what the store says about its URL at this moment.
    fn seen(&self, request: &AttemptRequest, claimed: Option<AttemptNumber>) -> Request {
        let now = self.faults.time.now();
        let delivery = delivery_of(request);
        let url_id = UrlId::of(&request.url);
        let known_since = self.observer.changed_at(&request.tenant, &url_id);
        let (state, since) = match self.read(UrlRecord::key(&request.tenant, &url_id)) {
            Some(Record::Url(url)) => (url.health.state, now - self.schedule_now().since(url.health.since)),
            _ => (UrlState::Enabled, Timestamp::ZERO),
        };
        let claimed = claimed.map(|AttemptNumber { epoch, n }| (epoch, n));
        let (tenant, url) = (request.tenant.clone(), request.url.clone());
        Request { tenant, url, delivery, at: now, status: 0, state, since, known_since, claimed }
    }

    /// The answer, and how long it takes.
    fn answer(&self, behaviour: Behaviour, delivery: &str) -> (AttemptResponse, Duration) {
        let dice = &self.faults.dice;
        let soon = dice.time(Duration::from_millis(1), Duration::from_millis(50));
        match behaviour {
            Behaviour::Succeeds => (with_status(200, None), soon),
            Behaviour::Fails(status) => (with_status(status, None), soon),
            Behaviour::Hangs => (failed(FailureKind::Timeout), self.http_timeout),
            Behaviour::IsGone => (failed(FailureKind::Connect), soon),
            Behaviour::Flaps { percent } => {
                let status = if dice.below(100) < percent { 500 } else { 200 };
                (with_status(status, None), soon)
            }
            Behaviour::Refuses { percent } => {
                let status = if share_of(delivery) < percent { 422 } else { 200 };
                (with_status(status, None), soon)
            }
            Behaviour::IsBusy { status, retry_after } => (with_status(status, Some(retry_after)), soon),
            Behaviour::AnswersAfter(wait) => (with_status(200, None), wait),
            Behaviour::IsSlow => {
                (with_status(200, None), dice.time(Duration::from_secs(1), Duration::from_secs(3)))
            }
        }
    }

    /// Answers a request of a process that has claimed this attempt; `None` for a first attempt, which needs no claim.
    pub(super) async fn receive(
        &self,
        request: AttemptRequest,
        claimed: Option<AttemptNumber>,
    ) -> AttemptResult {
        let behaviour = self.behaviour(&request.url);
        let seen = self.seen(&request, claimed);
        let (response, took) = self.answer(behaviour, &seen.delivery);
        let at = seen.at;
        self.story.tell(at, || {
            format!("→ {} gets {} ({:?}, claimed {:?})", seen.url, seen.delivery, seen.state, seen.claimed)
        });
        let number = {
            let mut requests = self.requests();
            requests.push(seen);
            requests.len() - 1
        };
        self.faults.time.sleep(took).await;
        if let AttemptResponse::Status { status, .. } = &response {
            self.requests()[number].status = *status;
        }
        self.story.tell(self.faults.time.now(), || {
            let requests = self.requests();
            let Request { url, delivery, status, .. } = &requests[number];
            format!("← {url} answers {status} to {delivery}")
        });
        AttemptResult { response, took: self.faults.time.now().since(at) }
    }
}

pub(super) fn delivery_of(request: &AttemptRequest) -> String {
    let header = request.headers.iter().find(|(name, _)| *name == "webhook-id");
    header.map(|(_, id)| id.clone()).unwrap_or_default()
}

/// Always the same for the same delivery, from 0 to 99.
fn share_of(delivery: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    delivery.hash(&mut hasher);
    hasher.finish() % 100
}

fn with_status(status: u16, retry_after: Option<Duration>) -> AttemptResponse {
    AttemptResponse::Status { status, excerpt: String::new(), retry_after }
}

fn failed(kind: FailureKind) -> AttemptResponse {
    AttemptResponse::Failed { kind, detail: "as the simulation wants it".to_owned(), is_silent: true }
}
