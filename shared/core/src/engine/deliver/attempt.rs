//! Makes the attempts of a batch, all at the same time. An attempt is one HTTP POST of a delivery.

use bytes::Bytes;
use futures_util::future::join_all;

use super::super::{ConflictRetries, Engine, Loaded, Result, Unavailable};
use super::batch::{Handled, Slot};
use super::context::{Admission, AllowedBy, DeliveryContext};
use crate::ids::{DeliveryKey, UrlId};
use crate::ports::{AttemptRequest, AttemptResponse, AttemptResult};
use crate::records::{Attempt, DeliveryRecord, Subscription};
use crate::rules::delivery::{AttemptEnd, AttemptNumber, AttemptOutcome};
use crate::rules::event_type;
use crate::rules::health::Outcome;
use crate::rules::last_failure::AttemptError;
use crate::rules::latency::smooth;
use crate::rules::shortage::Shortage;
use crate::rules::signing::Signer;
use crate::rules::trace::TraceParent;
use crate::time::Timestamp;

/// How many bytes are signed before a signature counts as long work, and how many then at a time: 256 kB take about a millisecond without
/// hardware support. The attempts of a batch are signed one after the other, so the first is small.
const SIGNED_AT_ONCE: usize = 32_000;
const SIGNED_PER_TURN: usize = 512_000;

const USER_AGENT: &str = concat!("Holdfast/", env!("CARGO_PKG_VERSION"));

/// A delivery that may be attempted now.
pub(crate) struct Ready {
    /// The claimed record, or what a first attempt that has none would be recorded as.
    pub(crate) delivery: Loaded<DeliveryRecord>,
    pub(crate) body: Bytes,
    pub(crate) subscription: Subscription,
    pub(crate) allowed_by: AllowedBy,
    /// Whether the body still has to be stored if the delivery is to be retried.
    pub(crate) body_is_inline: bool,
}

impl Ready {
    pub(super) fn key(&self) -> &DeliveryKey {
        &self.delivery.record.key
    }

    /// Sends it to where its subscription is now, as the URL's health allows.
    pub(super) fn retarget(&mut self, subscription: Subscription, allowed_by: AllowedBy) {
        self.delivery.record.retarget(&subscription);
        self.subscription = subscription;
        self.allowed_by = allowed_by;
    }

    fn number(&self) -> AttemptNumber {
        self.delivery.record.progress.number()
    }
}

/// The signature of a request, and when it was made, which is a part of what is signed.
struct Signature {
    value: String,
    at_real: Timestamp,
}

/// What is sent, and the span that it is in the trace of its event.
struct Prepared {
    request: AttemptRequest,
    span: Option<TraceParent>,
}

/// An attempt that was made.
pub(crate) struct Attempted {
    pub(crate) ready: Ready,
    /// The span that the receiver was told. `None`: the event belongs to no trace.
    pub(crate) span: Option<TraceParent>,
    pub(crate) started_at: Timestamp,
    pub(crate) ended_at: Timestamp,
    pub(crate) result: AttemptResult,
    /// It failed because our own network is down, and does not count on its URL.
    pub(crate) is_ours: bool,
}

/// An attempt that a shortage of ours kept from being made: it counts nowhere, and its claim is to be given back.
pub(crate) struct NotMade {
    pub(crate) ready: Box<Ready>,
    pub(crate) shortage: Shortage,
}

impl Attempted {
    pub(super) fn succeeded(&self) -> bool {
        self.result.response.is_success()
    }

    /// All but a first attempt that succeeds at once.
    pub(crate) fn needs_record(&self) -> bool {
        self.ready.delivery.is_stored() || !self.succeeded()
    }

    pub(crate) fn url_id(&self) -> &UrlId {
        &self.ready.subscription.url_id
    }

    /// What it means for the URL, whose answers before this one took so long.
    pub(super) fn outcome(&self, recent_ms: u32) -> Outcome {
        Outcome {
            success: self.succeeded(),
            error: error_of(&self.result.response),
            is_first: self.ready.number() == AttemptNumber { epoch: 0, n: 0 },
            retry: self.ready.number().n,
            is_own_event: event_type::is_reserved(&self.ready.delivery.record.event_type),
            started_at: self.started_at,
            ended_at: self.ended_at,
            generation: self.ready.allowed_by.generation,
            recent_ms: smooth(recent_ms, self.result.took),
        }
    }

    /// What it means for the delivery.
    pub(super) fn end(&self) -> AttemptEnd {
        // A receiver counts from its response, the schedule from the start of the attempt.
        let took = self.ended_at.since(self.started_at);
        AttemptEnd {
            success: self.succeeded(),
            started_at: self.started_at,
            ended_at: self.ended_at,
            // A receiver may ask for any time.
            retry_after: self.result.response.retry_after().map(|wait| took.saturating_add(wait)),
        }
    }
}

