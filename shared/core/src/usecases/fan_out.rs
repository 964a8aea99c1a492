//! One event to many subscriptions, in steps that can be repeated.

use std::sync::Arc;

use bytes::Bytes;

use super::accept::{JOB_GRACE, first_attempt};
use super::{Engine, Unavailable};
use crate::ids::{EventKey, SubscriptionId, UrlId};
use crate::ports::{BodyKey, Delay, Expect, Outgoing, Write};
use crate::records::{EventRecord, IdPhase, Job, JobRecord, Record, Subscription, VERSION};
use crate::time::Timestamp;

/// How many deliveries one step queues.
const STEP: usize = 100;

/// What a fan-out is about.
pub(super) struct FanOut {
    pub(super) event_id: String,
    pub(super) event_key: EventKey,
    pub(super) event_type: String,
    pub(super) accepted_at: Timestamp,
    pub(super) after: Option<SubscriptionId>,
    pub(super) started: bool,
}

/// Who wanted the event when it was accepted is kept beside its body, once: a subscription that is deleted before its turn
/// still has its delivery, which is then dead and visible.
pub(super) fn wanted_key(body: &BodyKey) -> BodyKey {
    BodyKey { tenant: body.tenant.clone(), event_key: EventKey(format!("{}-wanted", body.event_key)) }
}

/// A line for each, in the order of their ids.
pub(super) fn wanted_list(subscriptions: &[Arc<Subscription>]) -> Bytes {
    let lines: String = subscriptions.iter().map(|s| format!("{} {}\n", s.id, s.url_id)).collect();
    lines.into()
}

fn wanted_by(list: &Bytes) -> Vec<(SubscriptionId, UrlId)> {
    let text = String::from_utf8_lossy(list);
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(id, url_id)| (id.into(), url_id.into()))
        .collect()
}

impl FanOut {
    fn job(&self) -> Job {
        Job::FanOut {
            event_id: self.event_id.clone(),
            event_key: self.event_key.clone(),
            event_type: self.event_type.clone(),
            accepted_at: self.accepted_at,
            after: self.after.clone(),
            started: self.started,
        }
    }

    fn event(&self, job: &JobRecord) -> EventRecord {
        EventRecord {
            v: VERSION,
            tenant: job.tenant.clone(),
            id: self.event_id.clone(),
            event_key: self.event_key.clone(),
            event_type: self.event_type.clone(),
            subject: None,
            accepted_at: self.accepted_at,
            deliveries: 0,
            fingerprint: String::new(),
            phase: IdPhase::Done,
            remove_at: None,
        }
    }
}

impl Engine {
    pub(super) async fn fan_out(
        &self,
        job: JobRecord,
        mut version: u64,
        mut fan_out: FanOut,
    ) -> Result<(), Unavailable> {
        // Somebody began a step and did not finish it: what it sent is sent again, and says so.
        let mut again = fan_out.started;
        if !fan_out.started {
            fan_out.started = true;
            if !self.put_job(&job, fan_out.job(), &mut version).await? {
                return Ok(());
            }
        }
        let body_key = BodyKey { tenant: job.tenant.clone(), event_key: fan_out.event_key.clone() };
        let event = fan_out.event(&job);
        let wanted = self.load_body(&wanted_key(&body_key)).await?;
        let wanting: Vec<(SubscriptionId, UrlId)> = wanted_by(&wanted)
            .into_iter()
            .filter(|(id, _)| fan_out.after.as_ref().is_none_or(|after| id > after))
            .collect();
        for step in wanting.chunks(STEP) {
            let messages = step.iter().map(|(id, url_id)| Outgoing {
                message: first_attempt(&event, (id, url_id), None, again),
                delay: Delay::NONE,
            });
            self.send_first_attempts(messages.collect()).await?;
            fan_out.after = step.last().map(|(id, _)| id.clone());
            if !self.put_job(&job, fan_out.job(), &mut version).await? {
                // Somebody else goes on with this.
                return Ok(());
            }
            again = false;
        }
        self.end_job(&job).await
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

    pub(super) async fn end_job(&self, job: &JobRecord) -> Result<(), Unavailable> {
        let key = JobRecord::key(&job.tenant, &job.id);
        Ok(self.ports.store.write(vec![Write::Delete { key, expect: Expect::Any }]).await?)
    }
}
