//! Lets parked deliveries go when their URL is enabled: oldest first, in growing steps.

use std::time::Duration;

use futures_util::future::join_all;

use super::enqueue::{delivery_ticket, release_ticket};
use super::sweep::split;
use super::{Engine, MOST_CONFLICTS, Unavailable};
use crate::ids::{Tenant, UrlId};
use crate::ports::{Delay, Order, Outgoing, Query};
use crate::records::{DeliveryState, ParkedPointer, Record, Release, UrlRecord};
use crate::rules::health::UrlState;
use crate::rules::release::STEP_INTERVAL;

/// What a release ticket led to.
enum Step {
    Over,
    /// Not yet: the ticket is sent on.
    Early(Duration),
    Claimed {
        url: Box<UrlRecord>,
        version: u64,
        size: u32,
    },
}

impl Engine {
    pub(super) async fn release(
        &self,
        tenant: &Tenant,
        url_id: &UrlId,
        step: u64,
    ) -> Result<(), Unavailable> {
        match self.claim_release_step(tenant, url_id, step).await? {
            Step::Over => Ok(()),
            Step::Early(wait) => {
                self.hint(vec![release_ticket(tenant, url_id, step, wait)]).await;
                Ok(())
            }
            Step::Claimed { url, version, size } => self.make_release_step(*url, version, size).await,
        }
    }

    /// Claimed by a conditional write, so that a duplicated ticket does not double the pace.
    async fn claim_release_step(
        &self,
        tenant: &Tenant,
        url_id: &UrlId,
        step: u64,
    ) -> Result<Step, Unavailable> {
        for _ in 0..MOST_CONFLICTS {
            let Some((mut url, version)) = self.get_url(tenant, url_id).await? else { return Ok(Step::Over) };
            if url.health.state != UrlState::Enabled {
                return Ok(Step::Over);
            }
            let now = self.ports.clock.both();
            match url.releasing {
                Some(release) if release.step != step => return Ok(Step::Over),
                Some(release) if release.next_step_at > now.schedule => {
                    return Ok(Step::Early(release.next_step_at.since(now.schedule)));
                }
                Some(_) => {}
                None => url.start_release(now),
            }
            let Some(size) = url.claim_release_step(now.schedule) else { return Ok(Step::Over) };
            if self.put_url(&url, version, None).await? {
                return Ok(Step::Claimed { url: Box::new(url), version: version + 1, size });
            }
        }
        Err(Unavailable(format!("{url_id} changes too often to be released")))
    }

    async fn make_release_step(&self, url: UrlRecord, version: u64, size: u32) -> Result<(), Unavailable> {
        let Some(release) = url.releasing else { return Ok(()) };
        let query = Query {
            partition: ParkedPointer::partition(&url.tenant, &url.id),
            prefix: String::new(),
            after: None,
            order: Order::Ascending,
            limit: size as usize,
        };
        let page = self.ports.store.query(query).await?;
        if page.items.is_empty() {
            return self.end_release(url, version, release).await;
        }
        let pointers = page.items.into_iter().filter_map(|item| match item.record {
            Record::Parked(pointer) => Some(pointer),
            _ => None,
        });
        let freed = join_all(pointers.map(|pointer| self.let_go(pointer))).await;
        let (mut tickets, failed) = split(freed);
        tickets.push(release_ticket(&url.tenant, &url.id, release.step, STEP_INTERVAL));
        self.hint(tickets).await;
        // What could not be let go is still parked: the next step takes it first.
        if let Some(error) = failed {
            tracing::warn!(%error, url_id = %url.id, "some deliveries could not be let go yet");
        }
        Ok(())
    }

    async fn let_go(&self, pointer: ParkedPointer) -> Result<Option<Outgoing>, Unavailable> {
        let Some((record, version)) = self.get_delivery(&pointer.key).await? else { return Ok(None) };
        if record.state != DeliveryState::Parked {
            return Ok(None);
        }
        let now = self.ports.clock.now();
        if record.is_expired(now) {
            self.expire(record, version).await?;
            return Ok(None);
        }
        let mut free = record.clone();
        free.unpark(now);
        let ticket = delivery_ticket(&free, Delay::at_most(free.due_at.since(now)));
        Ok(self.put_delivery(&record, version, free, Vec::new()).await?.then_some(ticket))
    }

    /// Nothing is parked. It stays so only when nobody can still act on the health that the URL had before.
    async fn end_release(
        &self,
        mut url: UrlRecord,
        version: u64,
        release: Release,
    ) -> Result<(), Unavailable> {
        let now_real = self.ports.clock.now_real();
        let timeout = self.settings.function_timeout;
        if release.may_end(now_real, timeout) {
            url.end_release();
            if self.put_url(&url, version, None).await? {
                return Ok(());
            }
        }
        let left = (release.enabled_at_real + timeout * 2).since(now_real);
        let wait = self.ports.clock.stretch(left).max(STEP_INTERVAL);
        self.hint(vec![release_ticket(&url.tenant, &url.id, release.step, wait)]).await;
        Ok(())
    }
}
