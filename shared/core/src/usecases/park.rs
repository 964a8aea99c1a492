//! Holds a delivery back while its URL is disabled or frozen. No attempt is counted.

use std::time::Duration;

use futures_util::future::join_all;

use super::conclude::Parking;
use super::enqueue::{probe_ticket, release_ticket};
use super::sweep::split;
use super::{Engine, MOST_CONFLICTS, Unavailable};
use crate::ids::{Tenant, UrlId};
use crate::ports::{Expect, Outgoing, Write};
use crate::records::{DeliveryRecord, HistoryEntry, ParkedPointer, Record, UrlRecord};
use crate::rules::health::UrlState;

impl Engine {
    /// A delivery that has no record yet. If it got one in the meantime, that is left as it is.
    pub(super) async fn park_new(&self, mut record: DeliveryRecord) -> Result<(), Unavailable> {
        record.park();
        let pointer = Record::Parked(ParkedPointer::of(&record));
        self.create(record, vec![Write::put(pointer, Expect::Any)]).await.map(|_| ())
    }

    /// `false`: the record was changed by somebody else, who looks after it.
    pub(super) async fn park(&self, record: &DeliveryRecord, version: u64) -> Result<bool, Unavailable> {
        let mut parked = record.clone();
        parked.park();
        self.put_delivery(record, version, parked, Vec::new()).await
    }

    /// Health was read before parking; if the URL became enabled in between, nobody would let these deliveries go.
    pub(super) async fn after_parking(&self, urls: Parking) {
        if let Err(error) = self.look_at_all_parked(urls).await {
            // They are swept no later than when they expire, and the URL when its probe is due.
            tracing::warn!(%error, "a URL could not be looked at after parking");
        }
    }

    /// For whoever comes again if a URL could not be looked at.
    pub(super) async fn look_at_all_parked(&self, urls: Parking) -> Result<(), Unavailable> {
        let looked = join_all(urls.iter().map(|(tenant, url_id)| self.look_at_parked(tenant, url_id))).await;
        let (tickets, failed) = split(looked);
        self.hint(tickets).await;
        failed.map_or(Ok(()), Err)
    }

    pub(super) async fn look_at_parked(
        &self,
        tenant: &Tenant,
        url_id: &UrlId,
    ) -> Result<Option<Outgoing>, Unavailable> {
        for _ in 0..MOST_CONFLICTS {
            let Some((mut url, version)) = self.get_url(tenant, url_id).await? else { return Ok(None) };
            let now = self.ports.clock.both();
            match url.health.state {
                UrlState::Frozen => return Ok(None),
                UrlState::Disabled => {
                    return Ok(url.health.probe_due(now.schedule).then(|| probe_ticket(tenant, url_id)));
                }
                UrlState::Enabled => {}
            }
            // A release that is about to end must not end over this: whoever ends it then finds the record changed.
            match &mut url.releasing {
                Some(release) => release.enabled_at_real = now.real,
                None => url.start_release(now),
            }
            if self.put_url(&url, version, None).await? {
                let step = url.releasing.map_or(0, |r| r.step);
                return Ok(Some(release_ticket(tenant, url_id, step, Duration::ZERO)));
            }
        }
        Err(Unavailable(format!("{url_id} changes too often")))
    }

    /// `false`: the record was changed by somebody else.
    pub(super) async fn put_url(
        &self,
        url: &UrlRecord,
        version: u64,
        history: Option<HistoryEntry>,
    ) -> Result<bool, Unavailable> {
        let mut writes = vec![Write::put(Record::Url(url.clone()), Expect::Version(version))];
        writes.extend(history.map(|entry| Write::put(Record::History(entry), Expect::Any)));
        self.try_write(writes).await
    }
}
