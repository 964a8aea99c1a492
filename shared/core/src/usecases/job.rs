//! Goes on with work that takes many steps.

use std::time::Duration;

use super::{Engine, Unavailable};
use crate::ids::{JobId, Tenant};
use crate::messages::Message;
use crate::ports::{Delay, Expect, Outgoing, Write};
use crate::records::{Job, JobRecord, Record, VERSION};
use crate::time::Timestamp;

/// The sweep goes on with a job whose ticket was lost.
const JOB_GRACE: Duration = Duration::from_secs(5 * 60);

impl Engine {
    pub(super) fn new_job(&self, tenant: &Tenant, id: JobId, job: Job) -> JobRecord {
        JobRecord { v: VERSION, tenant: tenant.clone(), id, job, look_at: self.next_look_at_job(), looks: 0 }
    }

    pub(super) async fn go_on_with(
        &self,
        tenant: &Tenant,
        id: &JobId,
        until_real: Timestamp,
    ) -> Result<(), Unavailable> {
        let found = self.get_one(JobRecord::key(tenant, id)).await?;
        let Some((Record::Job(record), version)) = found.map(|v| (v.record, v.version)) else {
            return Ok(());
        };
        match record.job.clone() {
            Job::FanOut(fan_out) => self.fan_out(record, version, fan_out, until_real).await,
            Job::Resettle(resettle) => self.resettle(record, version, resettle, until_real).await,
            Job::Replay(replay) => self.bulk_replay(record, version, *replay, until_real).await,
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
    pub(super) fn next_look_at_job(&self) -> Timestamp {
        let working = self.ports.clock.stretch(self.settings.function_timeout);
        self.ports.clock.now() + JOB_GRACE.max(working)
    }

    /// A job that does not end in the time of one batch goes on with the next.
    pub(super) async fn send_job_ticket(&self, job: &JobRecord, wait_real: Duration) {
        let message = Message::Job { tenant: job.tenant.clone(), id: job.id.clone() };
        let delay = Delay::at_most(self.ports.clock.stretch(wait_real));
        self.hint(vec![Outgoing { message, delay }]).await;
    }

    pub(super) async fn end_job(&self, job: &JobRecord) -> Result<(), Unavailable> {
        let key = JobRecord::key(&job.tenant, &job.id);
        Ok(self.ports.store.write(vec![Write::Delete { key, expect: Expect::Any }]).await?)
    }

    /// Unless it was started again meanwhile.
    pub(super) async fn end_job_at(&self, job: &JobRecord, version: u64) -> Result<(), Unavailable> {
        let key = JobRecord::key(&job.tenant, &job.id);
        self.try_write(vec![Write::Delete { key, expect: Expect::Version(version) }]).await?;
        Ok(())
    }
}
