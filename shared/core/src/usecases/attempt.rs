//! One HTTP POST of a delivery.

use bytes::Bytes;

use super::Engine;
use crate::ids::{DeliveryKey, UrlId};
use crate::ports::{Answer, AttemptRequest, AttemptResult};
use crate::records::{Attempt, AttemptOutcome, DeliveryRecord, NewDelivery, Subscription};
use crate::rules::health::Outcome;
use crate::rules::signing;
use crate::time::Timestamp;

const USER_AGENT: &str = concat!("Holdfast/", env!("CARGO_PKG_VERSION"));

/// A delivery that may be attempted now.
pub(super) struct Ready {
    pub(super) new: NewDelivery,
    pub(super) body: Bytes,
    pub(super) subscription: Subscription,
    /// The generation of the URL's health that allowed this.
    pub(super) generation: u64,
    /// A claimed record and its version; `None` for a first attempt that has no record.
    pub(super) claimed: Option<(DeliveryRecord, u64)>,
    /// Whether the body still has to be stored if the delivery is to be tried again.
    pub(super) body_is_inline: bool,
}

impl Ready {
    pub(super) fn key(&self) -> &DeliveryKey {
        &self.new.key
    }

    /// Its subscription is this now, at this generation of its URL's health.
    pub(super) fn goes_to(&mut self, subscription: Subscription, generation: u64) {
        self.new.url_id.clone_from(&subscription.url_id);
        self.new.url.clone_from(&subscription.url);
        if let Some((claimed, _)) = &mut self.claimed {
            claimed.head_for(&subscription);
        }
        self.subscription = subscription;
        self.generation = generation;
    }

    /// (epoch, n)
    fn number(&self) -> (u32, u32) {
        self.claimed.as_ref().map_or((0, 0), |(record, _)| (record.epoch, record.next_attempt))
    }
}

pub(super) struct Attempted {
    pub(super) ready: Ready,
    pub(super) started_at: Timestamp,
    pub(super) ended_at: Timestamp,
    pub(super) result: AttemptResult,
}

impl Attempted {
    pub(super) fn succeeded(&self) -> bool {
        self.result.answer.is_success()
    }

    /// All but a first attempt that succeeds at once.
    pub(super) fn needs_a_record(&self) -> bool {
        self.ready.claimed.is_some() || !self.succeeded()
    }

    pub(super) fn url_id(&self) -> &UrlId {
        &self.ready.subscription.url_id
    }

    pub(super) fn outcome(&self) -> Outcome {
        Outcome {
            success: self.succeeded(),
            started_at: self.started_at,
            ended_at: self.ended_at,
            generation: self.ready.generation,
        }
    }
}

impl Engine {
    pub(super) async fn attempt(&self, ready: Ready) -> Attempted {
        let started_at = self.ports.clock.now();
        let request = self.request_for(&ready);
        let result = self.ports.sender.send(request).await;
        self.tally.count_attempt(result.answer.is_success());
        let attempted = Attempted { ready, started_at, ended_at: self.ports.clock.now(), result };
        self.note_attempt(&attempted);
        attempted
    }

    pub(super) fn request_for(&self, ready: &Ready) -> AttemptRequest {
        let now_real = self.ports.clock.now_real();
        let id = ready.key().id();
        let signature = signing::sign(&ready.subscription.secrets, &id, now_real, &ready.body);
        let mut headers = vec![
            ("content-type", "application/json".to_owned()),
            ("user-agent", USER_AGENT.to_owned()),
            ("webhook-id", id),
            ("webhook-timestamp", now_real.as_secs().to_string()),
            ("webhook-signature", signature),
        ];
        if let Some(token) = &ready.subscription.auth_token {
            headers.push(("authorization", format!("Bearer {token}")));
        }
        AttemptRequest { url: ready.subscription.url.clone(), body: ready.body.clone(), headers }
    }

    /// One line per attempt. Never bodies, headers or keys.
    pub(super) fn log_attempt(&self, attempted: &Attempted, after: &DeliveryRecord) {
        let (epoch, n) = attempted.ready.number();
        let (status, error) = told(&attempted.result.answer);
        tracing::info!(
            tenant = %attempted.ready.key().tenant,
            url_id = %attempted.url_id(),
            delivery = attempted.ready.key().id(),
            epoch,
            attempt = n,
            outcome = if attempted.succeeded() { "success" } else { "failure" },
            status,
            error,
            ms = attempted.result.took.as_millis() as u64,
            state = after.state.as_str(),
            due_at_ms = after.state.is_live().then(|| after.due_at.as_millis()),
            "delivery.attempted"
        );
    }

    /// What is kept of an attempt.
    pub(super) fn attempt_record(&self, attempted: &Attempted) -> Attempt {
        let (epoch, n) = attempted.ready.number();
        let (status, error) = told(&attempted.result.answer);
        let excerpt = match &attempted.result.answer {
            Answer::Status { excerpt, .. } if !excerpt.is_empty() => Some(excerpt.clone()),
            _ => None,
        };
        Attempt {
            key: attempted.ready.key().clone(),
            epoch,
            n,
            at: attempted.started_at,
            outcome: if attempted.succeeded() { AttemptOutcome::Success } else { AttemptOutcome::Failure },
            status,
            error,
            ms: attempted.result.took.as_millis() as u64,
            excerpt,
            remove_at: self.attempt_remove_at(attempted.ended_at),
        }
    }

    /// An attempt is kept as long as its delivery can be, counted from the attempt.
    pub(super) fn attempt_remove_at(&self, at: Timestamp) -> Timestamp {
        at + self.settings.schedule.lifetime + self.settings.keep
    }
}

fn told(answer: &Answer) -> (Option<u16>, Option<String>) {
    match answer {
        Answer::Status { status: 200..=299, .. } => (answer_status(answer), None),
        Answer::Status { status, .. } => {
            (Some(*status), Some(format!("status: the receiver answered {status}")))
        }
        Answer::Failed { kind, detail } => (None, Some(format!("{kind}: {detail}"))),
    }
}

fn answer_status(answer: &Answer) -> Option<u16> {
    match answer {
        Answer::Status { status, .. } => Some(*status),
        Answer::Failed { .. } => None,
    }
}
