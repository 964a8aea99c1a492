//! Replays many deliveries of one URL: oldest first, at the pace of a release, so that the receiver is not overloaded.

use std::time::Duration;

use futures_util::future::join_all;

use super::super::jobs::RunningJob;
use super::super::tickets::job_ticket;
use super::super::{ConflictRetries, Engine, Result, Unavailable};
use super::candidates::Candidate;
use super::{ReplayError, ReplayUrlError};
use crate::ids::{JobId, Tenant};
use crate::ports::{Delay, Expect, Outgoing, Write};
use crate::records::{
    Actor, AuditAction, BulkReplay, Job, JobRecord, ReplayDecision, ReplayOf, ReplayRecord, UrlReplay,
};
use crate::rules::release::{Release, STEP_INTERVAL};
use crate::time::Timestamp;

/// How many deliveries are looked at in one go, and replayed at the same time.
const PAGE: usize = 128;

/// What became of one delivery.
#[expect(clippy::large_enum_variant, reason = "one is made and consumed at a time")]
enum Replayed {
    Done(Option<Outgoing>),
    /// It is in one of the wanted states, but has no active subscription or no body.
    Impossible,
    Skipped,
    Ignored,
}

impl Engine {
    /// Unless one of this URL is running: many of them would read the same deliveries again and again.
    pub async fn replay_url(
        &self,
        tenant: &Tenant,
        wanted: UrlReplay,
        by: &Actor,
    ) -> Result<ReplayRecord, ReplayUrlError> {
        // The same for all replays of this URL, so that only one can be stored.
        let job_id = JobId::derived(&["replay-url", tenant.as_str(), wanted.url_id.as_str()]);
        let mut retries = ConflictRetries::new();
        loop {
            if let Some(running) = self.repository.get::<JobRecord>(JobRecord::key(tenant, &job_id)).await?
                && let Job::Replay(work) = running.record.job
            {
                return Err(ReplayUrlError::Running(work.shown.id));
            }
            if let Some(started) = self.start_bulk_replay(tenant, wanted.clone(), job_id.clone(), by).await? {
                return Ok(started);
            }
            retries.again("the replay of this URL")?;
        }
    }

    /// Replays what expired while its URL was disabled or frozen, also if another replay of the URL is running, which may not include it.
    pub(crate) async fn replay_expired_of(
        &self,
        tenant: &Tenant,
        wanted: UrlReplay,
        by: &Actor,
    ) -> Result<JobId, ReplayUrlError> {
        let started = self.start_bulk_replay(tenant, wanted, JobId::new(self.random()), by).await?;
        let started = started.ok_or_else(|| Unavailable::Conflict("the replay of this URL".to_owned()))?;
        Ok(started.id)
    }

    /// `None`: there is a job with this id.
    async fn start_bulk_replay(
        &self,
        tenant: &Tenant,
        wanted: UrlReplay,
        job_id: JobId,
        by: &Actor,
    ) -> Result<Option<ReplayRecord>, ReplayUrlError> {
        if self.repository.get_url(tenant, &wanted.url_id).await?.is_none() {
            return Err(ReplayUrlError::UnknownUrl);
        }
        let now = self.ports.clock.both();
        let id = JobId::new(self.random());
        let shown = ReplayRecord::new(tenant, id, ReplayOf::Url(wanted.clone()), now.schedule);
        let mut work = BulkReplay {
            wanted,
            shown,
            place: None,
            matched: 0,
            pace: Release::begin(0, now),
            left: 0,
            replayed_in_step: 0,
        };
        (work.shown.matched, work.shown.more) = self.count_candidates(tenant, &work).await?;
        let job = self.new_job(tenant, job_id, Job::Replay(Box::new(work.clone())));
        let ticket = job_ticket(tenant, &job.id, Duration::ZERO);
        let target = work.wanted.url_id.as_str();
        let writes = vec![
            Write::put(job, Expect::Absent),
            Write::put(work.shown.clone(), Expect::Absent),
            self.audit(Some(tenant), AuditAction::UrlReplayed, target, by).into_write(),
        ];
        if !self.repository.try_write(writes).await? {
            return Ok(None);
        }
        self.send_tickets(vec![ticket]).await;
        Ok(Some(work.shown))
    }

    pub(crate) async fn bulk_replay(
        &self,
        mut running: RunningJob,
        mut work: BulkReplay,
        until_real: Timestamp,
    ) -> Result<()> {
        // A copy of a ticket whose step is over. The ticket of the next step is out, or the sweep sends it.
        if running.step.is_some_and(|step| !work.is_wanted(step)) {
            return Ok(());
        }
        // A step that another function began and did not end is ended first.
        if work.left == 0 && !self.claim_replay_step(&mut running, &mut work).await? {
            return Ok(());
        }
        loop {
            if self.check_time(until_real).is_err() {
                self.continue_job(&running, Duration::ZERO).await;
                return Ok(());
            }
            let page = self.list_candidates(&running.job.tenant, &work, PAGE).await?;
            let mut rest = &page.deliveries[..];
            // What cannot be replayed leaves its place in the step to those behind it.
            while work.left > 0 && !rest.is_empty() {
                let (some, others) = rest.split_at(self.as_many_as_are_left(&work, rest));
                self.replay_some(&mut work, some).await?;
                rest = others;
            }
            if !page.more && rest.is_empty() {
                return self.end_bulk_replay(&running, work).await;
            }
            // Another function goes on with it if it was changed.
            if !self.put_bulk_replay(&mut running, &work).await? {
                return Ok(());
            }
            if work.left == 0 {
                let wait = work.pace.next_step_at.since(self.ports.clock.now());
                self.continue_job_with_step(&running, work.pace.step, wait).await;
                return Ok(());
            }
        }
    }

