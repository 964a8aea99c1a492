//! Goes on with work that takes many steps.

use super::{Engine, Unavailable};
use crate::ids::{JobId, Tenant};
use crate::ports::{Expect, Write};
use crate::records::{Job, JobRecord, Record, VERSION};
use crate::time::Timestamp;

/// The sweep goes on with a job whose ticket was lost.
const JOB_GRACE: std::time::Duration = std::time::Duration::from_secs(5 * 60);

impl Engine {
    pub(super) fn new_job(&self, tenant: &Tenant, id: JobId, job: Job) -> JobRecord {
        JobRecord { v: VERSION, tenant: tenant.clone(), id, job, look_at: self.next_look_at_job(), looks: 0 }
    }

    pub(super) async fn go_on_with(&self, tenant: &Tenant, id: &JobId) -> Result<(), Unavailable> {
        let found = self.get_one(JobRecord::key(tenant, id)).await?;
        let Some((Record::Job(record), version)) = found.map(|v| (v.record, v.version)) else {
            return Ok(());
        };
        match record.job.clone() {
            Job::FanOut(fan_out) => self.fan_out(record, version, fan_out).await,
            Job::Unsubscribe(unsubscribe) => self.unsubscribe(record, version, unsubscribe).await,
        }
    }

    /// `false`: somebody else changed it. On success `version` is the new one.
    pub(super) async fn put_job(
        &self,
        job: &JobRecord,
        state: Job,
        version: &mut u64,
    ) -> Result<bool, Unavailable> {
        let look_at = self.next_look_at_job();
        let record = Record::Job(JobRecord { job: state, look_at, looks: 0, ..job.clone() });
        let written = self.try_write(vec![Write::put(record, Expect::Version(*version))]).await?;
        *version += u64::from(written);
        Ok(written)
    }

    /// Not before whoever works on it must have ended: the schedule's clock may run faster than that.
    fn next_look_at_job(&self) -> Timestamp {
        let working = self.ports.clock.stretch(self.settings.function_timeout);
        self.ports.clock.now() + JOB_GRACE.max(working)
    }

    pub(super) async fn end_job(&self, job: &JobRecord) -> Result<(), Unavailable> {
        let key = JobRecord::key(&job.tenant, &job.id);
        Ok(self.ports.store.write(vec![Write::Delete { key, expect: Expect::Any }]).await?)
    }
}
