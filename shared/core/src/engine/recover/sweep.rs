//! Looks at everything alive whose `look_at` has come, and sends its ticket again.

use std::time::Duration;

use futures_util::{StreamExt, stream};

use super::super::tickets::{
    announce_ticket, delivery_ticket, job_ticket, probe_ticket, release_ticket, split_tickets,
};
use super::super::{Engine, Loaded, Result};
use crate::ids::{Tenant, UrlId};
use crate::ports::{Delay, Outgoing, Versioned, chain};
use crate::records::{DeliveryRecord, JobRecord, Record, SWEEP_SHARDS, UrlRecord};
use crate::rules::delivery::DeliveryState;
use crate::rules::health::UrlState;
use crate::rules::look_at;

/// How much one sweep looks at, per shard: 4,000 in all.
const MAX_PER_SHARD: usize = 4_000 / SWEEP_SHARDS as usize;
const SHARDS_AT_ONCE: usize = 8;
/// How many records of a shard are looked at at once.
const CONCURRENCY: usize = 8;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SweepReport {
    pub looked_at: usize,
    /// How late the most overdue of them was looked at.
    pub oldest_overdue: Duration,
    /// Whether there may be more to look at now.
    pub more: bool,
    /// How many could not be looked at. They are still overdue, and the next sweep finds them.
    pub failed: usize,
}

impl SweepReport {
    fn add(self, other: SweepReport) -> SweepReport {
        SweepReport {
            looked_at: self.looked_at + other.looked_at,
            oldest_overdue: self.oldest_overdue.max(other.oldest_overdue),
            more: self.more || other.more,
            failed: self.failed + other.failed,
        }
    }
}

impl Engine {
    /// Goes on after an error, so that one bad record does not keep the others from being looked at. Returns an error only when a
    /// shard could not be read.
    pub async fn sweep(&self) -> Result<SweepReport> {
        let shards = stream::iter((0..SWEEP_SHARDS).map(|shard| self.sweep_shard(shard)));
        let shards: Vec<_> = shards.buffer_unordered(SHARDS_AT_ONCE).collect().await;
        shards.into_iter().try_fold(SweepReport::default(), |report, shard| Ok(report.add(shard?)))
    }

    async fn sweep_shard(&self, shard: u8) -> Result<SweepReport> {
        let now = self.ports.clock.now();
        let overdue = self.ports.store.overdue(shard, now, MAX_PER_SHARD).await?;
        let most_overdue = overdue.first().and_then(|found| found.record.index_entries().look_at);
        let (looked_at, more) = (overdue.len(), overdue.len() == MAX_PER_SHARD);
        let looks = stream::iter(overdue.into_iter().map(|found| self.look_at(found)));
        let looks: Vec<_> = looks.buffer_unordered(CONCURRENCY).collect().await;
        let report = SweepReport {
            looked_at,
            oldest_overdue: most_overdue.map_or(Duration::ZERO, |look_at| now.since(look_at)),
            more,
            failed: looks.iter().filter(|look| look.is_err()).count(),
        };
        let (tickets, failed) = split_tickets(looks);
        self.send_tickets(tickets).await;
        if let Some(error) = failed {
            tracing::error!(error = chain(&error), shard, "some overdue records could not be looked at");
        }
        Ok(report)
    }

    /// Moves `look_at` on before the ticket is sent, so that nothing is looked at every minute.
    async fn look_at(&self, Versioned { record, version }: Versioned) -> Result<Vec<Outgoing>> {
        match record {
            Record::Url(record) => self.look_at_url(Loaded { record, version }).await,
            Record::Delivery(record) => self.look_at_delivery(Loaded { record, version }).await,
            Record::Job(record) => self.look_at_job(Loaded { record, version }).await,
            // Nothing else is in the index.
            _ => Ok(Vec::new()),
        }
    }

