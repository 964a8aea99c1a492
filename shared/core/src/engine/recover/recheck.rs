//! Looks at URLs again after deliveries were parked there.
//!
//! Health is read before a delivery is parked. If the URL became enabled in between, its release may have ended without seeing the
//! delivery, so the release is started again. If it is disabled, the sweep looks at it soon, because a probe is possible now.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::join_all;

use super::super::tickets::{probe_ticket, release_ticket, split_tickets};
use super::super::{Change, Engine, Loaded, Result, Unavailable};
use crate::ids::{Tenant, UrlId};
use crate::ports::Outgoing;
use crate::records::UrlRecord;
use crate::rules::health::UrlState;

/// The URLs at which deliveries were parked.
pub(crate) type ParkedUrls = BTreeSet<(Tenant, UrlId)>;

impl Engine {
    /// Callers come again if a URL could not be looked at: nothing else would notice what was parked there before it expires.
    pub(crate) async fn recheck_urls(&self, urls: ParkedUrls) -> Result<()> {
        let rechecked = join_all(urls.iter().map(|(tenant, url_id)| self.recheck_url(tenant, url_id))).await;
        let (tickets, failed) = split_tickets(rechecked);
        self.send_tickets(tickets).await;
        failed.map_or(Ok(()), Err)
    }

    /// Returns the ticket that gets the parked deliveries going, if they should go.
    async fn recheck_url(&self, tenant: &Tenant, url_id: &UrlId) -> Result<Option<Outgoing>> {
        match self.recheck_record(tenant, url_id).await? {
            Some(ticket) => Ok(ticket),
            // A URL without a record is enabled: what is parked there goes on.
            None if self.restore_parked_url(tenant, url_id).await? => {
                Ok(self.recheck_record(tenant, url_id).await?.flatten())
            }
            None => Ok(None),
        }
    }

    /// `None`: the URL has no record.
    async fn recheck_record(&self, tenant: &Tenant, url_id: &UrlId) -> Result<Option<Option<Outgoing>>> {
        let decide = |Loaded { record: mut url, .. }: Loaded<UrlRecord>| {
            let now = self.ports.clock.both();
            match url.health.state {
                UrlState::Frozen => return Ok(Change::Keep(None)),
                UrlState::Disabled => {
                    let due = url.health.probe_due(now.schedule);
                    let ticket = due.then(|| probe_ticket(tenant, url_id, Duration::ZERO));
                    // The ticket may be lost, and the sweep looks rarely at a URL with nothing due.
                    let is_written = url.look_soon(now.schedule);
                    return Ok(if is_written {
                        Change::Write(url, Vec::new(), ticket)
                    } else {
                        Change::Keep(ticket)
                    });
                }
                UrlState::Enabled => {}
            }
            let step = url.keep_releasing(now);
            let ticket = release_ticket(tenant, url_id, step, Duration::ZERO);
            Ok::<_, Unavailable>(Change::Write(url, Vec::new(), Some(ticket)))
        };
        self.repository.update(UrlRecord::key(tenant, url_id), decide).await
    }
}
