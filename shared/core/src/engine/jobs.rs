//! Work that takes many steps: fan-outs, reassignments and bulk replays.

use std::time::Duration;

use super::tickets::job_ticket;
use super::{Engine, Loaded, Result};
use crate::ids::{JobId, Tenant};
use crate::ports::{Expect, Write};
use crate::records::{Job, JobRecord};
use crate::rules::look_at::TICKET_GRACE;
use crate::time::Timestamp;

impl Engine {
    pub(super) fn new_job(&self, tenant: &Tenant, id: JobId, job: Job) -> JobRecord {
        JobRecord { tenant: tenant.clone(), id, job, look_at: self.next_look_at_job(), looks: 0 }
    }

    pub(super) async fn resume_job(&self, tenant: &Tenant, id: &JobId, until_real: Timestamp) -> Result<()> {
        // A job without a record has ended.
        let Some(loaded) = self.repository.get::<JobRecord>(JobRecord::key(tenant, id)).await? else {
            return Ok(());
        };
        let Loaded { record, version } = loaded;
        match record.job.clone() {
            Job::FanOut(fan_out) => self.fan_out(record, version, fan_out, until_real).await,
            Job::Reassign(work) => self.reassign(record, version, work, until_real).await,
            Job::Replay(work) => self.bulk_replay(record, version, *work, until_real).await,
        }
    }

    /// Stores how far the job has come. `false`: another writer changed it. On success `version` is the new one.
    pub(super) async fn put_job(
        &self,
        job: &JobRecord,
        state: Job,
        version: &mut u64,
        with: Vec<Write>,
    ) -> Result<bool> {
        let record = JobRecord { job: state, look_at: self.next_look_at_job(), looks: 0, ..job.clone() };
        let mut writes = with;
        writes.push(Write::put(record, Expect::Version(*version)));
        let written = self.repository.try_write(writes).await?;
        *version += u64::from(written);
        Ok(written)
    }

    /// Not before the function that works on it must have ended: the schedule's clock may run faster than that.
    fn next_look_at_job(&self) -> Timestamp {
        let working = self.ports.clock.to_schedule(self.settings.function_timeout);
        self.ports.clock.now() + TICKET_GRACE.max(working)
    }

    /// A job that does not end in the time of one batch goes on with the next.
    pub(super) async fn send_job_ticket(&self, job: &JobRecord, wait_real: Duration) {
        let wait = self.ports.clock.to_schedule(wait_real);
        self.send_tickets(vec![job_ticket(&job.tenant, &job.id, wait)]).await;
    }

    /// `with` is written in the same transaction. If the job was changed, it goes on in another function or was started again.
    pub(super) async fn end_job(&self, job: &JobRecord, version: u64, with: Vec<Write>) -> Result<()> {
        let mut writes = with;
        writes.push(Write::delete(JobRecord::key(&job.tenant, &job.id), Expect::Version(version)));
        self.repository.try_write(writes).await?;
        Ok(())
    }
}
