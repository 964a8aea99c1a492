use serde::{Deserialize, Serialize};

use super::Key;
use crate::ids::{StepId, Tenant};
use crate::rules::release::StepOutcomes;
use crate::time::Timestamp;

/// The outcomes of one batch of attempts at deliveries of one step of a release. A step is judged by the sum of its records, so that batches
/// that end at the same time do not write the same record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepBatch {
    pub tenant: Tenant,
    pub step: StepId,
    /// Names the batch by one of its attempts. A batch that is repeated writes the same record again.
    pub batch: String,
    pub outcomes: StepOutcomes,
    pub remove_at: Timestamp,
}

impl StepBatch {
    #[must_use]
    pub fn partition(tenant: &Tenant, step: &StepId) -> String {
        format!("step#{tenant}#{step}")
    }

    #[must_use]
    pub fn key(&self) -> Key {
        Key::new(Self::partition(&self.tenant, &self.step), self.batch.as_str())
    }
}