impl Engine {
    /// Attempts everything that is ready, at the same time.
    pub(super) async fn attempt_all(
        &self,
        ready: Vec<(Slot, Ready)>,
        context: &DeliveryContext,
        until_real: Timestamp,
    ) -> Handled {
        let made = join_all(
            ready
                .into_iter()
                .map(async |(slot, one)| (slot, self.attempt_when_fresh(one, context, until_real).await)),
        )
        .await;
        let (mut handled, mut attempted) = (Handled::new(), Vec::new());
        for (slot, one) in made {
            match one {
                Ok(one) => attempted.push((slot, one)),
                Err(error) => handled.push((slot, Err(error))),
            }
        }
        let (spared, attempted) = self.spare(attempted).await;
        handled.extend(spared);
        let (slots, attempted): (Vec<Slot>, Vec<Attempted>) = attempted.into_iter().unzip();
        attempted.iter().for_each(|one| self.count(one));
        let recorded = self.record_outcomes(&attempted).await;
        debug_assert_eq!(recorded.len(), slots.len(), "every attempt has a result");
        handled.extend(slots.into_iter().zip(recorded));
        handled
    }

    /// Reads health again if it was read too long ago. Begins nothing that could not end in time.
    async fn attempt_when_fresh(
        &self,
        mut ready: Ready,
        context: &DeliveryContext,
        until_real: Timestamp,
    ) -> Result<Attempted> {
        // Before health is checked, because it may take a while.
        let mut signature = self.sign(&ready).await;
        // Asked by each attempt for itself: in a large batch the last one begins a good while after the first.
        let mut fresh = context.is_fresh(self.ports.clock.now_real());
        let mut retries = ConflictRetries::new();
        loop {
            if let Err(error) = self.check_time(until_real) {
                self.give_back(ready).await?;
                return Err(error);
            }
            if fresh {
                let prepared = self.request_for(&ready, signature);
                return match self.send_request(ready, prepared).await {
                    Ok(attempted) => Ok(attempted),
                    Err(not_made) => {
                        self.give_back(*not_made.ready).await?;
                        Err(not_made.shortage.into())
                    }
                };
            }
            let (current, admission) = match self.read_again(&ready).await {
                Ok(current) => current,
                Err(error) => {
                    self.give_back(ready).await?;
                    return Err(error);
                }
            };
            match admission {
                Admission::Attempt { allowed_by, subscription } if retries.again("the URL").is_ok() => {
                    let has_new_secrets = subscription.secrets != ready.subscription.secrets;
                    ready.retarget(subscription, allowed_by);
                    if has_new_secrets {
                        signature = self.sign(&ready).await;
                    }
                    fresh = current.is_fresh(self.ports.clock.now_real());
                }
                Admission::Attempt { .. } | Admission::Park { .. } | Admission::Dead(_) => {
                    self.give_back(ready).await?;
                    // The message comes again and finds things as they are now.
                    return Err(Unavailable::Changed);
                }
            }
        }
    }

    async fn read_again(&self, ready: &Ready) -> Result<(DeliveryContext, Admission)> {
        let current = self.load_context(std::iter::once((ready.key(), &ready.subscription.url_id))).await?;
        let admission = current.admission(ready.key())?;
        Ok((current, admission))
    }

    /// No attempt was made, so the claim must not count as one.
    async fn give_back(&self, ready: Ready) -> Result<()> {
        if ready.delivery.is_stored() {
            let mut free = ready.delivery.record.clone();
            free.progress.give_back_claim();
            self.repository.replace_delivery(&ready.delivery, free, Vec::new()).await?;
        }
        Ok(())
    }

    pub(crate) async fn attempt(&self, ready: Ready) -> Result<Attempted, NotMade> {
        let attempted = self.send(ready).await?;
        if attempted.succeeded() {
            self.outage.end();
        }
        self.count(&attempted);
        Ok(attempted)
    }

    fn count(&self, attempted: &Attempted) {
        self.counters.count_attempt(attempted.succeeded(), attempted.result.took);
        self.tenant_totals.count(&attempted.ready.key().tenant, |counters| {
            let counter = if attempted.succeeded() {
                &mut counters.attempts_succeeded
            } else {
                &mut counters.attempts_failed
            };
            *counter += 1;
        });
        self.count_attempt(attempted);
        self.export_attempt(attempted);
    }

    /// Makes the request. Neither a success nor a failure is counted.
    pub(crate) async fn send(&self, ready: Ready) -> Result<Attempted, NotMade> {
        let signature = self.sign(&ready).await;
        let prepared = self.request_for(&ready, signature);
        self.send_request(ready, prepared).await
    }

    async fn send_request(&self, ready: Ready, prepared: Prepared) -> Result<Attempted, NotMade> {
        let Prepared { request, span } = prepared;
        let started_at = self.ports.clock.now();
        match self.ports.sender.send(request).await {
            Ok(result) => {
                let ended_at = self.ports.clock.now();
                Ok(Attempted { ready, span, started_at, ended_at, result, is_ours: false })
            }
            Err(shortage) => {
                self.log_not_attempted(&ready, shortage);
                Err(NotMade { ready: Box::new(ready), shortage })
            }
        }
    }

