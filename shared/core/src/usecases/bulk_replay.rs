//! Replays many deliveries of one URL: oldest first, at the pace of a release, so that nobody is buried.

use std::time::Duration;

use futures_util::future::join_all;

use super::replay::ReplayError;
use super::replayable::Listed;
use super::{Engine, MOST_CONFLICTS, Unavailable};
use crate::ids::{JobId, Tenant};
use crate::messages::Message;
use crate::ports::{Delay, Expect, Outgoing, Write};
use crate::records::{BulkReplay, Job, JobRecord, Record, Release, ReplayOf, ReplayRecord, Turn, UrlReplay};
use crate::time::Timestamp;

/// How many deliveries are looked at in one go, and replayed at the same time.
const PAGE: usize = 128;
/// Functions' clocks differ. A ticket that is earlier than that is a copy of one that comes when it is due.
const CLOCKS_DIFFER: Duration = Duration::from_secs(1);

/// What came of one delivery.
enum Looked {
    Replayed(Option<Outgoing>),
    /// It was in one of the wanted states, but has no active subscription or no body.
    Impossible,
    Skipped,
    Passed,
}

impl Engine {
    /// `None`: there is no such URL.
    pub async fn replay_url(
        &self,
        tenant: &Tenant,
        wanted: UrlReplay,
    ) -> Result<Option<ReplayRecord>, Unavailable> {
        let Some((url, _)) = self.get_url(tenant, &wanted.url_id).await? else { return Ok(None) };
        let now = self.ports.clock.both();
        let id = JobId::new(self.random());
        let shown = ReplayRecord::new(tenant, id.clone(), ReplayOf::Url(wanted.clone()), now.schedule);
        let mut work = BulkReplay {
            wanted,
            shown,
            place: None,
            matched: 0,
            pace: Release::begin(0, now, url.health.window_failures),
            generation: url.health.generation,
            left: 0,
        };
        (work.shown.matched, work.shown.more) = self.count_replayable(tenant, &work).await?;
        let job = self.new_job(tenant, id, Job::Replay(Box::new(work.clone())));
        let ticket = job_ticket(&job, Duration::ZERO);
        self.ports
            .store
            .write(vec![
                Write::put(Record::Job(job), Expect::Absent),
                Write::put(Record::Replay(work.shown.clone()), Expect::Absent),
            ])
            .await?;
        self.hint(vec![ticket]).await;
        Ok(Some(work.shown))
    }

    pub(super) async fn bulk_replay(
        &self,
        job: JobRecord,
        mut version: u64,
        mut work: BulkReplay,
        until_real: Timestamp,
    ) -> Result<(), Unavailable> {
        // A step that somebody began and did not end is ended first.
        if work.left == 0 && !self.claim_replay_step(&job, &mut work, &mut version).await? {
            return Ok(());
        }
        loop {
            if self.check_time(until_real).is_err() {
                self.hint(vec![job_ticket(&job, Duration::ZERO)]).await;
                return Ok(());
            }
            let page = self.replayable(&job.tenant, &work, PAGE).await?;
            let mut rest = &page.deliveries[..];
            // What cannot be replayed leaves its place in the step to those behind it.
            while work.left > 0 && !rest.is_empty() {
                let (some, others) = rest.split_at(self.as_many_as_are_left(&work, rest));
                self.replay_some(&mut work, some).await?;
                rest = others;
            }
            if !page.more && rest.is_empty() {
                return self.end_bulk_replay(&job, work, version).await;
            }
            // Somebody else goes on with this if it was changed.
            if !self.put_bulk_replay(&job, &work, &mut version).await? {
                return Ok(());
            }
            if work.left == 0 {
                let wait = work.pace.next_step_at.since(self.ports.clock.now());
                self.hint(vec![job_ticket(&job, wait)]).await;
                return Ok(());
            }
        }
    }

    /// Claimed by a conditional write, so that a duplicated ticket does not double the pace. `false`: not now, or not by us.
    async fn claim_replay_step(
        &self,
        job: &JobRecord,
        work: &mut BulkReplay,
        version: &mut u64,
    ) -> Result<bool, Unavailable> {
        let early = work.pace.next_step_at.since(self.ports.clock.now());
        if !early.is_zero() {
            if early <= CLOCKS_DIFFER {
                self.hint(vec![job_ticket(job, early)]).await;
            }
            return Ok(false);
        }
        let url = self.get_url(&job.tenant, &work.wanted.url_id).await?;
        let (failures, generation) =
            url.map_or((0, 0), |(url, _)| (url.health.window_failures, url.health.generation));
        work.claim_step(self.ports.clock.now(), failures, generation);
        self.put_bulk_replay(job, work, version).await
    }

