//! What a person does to a URL: enable, freeze, disable.

use std::time::Duration;

use super::enqueue::{announce_ticket, delivery_ticket, release_ticket};
use super::{Engine, MOST_CONFLICTS, Unavailable, UrlView};
use crate::ids::{Tenant, UrlId};
use crate::ports::{BodyKey, Delay, Order, Query};
use crate::records::{DeliveryState, ParkedPointer, Reason, Record};
use crate::rules::health::{CannotDisableFrozen, Manual};

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
}

/// Parked deliveries are counted up to this.
pub(super) const MOST_COUNTED: usize = 1_000;

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
        // Before the release, which would make them dead.
        if replay_expired {
            self.replay_expired(expired).await?;
        }
        let mut tickets = Vec::new();
        if let (Manual::Enable, Some(release)) = (action, url.releasing) {
            tickets.push(release_ticket(tenant, url_id, release.step, Duration::ZERO));
        }
        if changed {
            tickets.push(announce_ticket(tenant, url_id));
        }
        self.hint(tickets).await;
        Ok(Steered { url: UrlView::of(url), released: counts.0, expired: counts.1, more: parked.more })
    }

    async fn replay_expired(&self, expired: Vec<ParkedPointer>) -> Result<(), Unavailable> {
        for pointer in expired {
            let Some((before, version)) = self.get_delivery(&pointer.key).await? else { continue };
            let now = self.ports.clock.now();
            if before.state_at(now) != (DeliveryState::Dead, Some(Reason::Expired)) {
                continue;
            }
            let key = BodyKey::of(&pointer.key);
            if !self.ports.store.keep_body(&key, self.body_remove_at()).await? {
                continue;
            }
            let mut record = before.clone();
            record.replay(&self.settings.schedule, now);
            if self.put_delivery(&before, version, record.clone(), Vec::new()).await? {
                self.hint(vec![delivery_ticket(&record, Delay::NONE)]).await;
            }
        }
        Ok(())
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
