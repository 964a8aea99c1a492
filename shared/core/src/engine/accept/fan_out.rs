//! One event to many subscriptions, in steps that can be repeated.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::first_attempt;

use crate::engine::jobs::RunningJob;
use crate::engine::{Engine, Result, Unavailable};
use crate::ids::{EventKey, SubscriptionId, Tenant, UrlId};
use crate::ports::{BodyKey, chain};
use crate::records::{FanOut, Job};
use crate::rules::matching::Member;
use crate::time::Timestamp;

/// How many deliveries one step queues.
const STEP_SIZE: usize = 100;

/// Where the recipients at the time of acceptance are stored, beside the body: a subscription that is deleted before its turn still
/// gets its delivery, which is then dead and visible.
pub(super) fn recipients_key(tenant: &Tenant, fan_out: &FanOut) -> BodyKey {
    let FanOut { event_key, list, .. } = fan_out;
    let list = list.as_ref().map_or_else(String::new, |list| format!("-{list}"));
    BodyKey::new(tenant, &EventKey(format!("{event_key}-recipients{list}")))
}

/// A line for each, in the order of their ids.
pub(super) fn encode_recipients(recipients: &[Arc<Member>]) -> Bytes {
    let lines: String = recipients.iter().map(|s| format!("{} {}\n", s.id, s.url_id)).collect();
    lines.into()
}

fn decode_recipients(list: &Bytes) -> Vec<(SubscriptionId, UrlId)> {
    let text = String::from_utf8_lossy(list);
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(id, url_id)| (id.into(), url_id.into()))
        .collect()
}

impl Engine {
    pub(crate) async fn fan_out(
        &self,
        mut running: RunningJob,
        mut fan_out: FanOut,
        until_real: Timestamp,
    ) -> Result<()> {
        // Another function began it, or the event was posted again: what was sent may be sent again, in any of the steps, and is marked as
        // a repeat.
        let again = fan_out.started;
        if !fan_out.started {
            fan_out.started = true;
            if !self.put_job(&mut running, Job::FanOut(fan_out.clone()), Vec::new()).await? {
                return Ok(());
            }
        }
        let tenant = running.job.tenant.clone();
        let list_key = recipients_key(&tenant, &fan_out);
        let recipients = match self.load_body(&list_key).await {
            Ok(list) => decode_recipients(&list),
            // Another function has ended the job since its record was read.
            Err(Unavailable::BodyMissing(_)) if !self.is_running(&running).await? => return Ok(()),
            Err(error) => return Err(error),
        };
        let done =
            fan_out.after.as_ref().map_or(0, |after| recipients.partition_point(|(id, _)| id <= after));
        for step in recipients[done..].chunks(STEP_SIZE) {
            if self.check_time(until_real).is_err() {
                self.continue_job(&running, Duration::ZERO).await;
                return Ok(());
            }
            let messages = step
                .iter()
                .map(|(id, url_id)| first_attempt(&tenant, &fan_out, (id, url_id), None, again))
                .collect();
            self.send_first_attempts(messages).await?;
            fan_out.after = step.last().map(|(id, _)| id.clone());
            if !self.put_job(&mut running, Job::FanOut(fan_out.clone()), Vec::new()).await? {
                // Another function goes on with it.
                return Ok(());
            }
        }
        if self.end_job(&running, Vec::new()).await? && fan_out.list.is_some() {
            self.remove_recipients(&list_key).await;
        }
        Ok(())
    }

    /// The job has ended, so no later step reads its list. A list that cannot be removed now is removed when the body is.
    async fn remove_recipients(&self, list_key: &BodyKey) {
        if let Err(error) = self.ports.store.remove_body(list_key).await {
            tracing::warn!(error = chain(&error), tenant = %list_key.tenant, "fan_out.list_not_removed");
        }
    }
}
