//! Releases parked deliveries when their URL is enabled: oldest first, in growing steps.

use std::time::Duration;

use futures_util::future::join_all;

use super::super::tickets::{delivery_ticket, linked_after, release_ticket, split_tickets};
use super::super::{Change, Engine, Loaded, Result, Unavailable};
use crate::ids::{Tenant, UrlId};
use crate::ports::{Delay, Outgoing, chain};
use crate::records::{ParkedPointer, UrlRecord};
use crate::rules::delivery::DeliveryState;
use crate::rules::health::UrlState;
use crate::rules::release::{Release, STEP_INTERVAL};

/// What a release ticket led to.
enum Step {
    /// The release has ended, or the ticket is a duplicate.
    Over,
    /// Not yet: the ticket is sent on.
    Early(Duration),
    Claimed {
        url: Box<Loaded<UrlRecord>>,
        release: Release,
        size: u32,
    },
}

impl Engine {
    /// `links`: where its ticket is in its chain.
    pub(crate) async fn release(&self, tenant: &Tenant, url_id: &UrlId, step: u64, links: u32) -> Result<()> {
        match self.claim_release_step(tenant, url_id, step).await? {
            Step::Over => Ok(()),
            Step::Early(wait) => {
                let ticket = linked_after(links, release_ticket(tenant, url_id, step, wait));
                self.send_tickets(ticket.into_iter().collect()).await;
                Ok(())
            }
            Step::Claimed { url, release, size } => self.release_step(*url, release, size, links).await,
        }
    }

    /// Claimed by a conditional write, so that a duplicated ticket does not double the pace.
    async fn claim_release_step(&self, tenant: &Tenant, url_id: &UrlId, step: u64) -> Result<Step> {
        let decide = |Loaded { record: mut url, version }: Loaded<UrlRecord>| {
            let now = self.ports.clock.both();
            match (url.health.state, url.releasing) {
                (UrlState::Disabled | UrlState::Frozen, _) => return Ok(Change::Keep(Step::Over)),
                (UrlState::Enabled, Some(release)) if release.step != step => {
                    return Ok(Change::Keep(Step::Over));
                }
                (UrlState::Enabled, Some(release)) if release.next_step_at > now.schedule => {
                    let wait = release.next_step_at.since(now.schedule);
                    return Ok(Change::Keep(Step::Early(wait)));
                }
                (UrlState::Enabled, Some(_)) => {}
                (UrlState::Enabled, None) => url.start_release(now),
            }
            let Some((release, size)) = url.claim_release_step(now.schedule) else {
                return Ok(Change::Keep(Step::Over));
            };
            let claimed = Box::new(Loaded { record: url.clone(), version: version + 1 });
            let step = Step::Claimed { url: claimed, release, size };
            Ok::<_, Unavailable>(Change::Write(url, Vec::new(), step))
        };
        let step = self.repository.update(UrlRecord::key(tenant, url_id), decide).await?;
        Ok(step.unwrap_or(Step::Over))
    }

    async fn release_step(
        &self,
        url: Loaded<UrlRecord>,
        release: Release,
        size: u32,
        links: u32,
    ) -> Result<()> {
        let UrlRecord { tenant, id, .. } = &url.record;
        let page = self.repository.list_parked(tenant, id, None, size as usize).await?;
        if page.items.is_empty() {
            return self.end_release(url, release, links).await;
        }
        let released = join_all(page.items.iter().map(|pointer| self.release_delivery(pointer))).await;
        let (mut tickets, failed) = split_tickets(released);
        tickets.extend(linked_after(links, release_ticket(tenant, id, release.step, STEP_INTERVAL)));
        self.send_tickets(tickets).await;
        // What could not be released is still parked: the next step takes it first.
        if let Some(error) = failed {
            tracing::warn!(error = chain(&error), url_id = %id, "some deliveries could not be released yet");
        }
        Ok(())
    }

    async fn release_delivery(&self, pointer: &ParkedPointer) -> Result<Option<Outgoing>> {
        let Some(delivery) = self.repository.get_delivery(&pointer.key).await? else { return Ok(None) };
        if delivery.record.progress.state != DeliveryState::Parked {
            return Ok(None);
        }
        let now = self.ports.clock.now();
        if delivery.record.progress.is_expired(now) {
            self.expire(&delivery).await?;
            return Ok(None);
        }
        let mut released = delivery.record.clone();
        released.progress.unpark(now);
        let ticket = delivery_ticket(&released, Delay::at_most(released.progress.due_at.since(now)));
        let written = self.repository.replace_delivery(&delivery, released, Vec::new()).await?;
        Ok(written.then_some(ticket))
    }

    /// Nothing is parked. That is final only when no function can still act on the health that the URL had before.
    async fn end_release(&self, url: Loaded<UrlRecord>, release: Release, links: u32) -> Result<()> {
        let Loaded { record: mut url, version } = url;
        let (tenant, id) = (url.tenant.clone(), url.id.clone());
        let now_real = self.ports.clock.now_real();
        let timeout = self.settings.function_timeout;
        if release.may_end(now_real, timeout) {
            url.end_release();
            if self.repository.replace(url, version).await? {
                return Ok(());
            }
        }
        let left = (release.enabled_at_real + timeout * 2).since(now_real);
        let wait = self.ports.clock.to_schedule(left).max(STEP_INTERVAL);
        let ticket = linked_after(links, release_ticket(&tenant, &id, release.step, wait));
        self.send_tickets(ticket.into_iter().collect()).await;
        Ok(())
    }
}