    /// Claimed by a conditional write, so that a duplicated ticket does not double the pace. `false`: not now, or not by us.
    async fn claim_replay_step(&self, running: &mut RunningJob, work: &mut BulkReplay) -> Result<bool> {
        let early = work.pace.next_step_at.since(self.ports.clock.now());
        if !early.is_zero() {
            // The clock of the function that sent it may be ahead, and a queue may be early.
            self.continue_job_with_step(running, work.pace.step, early).await;
            return Ok(false);
        }
        let id = work.shown.id.clone();
        let outcomes = self.load_step_outcomes(&running.job.tenant, id.as_str(), &work.pace).await?;
        let now = self.ports.clock.both();
        work.pace.judge_steps(|step| outcomes.get(&step).cloned(), now.real, self.settings.release_ceiling);
        if work.pace.is_behind() {
            self.continue_job_with_step(running, work.pace.step, STEP_INTERVAL).await;
            return Ok(false);
        }
        let allowed = match self.take_replay_step(&running.job.tenant, work.pace.size).await? {
            Ok(allowed) => allowed,
            Err(wait) => {
                let wait = self.ports.clock.to_schedule(wait);
                self.continue_job_with_step(running, work.pace.step, wait).await;
                return Ok(false);
            }
        };
        work.claim_step(now, self.settings.http_timeout);
        work.left = work.left.min(allowed);
        let claimed = self.put_bulk_replay(running, work).await;
        if !matches!(claimed, Ok(true)) {
            self.give_back_events(&running.job.tenant, u64::from(allowed));
        }
        claimed
    }

    /// How many of these are looked at before the step is over.
    fn as_many_as_are_left(&self, work: &BulkReplay, candidates: &[Candidate]) -> usize {
        let now = self.ports.clock.now();
        let mut left = work.left;
        let within = candidates.iter().take_while(|candidate| {
            let counts = candidate.delivery.as_ref().is_some_and(|delivery| {
                let decision = work.decide(&delivery.record, now, self.settings.keep);
                matches!(decision, ReplayDecision::Replay | ReplayDecision::AlreadyReplayed)
            });
            let fits = left > 0;
            left -= u32::from(counts && fits);
            fits
        });
        within.count()
    }

    /// The record, then the ticket; how far it came is written by the caller.
    async fn replay_some(&self, work: &mut BulkReplay, some: &[Candidate]) -> Result<()> {
        let replayed = {
            let work = &*work;
            join_all(some.iter().map(|candidate| self.replay_candidate(work, candidate))).await
        };
        let now = self.ports.clock.now();
        let mut tickets = Vec::new();
        let mut failed = None;
        for one in replayed {
            match one {
                Ok(Replayed::Done(ticket)) => {
                    let wait = work.next_ticket_at().since(now);
                    tickets.extend(ticket.map(|ticket| Outgoing { delay: Delay::at_most(wait), ..ticket }));
                    work.count_done();
                }
                Ok(Replayed::Impossible) => work.count_skipped(true),
                Ok(Replayed::Skipped) => work.count_skipped(false),
                Ok(Replayed::Ignored) => {}
                Err(error) => failed = Some(error),
            }
        }
        self.send_tickets(tickets).await;
        if let Some(last) = some.last() {
            work.place = Some(last.place.clone());
        }
        // All of them are looked at again: those that were replayed say so.
        failed.map_or(Ok(()), Err)
    }

    async fn replay_candidate(&self, work: &BulkReplay, candidate: &Candidate) -> Result<Replayed> {
        let mut current = candidate.delivery.clone();
        let mut retries = ConflictRetries::new();
        loop {
            let Some(delivery) = current else { return Ok(Replayed::Ignored) };
            match work.decide(&delivery.record, self.ports.clock.now(), self.settings.keep) {
                ReplayDecision::AlreadyReplayed => return Ok(Replayed::Done(None)),
                ReplayDecision::Skip => return Ok(Replayed::Skipped),
                ReplayDecision::Ignore => return Ok(Replayed::Ignored),
                ReplayDecision::Replay => {}
            }
            match self.start_epoch(&delivery, Some(work), Vec::new()).await {
                Ok(Some(ticket)) => return Ok(Replayed::Done(Some(ticket))),
                Ok(None) => {
                    retries.again(delivery.record.key.id())?;
                    current = self.load_finished(&delivery.record.key).await?;
                }
                Err(ReplayError::Unavailable(error)) => return Err(error),
                Err(_) => return Ok(Replayed::Impossible),
            }
        }
    }

    /// How far it came is shown in the same transaction. `false`: another writer changed the job.
    async fn put_bulk_replay(&self, running: &mut RunningJob, work: &BulkReplay) -> Result<bool> {
        let shown = vec![Write::put(work.shown.clone(), Expect::Any)];
        self.put_job(running, Job::Replay(Box::new(work.clone())), shown).await
    }

    async fn end_bulk_replay(&self, running: &RunningJob, mut work: BulkReplay) -> Result<()> {
        // What the last step did not need.
        self.give_back_events(&running.job.tenant, u64::from(work.left));
        work.end(self.ports.clock.now(), self.settings.keep);
        self.end_job(running, vec![Write::put(work.shown, Expect::Any)]).await?;
        Ok(())
    }
}
