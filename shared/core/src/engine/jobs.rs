//! Work that takes many steps: fan-outs, reassignments and bulk replays; and what is announced later.

use std::time::Duration;

use super::tickets::{job_step_ticket, job_ticket, linked_after};
use super::{Engine, Loaded, Result};
use crate::ids::{JobId, Tenant};
use crate::ports::{Expect, Write};
use crate::records::{Job, JobRecord};
use crate::rules::look_at::TICKET_GRACE;
use crate::time::Timestamp;

/// A job whose ticket is being handled.
pub(crate) struct RunningJob {
    pub(super) job: JobRecord,
    /// The version of its record, which each write moves on.
    version: u64,
    /// Where its ticket is in its chain.
    links: u32,
    /// The step that its ticket names.
    pub(super) step: Option<u64>,
}

impl Engine {
    pub(super) fn new_job(&self, tenant: &Tenant, id: JobId, job: Job) -> JobRecord {
        JobRecord { tenant: tenant.clone(), id, job, look_at: self.next_look_at_job(), looks: 0 }
    }

    /// `step` is what its ticket names, and `links` where it was in its chain.
    pub(super) async fn resume_job(
        &self,
        tenant: &Tenant,
        id: &JobId,
        step: Option<u64>,
        links: u32,
        until_real: Timestamp,
    ) -> Result<()> {
        // A job without a record has ended.
        let Some(loaded) = self.repository.get::<JobRecord>(JobRecord::key(tenant, id)).await? else {
            return Ok(());
        };
        let Loaded { record, version } = loaded;
        let running = RunningJob { job: record.clone(), version, links, step };
        match record.job {
            Job::FanOut(fan_out) => self.fan_out(running, fan_out, until_real).await,
            Job::Reassign(work) => self.reassign(running, work, until_real).await,
            Job::Replay(work) => self.bulk_replay(running, *work, until_real).await,
            Job::AnnounceDeaths(work) => self.announce_deaths(running, &work).await,
        }
    }

    /// Stores how far the job has come. `false`: another writer changed it.
    pub(super) async fn put_job(
        &self,
        running: &mut RunningJob,
        state: Job,
        with: Vec<Write>,
    ) -> Result<bool> {
        let (look_at, job) = (self.next_look_at_job(), running.job.clone());
        let record = JobRecord { job: state, look_at, looks: 0, ..job };
        let mut writes = with;
        writes.push(Write::put(record, Expect::Version(running.version)));
        let written = self.repository.try_write(writes).await?;
        running.version += u64::from(written);
        Ok(written)
    }

    /// Not before the function that works on it must have ended: the schedule's clock may run faster than that.
    fn next_look_at_job(&self) -> Timestamp {
        let working = self.ports.clock.to_schedule(self.settings.function_timeout);
        self.ports.clock.now() + TICKET_GRACE.max(working)
    }

    /// Whether the job has not ended.
    pub(super) async fn is_running(&self, running: &RunningJob) -> Result<bool> {
        let key = JobRecord::key(&running.job.tenant, &running.job.id);
        Ok(self.repository.get::<JobRecord>(key).await?.is_some())
    }

    /// Starts a job that was just stored.
    pub(super) async fn send_job_ticket(&self, job: &JobRecord) {
        self.send_tickets(vec![job_ticket(&job.tenant, &job.id, Duration::ZERO)]).await;
    }

    /// A job that does not end in the time of one batch, or has to wait, goes on with another ticket. `wait` is on the schedule's clock.
    pub(super) async fn continue_job(&self, running: &RunningJob, wait: Duration) {
        let ticket = job_ticket(&running.job.tenant, &running.job.id, wait);
        self.send_tickets(linked_after(running.links, ticket).into_iter().collect()).await;
    }

    /// The same for one step of the job.
    pub(super) async fn continue_job_with_step(&self, running: &RunningJob, step: u64, wait: Duration) {
        let ticket = job_step_ticket(&running.job.tenant, &running.job.id, step, wait);
        self.send_tickets(linked_after(running.links, ticket).into_iter().collect()).await;
    }

    /// `with` is written in the same transaction. `false`: the job was changed, and goes on in another function or was started again.
    pub(super) async fn end_job(&self, running: &RunningJob, with: Vec<Write>) -> Result<bool> {
        let key = JobRecord::key(&running.job.tenant, &running.job.id);
        let mut writes = with;
        writes.push(Write::delete(key, Expect::Version(running.version)));
        self.repository.try_write(writes).await
    }
}