    /// How many of these are looked at before the step is over.
    fn as_many_as_are_left(&self, work: &BulkReplay, deliveries: &[Listed]) -> usize {
        let now = self.ports.clock.now();
        let mut left = work.left;
        let within = deliveries.iter().take_while(|listed| {
            let counts = listed.delivery.as_ref().is_some_and(|(record, _)| {
                matches!(work.turn(record, now, self.settings.keep), Turn::Replay | Turn::Done)
            });
            let fits = left > 0;
            left -= u32::from(counts && fits);
            fits
        });
        within.count()
    }

    /// The record, then the ticket; how far it came is written by the caller.
    async fn replay_some(&self, work: &mut BulkReplay, some: &[Listed]) -> Result<(), Unavailable> {
        let looked = {
            let work = &*work;
            join_all(some.iter().map(|listed| self.replay_listed(work, listed))).await
        };
        let mut tickets = Vec::new();
        let mut failed = None;
        for one in looked {
            match one {
                Ok(Looked::Replayed(ticket)) => {
                    tickets.extend(ticket);
                    work.count_done();
                }
                Ok(Looked::Impossible) => work.count_skipped(true),
                Ok(Looked::Skipped) => work.count_skipped(false),
                Ok(Looked::Passed) => {}
                Err(error) => failed = Some(error),
            }
        }
        self.hint(tickets).await;
        if let Some(last) = some.last() {
            work.place = Some(last.place.clone());
        }
        // All of them are looked at again: those that were replayed say so.
        failed.map_or(Ok(()), Err)
    }

    async fn replay_listed(&self, work: &BulkReplay, listed: &Listed) -> Result<Looked, Unavailable> {
        let Some((first, _)) = &listed.delivery else { return Ok(Looked::Passed) };
        let mut current = listed.delivery.clone();
        for _ in 0..MOST_CONFLICTS {
            let Some((delivery, version)) = current else { return Ok(Looked::Passed) };
            match work.turn(&delivery, self.ports.clock.now(), self.settings.keep) {
                Turn::Done => return Ok(Looked::Replayed(None)),
                Turn::Skip => return Ok(Looked::Skipped),
                Turn::Pass => return Ok(Looked::Passed),
                Turn::Replay => {}
            }
            match self.give_new_epoch(&delivery, version, Some(&work.shown.id), Vec::new()).await {
                Ok(Some(ticket)) => return Ok(Looked::Replayed(Some(ticket))),
                Ok(None) => current = self.get_ended(&delivery.key).await?,
                Err(ReplayError::Unavailable(error)) => return Err(error),
                Err(_) => return Ok(Looked::Impossible),
            }
        }
        Err(Unavailable(format!("{} changes too often to be replayed", first.key.id())))
    }

    /// How far it came is shown in the same transaction. `false`: somebody else changed the job.
    async fn put_bulk_replay(
        &self,
        job: &JobRecord,
        work: &BulkReplay,
        version: &mut u64,
    ) -> Result<bool, Unavailable> {
        let record = JobRecord {
            job: Job::Replay(Box::new(work.clone())),
            look_at: self.next_look_at_job(),
            looks: 0,
            ..job.clone()
        };
        let writes = vec![
            Write::put(Record::Job(record), Expect::Version(*version)),
            Write::put(Record::Replay(work.shown.clone()), Expect::Any),
        ];
        let written = self.try_write(writes).await?;
        *version += u64::from(written);
        Ok(written)
    }

    async fn end_bulk_replay(
        &self,
        job: &JobRecord,
        mut work: BulkReplay,
        version: u64,
    ) -> Result<(), Unavailable> {
        work.end(self.ports.clock.now(), self.settings.keep);
        let key = JobRecord::key(&job.tenant, &job.id);
        let writes = vec![
            Write::Delete { key, expect: Expect::Version(version) },
            Write::put(Record::Replay(work.shown), Expect::Any),
        ];
        // If it was changed, somebody else is at its end or on the way there.
        self.try_write(writes).await.map(|_| ())
    }
}

fn job_ticket(job: &JobRecord, wait: Duration) -> Outgoing {
    let message = Message::Job { tenant: job.tenant.clone(), id: job.id.clone() };
    Outgoing { message, delay: Delay::at_most(wait) }
}
