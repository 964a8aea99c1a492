//! Looks at everything alive whose time to be looked at has come, and sends its hint again.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream;

use super::enqueue::{announce_ticket, delivery_ticket, probe_ticket, release_ticket};
use super::{Engine, Unavailable};
use crate::messages::Message;
use crate::ports::{Delay, Expect, Outgoing, Versioned, Write};
use crate::records::{DeliveryRecord, DeliveryState, JobRecord, Now, Record, SWEEP_SHARDS, UrlRecord};
use crate::rules::health::UrlState;
use crate::time::Timestamp;

/// How much one sweep looks at, per shard.
const MOST_PER_SHARD: usize = 500;
const AT_ONCE: usize = 32;
const FIRST_LOOK: Duration = Duration::from_secs(5 * 60);
/// Looks grow rarer up to 2^this times the first: about 5 days.
const MOST_DOUBLINGS: u32 = 10;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SweepReport {
    pub looked_at: usize,
    /// How late the most overdue of them was looked at.
    pub oldest_overdue: Duration,
    /// Whether there may be more to look at now.
    pub more: bool,
    /// How many could not be looked at. They are still overdue, and come again.
    pub failed: usize,
}

/// When to look again, if this look does not help either.
fn next_look(now: Timestamp, looks: u32) -> Timestamp {
    now + FIRST_LOOK * 2_u32.pow(looks.min(MOST_DOUBLINGS))
}

/// What worked, and the last error of what did not: what worked must be followed up in any case.
pub(super) fn split<T: IntoIterator<Item = Outgoing>>(
    results: Vec<Result<T, Unavailable>>,
) -> (Vec<Outgoing>, Option<Unavailable>) {
    let mut tickets = Vec::new();
    let mut failed = None;
    for result in results {
        match result {
            Ok(ticket) => tickets.extend(ticket),
            Err(error) => failed = Some(error),
        }
    }
    (tickets, failed)
}

impl Engine {
    /// Goes on after an error, so that one bad record does not keep the others from being looked at. An error is answered only when
    /// nobody knows what is overdue.
    pub async fn sweep(&self) -> Result<SweepReport, Unavailable> {
        let mut report = SweepReport::default();
        let mut failed = None;
        for shard in 0..SWEEP_SHARDS {
            if let Err(error) = self.sweep_shard(shard, &mut report).await {
                failed = Some(error);
            }
        }
        failed.map_or(Ok(report), Err)
    }

    async fn sweep_shard(&self, shard: u8, report: &mut SweepReport) -> Result<(), Unavailable> {
        let now = self.ports.clock.now();
        let overdue = self.ports.store.overdue(shard, now, MOST_PER_SHARD).await?;
        report.more |= overdue.len() == MOST_PER_SHARD;
        report.looked_at += overdue.len();
        if let Some(look_at) = overdue.first().and_then(|v| v.record.index_entries().look_at) {
            report.oldest_overdue = report.oldest_overdue.max(now.since(look_at));
        }
        let hints = stream::iter(overdue.into_iter().map(|item| self.look_at(item)));
        let hints: Vec<_> = hints.buffer_unordered(AT_ONCE).collect().await;
        report.failed += hints.iter().filter(|hint| hint.is_err()).count();
        let (tickets, failed) = split(hints);
        self.hint(tickets).await;
        if let Some(error) = failed {
            tracing::error!(%error, shard, "some of what is overdue could not be looked at");
        }
        Ok(())
    }

    /// Moves `look_at` on before the ticket is sent, so that nothing is looked at every minute for ever.
    async fn look_at(&self, item: Versioned) -> Result<Vec<Outgoing>, Unavailable> {
        let ticket = match item.record {
            Record::Url(url) => return self.look_at_url(url, item.version).await,
            Record::Delivery(record) => self.look_at_delivery(record, item.version).await?,
            Record::Job(job) => self.look_at_job(job, item.version).await?,
            _ => None,
        };
        Ok(ticket.into_iter().collect())
    }

    async fn look_at_delivery(
        &self,
        record: DeliveryRecord,
        version: u64,
    ) -> Result<Option<Outgoing>, Unavailable> {
        let Now { schedule: now, real: now_real } = self.ports.clock.both();
        if record.is_expired(now) && !record.is_leased(now_real) {
            self.expire(record, version).await?;
            return Ok(None);
        }
        let mut looked = record.clone();
        let from = if record.state == DeliveryState::Parked { record.expires_at } else { record.due_at };
        looked.look_at = Some(next_look(now.max(from), record.looks));
        looked.looks += 1;
        if !self.put_delivery(&record, version, looked, Vec::new()).await?
            || record.state == DeliveryState::Parked
        {
            return Ok(None);
        }
        Ok(Some(delivery_ticket(&record, Delay::at_most(record.due_at.since(now)))))
    }

    /// A URL may be looked at because its probe or release is due, or because of an announcement: each has its own time.
    async fn look_at_url(&self, mut url: UrlRecord, version: u64) -> Result<Vec<Outgoing>, Unavailable> {
        let now = self.ports.clock.now();
        let mut tickets = Vec::new();
        if url.look_at.is_some_and(|look_at| look_at <= now) {
            let ticket = match (url.health.state, url.releasing) {
                (UrlState::Disabled, _) => Some(probe_ticket(&url.tenant, &url.id)),
                (UrlState::Enabled, Some(release)) => {
                    Some(release_ticket(&url.tenant, &url.id, release.step, Duration::ZERO))
                }
                (UrlState::Enabled, None) | (UrlState::Frozen, _) => None,
            };
            url.look_at = ticket.as_ref().map(|_| next_look(now, url.looks));
            url.looks += 1;
            tickets.extend(ticket);
        }
        if let Some(unannounced) = url.unannounced.as_mut().filter(|u| u.look_at <= now) {
            unannounced.look_at = next_look(now, unannounced.looks);
            unannounced.looks += 1;
            tickets.push(announce_ticket(&url.tenant, &url.id));
        }
        Ok(if self.put_url(&url, version, None).await? { tickets } else { Vec::new() })
    }

    async fn look_at_job(&self, mut job: JobRecord, version: u64) -> Result<Option<Outgoing>, Unavailable> {
        job.look_at = next_look(self.ports.clock.now(), job.looks);
        job.looks += 1;
        let message = Message::Job { tenant: job.tenant.clone(), id: job.id.clone() };
        let moved_on = self.try_write(vec![Write::put(Record::Job(job), Expect::Version(version))]).await?;
        Ok(moved_on.then_some(Outgoing { message, delay: Delay::NONE }))
    }
}
