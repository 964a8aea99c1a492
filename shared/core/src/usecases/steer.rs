//! What a person does to a URL: enable, freeze, disable.

use std::time::Duration;

use super::enqueue::{announce_ticket, release_ticket};
use super::{Engine, MOST_CONFLICTS, Unavailable, UrlView};
use crate::ids::{JobId, Tenant, UrlId};
use crate::ports::{Order, Query};
use crate::records::{DeliveryState, HistoryEntry, ParkedPointer, Record, UrlRecord, UrlReplay};
use crate::rules::health::{CannotDisableFrozen, Manual, UrlState};
use crate::time::Timestamp;

#[derive(Debug, thiserror::Error)]
pub enum SteerError {
    #[error("there is no such URL")]
    Unknown,
    #[error(transparent)]
    Frozen(#[from] CannotDisableFrozen),
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// What an action led to. The counts are of parked deliveries, and only an enable has them.
#[derive(Clone, Debug)]
pub struct Steered {
    pub url: UrlView,
    pub released: u64,
    pub expired: u64,
    /// There were more than could be counted.
    pub more: bool,
    /// The replay of what expired, if that was asked for.
    pub replay: Option<JobId>,
}

/// Parked deliveries are counted up to this.
pub(super) const MOST_COUNTED: usize = 1_000;
/// A URL is enabled, disabled and frozen at most: the last time that it was enabled is not many changes ago.
const LAST_CHANGES: usize = 10;

impl Engine {
    /// `by`: who asked for it, for the history.
    pub async fn steer(
        &self,
        tenant: &Tenant,
        url_id: &UrlId,
        action: Manual,
        why: Option<&str>,
        replay_expired: bool,
        by: &str,
    ) -> Result<Steered, SteerError> {
        let parked = if action == Manual::Enable {
            self.parked(tenant, url_id, MOST_COUNTED).await?
        } else {
            Parked::default()
        };
        let why = why.unwrap_or("by hand");
        let (url, changed) = 'tries: {
            for _ in 0..MOST_CONFLICTS {
                let Some((mut url, version)) = self.get_url(tenant, url_id).await? else {
                    return Err(SteerError::Unknown);
                };
                let before = url.clone();
                let history = url.steer(action, why, by, self.ports.clock.both())?;
                let changed = history.is_some();
                if url == before || self.put_url(&url, version, history).await? {
                    break 'tries (url, changed);
                }
            }
            return Err(Unavailable(format!("{url_id} changes too often")).into());
        };
        let now = self.ports.clock.now();
        let (expired, alive): (Vec<_>, Vec<_>) =
            parked.pointers.into_iter().partition(|p| now > p.expires_at);
        let counts = (alive.len() as u64, expired.len() as u64);
        let mut tickets = Vec::new();
        if let (Manual::Enable, Some(release)) = (action, url.releasing) {
            tickets.push(release_ticket(tenant, url_id, release.step, Duration::ZERO));
        }
        if changed {
            tickets.push(announce_ticket(tenant, url_id));
        }
        self.hint(tickets).await;
        let replay = if replay_expired { self.replay_expired(tenant, url_id).await? } else { None };
        let url = UrlView::of(url);
        Ok(Steered { url, released: counts.0, expired: counts.1, more: parked.more, replay })
    }

    /// What expired because its URL was held back, found so or not. `None`: it never was.
    async fn replay_expired(&self, tenant: &Tenant, url_id: &UrlId) -> Result<Option<JobId>, Unavailable> {
        let Some(since) = self.last_held_back_at(tenant, url_id).await? else { return Ok(None) };
        let wanted = UrlReplay {
            url_id: url_id.clone(),
            since: None,
            until: None,
            states: vec![DeliveryState::Dead],
            expired_since: Some(since),
        };
        Ok(self.replay_url(tenant, wanted).await?.map(|replay| replay.id))
    }

    /// When the URL last stopped being enabled.
    async fn last_held_back_at(
        &self,
        tenant: &Tenant,
        url_id: &UrlId,
    ) -> Result<Option<Timestamp>, Unavailable> {
        let query = Query {
            partition: UrlRecord::partition(tenant, url_id),
            prefix: HistoryEntry::PREFIX.to_owned(),
            after: None,
            order: Order::Descending,
            limit: LAST_CHANGES,
        };
        let page = self.ports.store.query(query).await?;
        Ok(page.items.into_iter().find_map(|item| match item.record {
            Record::History(entry) if entry.from == UrlState::Enabled => Some(entry.at),
            _ => None,
        }))
    }

    /// Parked deliveries at a URL, in the order of their due times.
    pub(super) async fn parked(
        &self,
        tenant: &Tenant,
        url_id: &UrlId,
        most: usize,
    ) -> Result<Parked, Unavailable> {
        let query = Query {
            partition: ParkedPointer::partition(tenant, url_id),
            prefix: String::new(),
            after: None,
            order: Order::Ascending,
            limit: most,
        };
        let page = self.ports.store.query(query).await?;
        let pointers = page.items.into_iter().filter_map(|v| match v.record {
            Record::Parked(pointer) => Some(pointer),
            _ => None,
        });
        Ok(Parked { pointers: pointers.collect(), more: page.next.is_some() })
    }
}

#[derive(Default)]
pub(super) struct Parked {
    pub(super) pointers: Vec<ParkedPointer>,
    pub(super) more: bool,
}