    async fn look_at_delivery(&self, delivery: Loaded<DeliveryRecord>) -> Result<Vec<Outgoing>> {
        let now = self.ports.clock.both();
        let progress = &delivery.record.progress;
        if progress.is_expired(now.schedule) && !progress.is_leased(now.real) {
            self.expire(&delivery).await?;
            return Ok(Vec::new());
        }
        let mut looked_at = delivery.record.clone();
        looked_at.progress.looked_at(now.schedule);
        let written = self.repository.replace_delivery(&delivery, looked_at, Vec::new()).await?;
        if !written || progress.state == DeliveryState::Parked {
            return Ok(Vec::new());
        }
        let delay = Delay::at_most(progress.due_at.since(now.schedule));
        Ok(vec![delivery_ticket(&delivery.record, delay)])
    }

    /// A URL may be looked at because its probe or release is due, or because of an announcement: each has its own time.
    async fn look_at_url(&self, url: Loaded<UrlRecord>) -> Result<Vec<Outgoing>> {
        let Loaded { record: mut url, version } = url;
        let now = self.ports.clock.now();
        if url.is_over(now) {
            // A frozen one stays: else it could be thawed by deleting its subscriptions and subscribing it again.
            if url.health.state != UrlState::Frozen {
                self.remove_url(Loaded { record: url, version }).await?;
                return Ok(Vec::new());
            }
            url.remove_at = Some(now + self.settings.keep);
        }
        let (tenant, id) = (url.tenant.clone(), url.id.clone());
        let is_probe = url.is_probe_looked_at(now);
        let has_due = is_probe && self.has_due(&tenant, &id).await?;
        let due = url.looked_at(has_due, now);
        let mut tickets = Vec::new();
        if due.probe {
            let wait = url.health.next_probe_at.map_or(Duration::ZERO, |at| at.since(now));
            tickets.push(probe_ticket(&tenant, &id, wait));
        }
        if let Some(step) = due.release_step {
            tickets.push(release_ticket(&tenant, &id, step, Duration::ZERO));
        }
        if due.announcement {
            tickets.push(announce_ticket(&tenant, &id));
        }
        if !self.repository.replace(url, version).await? {
            return Ok(Vec::new());
        }
        // What was parked before this write may have read the URL before it too, and did not call for a nearer look then.
        if due.probe && !has_due && self.has_due(&tenant, &id).await? {
            self.recheck_urls([(tenant, id)].into()).await?;
        }
        Ok(tickets)
    }

    /// Whether a delivery that is parked at the URL is due.
    async fn has_due(&self, tenant: &Tenant, url_id: &UrlId) -> Result<bool> {
        let parked = self.repository.list_parked(tenant, url_id, None, 1).await?;
        Ok(parked.items.first().is_some_and(|earliest| earliest.due_at <= self.ports.clock.now()))
    }

    async fn look_at_job(&self, job: Loaded<JobRecord>) -> Result<Vec<Outgoing>> {
        let Loaded { record: mut job, version } = job;
        job.look_at = look_at::after_look(self.ports.clock.now());
        job.looks += 1;
        let ticket = job_ticket(&job.tenant, &job.id, Duration::ZERO);
        let written = self.repository.replace(job, version).await?;
        Ok(written.then_some(ticket).into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(looked_at: usize, overdue_secs: u64, more: bool, failed: usize) -> SweepReport {
        SweepReport { looked_at, oldest_overdue: Duration::from_secs(overdue_secs), more, failed }
    }

    #[test]
    fn all_shards_together_look_at_about_4_000() {
        let in_all = MAX_PER_SHARD * usize::from(SWEEP_SHARDS);
        assert!((3_900..=4_000).contains(&in_all), "{in_all}");
    }

    #[test]
    fn the_reports_of_all_shards_are_one() {
        assert_eq!(report(3, 9, false, 2).add(report(4, 5, true, 3)), report(7, 9, true, 5));
        assert_eq!(report(1, 2, false, 0).add(report(0, 3, false, 0)), report(1, 3, false, 0));
    }
}
