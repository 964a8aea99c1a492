//! Translates between Lambda's events and the engine, and nothing else.

#[cfg(test)]
mod tests;

use std::error::Error;
use std::sync::Arc;

use holdfast_aws::config::Trigger;
use holdfast_aws::{Deadline, StateCounter, batch, metrics};
use holdfast_core::engine::Engine;
use holdfast_core::ports::{Inbox, QueueName, chain};
use holdfast_core::time::Timestamp;
use lambda_runtime::{Diagnostic, LambdaEvent};
use serde_json::value::RawValue;

use crate::sqs_event::{self, BatchReply};

pub(crate) struct Handler {
    pub(crate) engine: Engine,
    pub(crate) inbox: Arc<dyn Inbox>,
    pub(crate) trigger: Trigger,
    /// The name under which metrics are published.
    pub(crate) stack: String,
    /// What the sweep counts for metrics.
    pub(crate) states: StateCounter,
}

impl Handler {
    /// `None` for the sweep, whose trigger reads no response.
    pub(crate) async fn handle(
        &self,
        event: LambdaEvent<Box<RawValue>>,
    ) -> Result<Option<BatchReply>, Diagnostic> {
        let ends = Timestamp::from_millis(i64::try_from(event.context.deadline).unwrap_or(i64::MAX));
        let deadline = Deadline::of(self.engine.clock().now_real(), ends);
        match self.trigger {
            Trigger::Queue(queue) => self.deliver(queue, event.payload.get(), deadline).await.map(Some),
            Trigger::Sweep => self.sweep(deadline).await.map(|()| None),
        }
    }

    async fn deliver(
        &self,
        queue: QueueName,
        event: &str,
        deadline: Deadline,
    ) -> Result<BatchReply, Diagnostic> {
        let read = sqs_event::read(event).map_err(|error| failed("NotABatch", &error))?;
        let now_real = self.engine.clock().now_real();
        let overdue = read.due_at_real.map(|due_at| now_real.since(due_at));
        let settled = batch::handle(&self.engine, &*self.inbox, queue, read.items, deadline).await;
        let counters = self.engine.take_counters();
        let mut metrics = metrics::of_batch(counters, settled.given_back.len(), settled.dead_letters);
        metrics.extend(overdue.map(metrics::handled_overdue));
        metrics.extend(metrics::latencies(self.engine.take_latencies_ms()));
        self.publish(&metrics);
        Ok(settled.into())
    }

    /// The event itself means nothing: any invocation is a sweep.
    async fn sweep(&self, deadline: Deadline) -> Result<(), Diagnostic> {
        let swept = holdfast_aws::sweep(&self.engine, deadline).await;
        let report = swept.map_err(|error| failed("SweepFailed", &error))?;
        let oldest_overdue_ms = report.oldest_overdue.as_millis() as u64;
        tracing::info!(looked_at = report.looked_at, oldest_overdue_ms, more = report.more, "swept");
        let mut metrics = metrics::of_sweep(report, self.engine.take_counters());
        let counted = self.states.count(&self.engine, deadline).await;
        metrics.extend(counted.map(metrics::of_states).unwrap_or_default());
        self.publish(&metrics);
        Ok(())
    }

    fn publish(&self, metrics: &[metrics::Metric]) {
        metrics::publish(&self.stack, self.engine.clock().now_real(), metrics);
    }
}

/// Lambda logs this and returns it to the invoker.
fn failed(error_type: &str, error: &dyn Error) -> Diagnostic {
    Diagnostic { error_type: error_type.to_owned(), error_message: chain(error) }
}
