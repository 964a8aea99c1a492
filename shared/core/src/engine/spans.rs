//! Spans of the traces that events belong to, for a host that exports them.
//!
//! They are `tracing` events with a target of their own, to which only such a host listens. Only sampled traces have them,
//! which the caller that started the trace decides.

use super::Engine;
use super::deliver::Attempted;
use crate::ids::Tenant;
use crate::ports::AttemptResponse;
use crate::rules::trace::TraceContext;
use crate::time::Timestamp;

/// The target of the events. Their fields: `span` (its name), `trace_id`, `span_id`, `parent_id`, `ended_ms` (real, since the Unix epoch),
/// `took_us`, `error`; all others are attributes.
pub const SPAN_TARGET: &str = "holdfast.span";

/// The span of a post that is being accepted.
pub struct AcceptSpan {
    /// What goes on with the accepted events.
    pub context: Box<TraceContext>,
    parent_id: u64,
    started_at: Timestamp,
}

impl Engine {
    #[must_use]
    pub fn start_accept_span(&self, caller: &TraceContext) -> AcceptSpan {
        AcceptSpan {
            context: Box::new(caller.child(self.random())),
            parent_id: caller.parent.span_id(),
            started_at: self.ports.clock.wall(),
        }
    }

    /// `error`: why the events were not accepted, in words that hold no payload.
    pub fn end_accept_span(&self, span: &AcceptSpan, tenant: &Tenant, events: usize, error: Option<&str>) {
        let AcceptSpan { context, parent_id, started_at } = span;
        if !context.parent.is_sampled() {
            return;
        }
        let ended_at = self.ports.clock.wall();
        tracing::trace!(
            target: SPAN_TARGET,
            span = "accept",
            trace_id = context.parent.trace_id(),
            span_id = context.parent.span_id(),
            parent_id,
            ended_ms = ended_at.as_millis(),
            took_us = ended_at.since(*started_at).as_micros() as u64,
            error,
            tenant = tenant.as_str(),
            events = events as u64,
        );
    }

    pub(super) fn export_attempt(&self, attempted: &Attempted) {
        let sampled = attempted.span.filter(|span| span.is_sampled());
        let Some(span) = sampled.filter(|_| tracing::enabled!(target: SPAN_TARGET, tracing::Level::TRACE))
        else {
            return;
        };
        let record = &attempted.ready.delivery.record;
        let (status, error) = match &attempted.result.response {
            AttemptResponse::Status { status, .. } => (
                Some(*status),
                (!attempted.result.response.is_success()).then(|| format!("the receiver answered {status}")),
            ),
            AttemptResponse::Failed { kind, .. } => (None, Some(kind.to_string())),
        };
        tracing::trace!(
            target: SPAN_TARGET,
            span = "attempt",
            trace_id = span.trace_id(),
            span_id = span.span_id(),
            parent_id = record.trace.as_ref().map(|trace| trace.parent.span_id()),
            ended_ms = self.ports.clock.wall().as_millis(),
            took_us = attempted.result.took.as_micros() as u64,
            error,
            tenant = record.key.tenant.as_str(),
            event = record.event_id,
            event_type = record.event_type,
            delivery = record.key.id(),
            url_id = record.url_id.as_str(),
            attempt = record.progress.number().n,
            status,
        );
    }
}
