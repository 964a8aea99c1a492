//! Goes on with work that takes many steps.

use super::fan_out::FanOut;
use super::unsubscribe::Unsubscribe;
use super::{Engine, Unavailable};
use crate::ids::{JobId, Tenant};
use crate::records::{Job, JobRecord, Record};

impl Engine {
    pub(super) async fn go_on_with(&self, tenant: &Tenant, id: &JobId) -> Result<(), Unavailable> {
        let found = self.get_one(JobRecord::key(tenant, id)).await?;
        let Some((Record::Job(record), version)) = found.map(|v| (v.record, v.version)) else {
            return Ok(());
        };
        match record.job.clone() {
            Job::FanOut { event_id, event_key, event_type, accepted_at, after, started } => {
                let fan_out = FanOut { event_id, event_key, event_type, accepted_at, after, started };
                self.fan_out(record, version, fan_out).await
            }
            Job::Unsubscribe { subscription_id, after, pass, not_before_real } => {
                let unsubscribe = Unsubscribe { subscription_id, after, pass, not_before_real };
                self.unsubscribe(record, version, unsubscribe).await
            }
        }
    }
}
