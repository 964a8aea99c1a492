//! The outcomes of the steps of releases and bulk replays: written once per batch, and added up when a step is judged.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use super::deliver::Attempted;
use super::{Engine, Result};
use crate::ids::{StepId, Tenant};
use crate::ports::{AttemptResponse, FailureKind, Query, chain};
use crate::records::{DeliveryRecord, Record, StepBatch};
use crate::rules::release::{AttemptEnded, Release, StepOutcomes};

/// Long after the step was judged. In real time, like the judgement.
const KEPT: Duration = Duration::from_secs(3600);
/// How many batches one read brings.
const PAGE: usize = 1_000;

/// What became of deliveries that were released in steps, by step.
#[derive(Default)]
pub(super) struct BatchOutcomes<'a>(BTreeMap<(&'a Tenant, &'a StepId), (String, StepOutcomes)>);

impl<'a> BatchOutcomes<'a> {
    pub(super) fn add_attempt(&mut self, one: &'a Attempted) {
        let response = &one.result.response;
        let ended = AttemptEnded {
            success: response.is_success(),
            is_overload: is_overload(response),
            took: one.result.took,
        };
        if let Some(outcomes) = self.of(&one.ready.delivery.record) {
            outcomes.add_attempt(ended);
        }
    }

    /// It was parked, or is over, and no attempt was made.
    pub(super) fn add_not_attempted(&mut self, delivery: &'a DeliveryRecord) {
        if let Some(outcomes) = self.of(delivery) {
            outcomes.add_not_attempted();
        }
    }

    /// `None`: no step waits for this delivery.
    fn of(&mut self, delivery: &'a DeliveryRecord) -> Option<&mut StepOutcomes> {
        let step = delivery.released_in.as_ref()?;
        let entry = self.0.entry((&delivery.key.tenant, step)).or_insert_with(|| {
            let number = delivery.progress.number();
            (format!("{}#{}#{}", delivery.key.id(), number.epoch, number.n), StepOutcomes::default())
        });
        Some(&mut entry.1)
    }
}

fn is_overload(response: &AttemptResponse) -> bool {
    matches!(
        response,
        AttemptResponse::Status { status: 429 | 503, .. }
            | AttemptResponse::Failed { kind: FailureKind::Timeout, .. }
    )
}

impl Engine {
    /// One write per step and batch. What cannot be written is missing when the step is judged, and counts as failed.
    pub(super) async fn count_on_steps(&self, outcomes: BatchOutcomes<'_>) {
        if outcomes.0.is_empty() {
            return;
        }
        let remove_at = self.ports.clock.now() + self.ports.clock.to_schedule(KEPT);
        let batches = outcomes.0.into_iter().map(|((tenant, step), (batch, outcomes))| {
            let (tenant, step) = (tenant.clone(), step.clone());
            Record::StepBatch(StepBatch { tenant, step, batch, outcomes, remove_at })
        });
        match self.ports.store.put_each(batches.collect()).await {
            Ok(unstored) if unstored.is_empty() => {}
            Ok(unstored) => {
                tracing::warn!(steps = unstored.len(), "outcomes of releases could not be counted");
            }
            Err(error) => {
                tracing::warn!(error = chain(&error), "outcomes of releases could not be counted");
            }
        }
    }

    /// What is known of the steps of a release that are not judged yet. `of` is the URL or the replay.
    pub(super) async fn load_step_outcomes(
        &self,
        tenant: &Tenant,
        of: &str,
        release: &Release,
    ) -> Result<HashMap<u64, StepOutcomes>> {
        let mut loaded = HashMap::new();
        for made in &release.unjudged {
            let step = release.step_id(of, made.step);
            let outcomes = self.sum_outcomes(tenant, &step).await?;
            // They are judged in their order.
            let is_last = outcomes.count < made.released && self.ports.clock.now_real() < made.judge_at_real;
            loaded.insert(made.step, outcomes);
            if is_last {
                break;
            }
        }
        Ok(loaded)
    }

    async fn sum_outcomes(&self, tenant: &Tenant, step: &StepId) -> Result<StepOutcomes> {
        let mut sum = StepOutcomes::default();
        let mut after = None;
        loop {
            let query = Query::of(StepBatch::partition(tenant, step), PAGE).after(after);
            let page = self.repository.list::<StepBatch>(query).await?;
            page.items.iter().for_each(|batch| sum.add(&batch.outcomes));
            after = page.next;
            if after.is_none() {
                return Ok(sum);
            }
        }
    }
}
