//! Looks at URLs again after deliveries were parked there.
//!
//! Health is read before a delivery is parked. If the URL became enabled in between, its release may have ended without seeing the
//! delivery, so the release is started again.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::join_all;

use super::super::tickets::{probe_ticket, release_ticket, split_tickets};
use super::super::{Change, Engine, Loaded, Result, Unavailable};
use crate::ids::{Tenant, UrlId};
use crate::ports::{Outgoing, chain};
use crate::records::UrlRecord;
use crate::rules::health::UrlState;

/// The URLs at which deliveries were parked.
pub(crate) type ParkedUrls = BTreeSet<(Tenant, UrlId)>;

impl Engine {
    pub(crate) async fn recheck_after_parking(&self, urls: ParkedUrls) {
        if let Err(error) = self.recheck_urls(urls).await {
            // The sweep looks at the URL when its probe is due, and at the deliveries no later than when they expire.
            tracing::warn!(error = chain(&error), "a URL could not be looked at after parking");
        }
    }

    /// For callers that come again if a URL could not be looked at.
    pub(crate) async fn recheck_urls(&self, urls: ParkedUrls) -> Result<()> {
        let rechecked = join_all(urls.iter().map(|(tenant, url_id)| self.recheck_url(tenant, url_id))).await;
        let (tickets, failed) = split_tickets(rechecked);
        self.send_tickets(tickets).await;
        failed.map_or(Ok(()), Err)
    }

    /// Returns the ticket that gets the parked deliveries going, if they should go.
    async fn recheck_url(&self, tenant: &Tenant, url_id: &UrlId) -> Result<Option<Outgoing>> {
        let decide = |Loaded { record: mut url, .. }: Loaded<UrlRecord>| {
            let now = self.ports.clock.both();
            match url.health.state {
                UrlState::Frozen => return Ok(Change::Keep(None)),
                UrlState::Disabled => {
                    let due = url.health.probe_due(now.schedule);
                    return Ok(Change::Keep(due.then(|| probe_ticket(tenant, url_id))));
                }
                UrlState::Enabled => {}
            }
            let step = url.keep_releasing(now);
            let ticket = release_ticket(tenant, url_id, step, Duration::ZERO);
            Ok::<_, Unavailable>(Change::Write(url, Vec::new(), Some(ticket)))
        };
        Ok(self.repository.update(UrlRecord::key(tenant, url_id), decide).await?.flatten())
    }
}