    pub(super) fn log_not_attempted(&self, ready: &Ready, shortage: Shortage) {
        self.counters.count_not_attempted(shortage);
        let (tenant, url_id) = (&ready.key().tenant, &ready.subscription.url_id);
        let shortage = shortage.as_str();
        tracing::debug!(%tenant, %url_id, shortage, "delivery.not_attempted");
        if let Some(others) = self.shortage_log.due(self.ports.clock.now_real()) {
            tracing::warn!(%tenant, %url_id, shortage, others, "attempts.not_made");
        }
    }

    /// A large body, or one with many secrets, is signed in turns.
    async fn sign(&self, ready: &Ready) -> Signature {
        let at_real = self.ports.clock.wall();
        let mut signer =
            Signer::new(&ready.subscription.secrets, &ready.key().id(), at_real, ready.body.clone());
        if !signer.step(SIGNED_AT_ONCE) {
            self.work_in_turns(&ready.key().tenant, || signer.step(SIGNED_PER_TURN)).await;
        }
        Signature { value: signer.finish(), at_real }
    }

    fn request_for(&self, ready: &Ready, signature: Signature) -> Prepared {
        let id = ready.key().id();
        let mut headers = vec![
            ("content-type", "application/json".to_owned()),
            ("user-agent", USER_AGENT.to_owned()),
            ("webhook-id", id),
            ("webhook-timestamp", signature.at_real.as_secs().to_string()),
            ("webhook-signature", signature.value),
        ];
        if let Some(token) = &ready.subscription.auth_token {
            headers.push(("authorization", format!("Bearer {token}")));
        }
        let trace = ready.delivery.record.trace.as_deref();
        let span = trace.map(|trace| trace.parent.child(self.random()));
        headers.extend(span.map(|span| ("traceparent", span.to_string())));
        let state = trace.and_then(|trace| trace.state.clone());
        headers.extend(state.map(|state| ("tracestate", state)));
        let tenant = ready.key().tenant.clone();
        let (url, body) = (ready.subscription.url.clone(), ready.body.clone());
        Prepared { request: AttemptRequest { tenant, url, body, headers }, span }
    }

    /// One line per attempt: a warning if it failed. Never bodies, headers, keys or the query of a URL.
    pub(super) fn log_attempt(&self, attempted: &Attempted, after: &DeliveryRecord) {
        let is_logged = if attempted.succeeded() {
            tracing::enabled!(tracing::Level::INFO)
        } else {
            tracing::enabled!(tracing::Level::WARN)
        };
        if !is_logged {
            return;
        }
        let AttemptNumber { epoch, n } = attempted.ready.number();
        let (status, error) = describe(&attempted.result.response);
        let (key, url, progress) =
            (attempted.ready.key(), &attempted.ready.subscription.url, &after.progress);
        let (trace_id, span_id) =
            attempted.span.map(|span| (span.trace_id_text(), span.span_id_text())).unzip();
        // The level of an event is a constant.
        macro_rules! log {
            ($level:ident, $outcome:literal) => {
                tracing::$level!(
                    tenant = %key.tenant,
                    event = after.event_id,
                    event_type = after.event_type,
                    delivery = key.id(),
                    url_id = %attempted.url_id(),
                    url = without_query(url),
                    epoch,
                    attempt = n,
                    outcome = $outcome,
                    status,
                    error,
                    ms = attempted.result.took.as_millis() as u64,
                    trace_id,
                    span_id,
                    state = progress.state.as_str(),
                    due_at_ms = progress.state.is_live().then(|| progress.due_at.as_millis()),
                    "delivery.attempted"
                )
            };
        }
        if attempted.succeeded() { log!(info, "success") } else { log!(warn, "failure") }
    }

    /// What is kept of an attempt.
    pub(crate) fn attempt_record(&self, attempted: &Attempted) -> Attempt {
        let AttemptNumber { epoch, n } = attempted.ready.number();
        let (status, error) = describe(&attempted.result.response);
        let excerpt = match &attempted.result.response {
            AttemptResponse::Status { excerpt, .. } if !excerpt.is_empty() => Some(excerpt.clone()),
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

/// A query often holds a token of the receiver.
fn without_query(url: &str) -> &str {
    url.split('?').next().unwrap_or(url)
}

/// Status and error of a response, in words for the log and for people.
fn describe(response: &AttemptResponse) -> (Option<u16>, Option<String>) {
    match response {
        AttemptResponse::Status { status, .. } if response.is_success() => (Some(*status), None),
        AttemptResponse::Status { status, .. } => {
            (Some(*status), Some(format!("status: the receiver answered {status}")))
        }
        AttemptResponse::Failed { kind, detail, .. } => (None, Some(format!("{kind}: {detail}"))),
    }
}

/// The same for the URL's health. `None`: it succeeded.
fn error_of(response: &AttemptResponse) -> Option<AttemptError> {
    match response {
        AttemptResponse::Status { .. } if response.is_success() => None,
        AttemptResponse::Status { status, .. } => Some(AttemptError::of_status(*status)),
        AttemptResponse::Failed { kind, detail, .. } => Some(AttemptError::new((*kind).into(), detail)),
    }
}
