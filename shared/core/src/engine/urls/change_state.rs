//! What an operator does to a URL: enable, freeze, disable.

use std::time::Duration;

use super::super::tickets::{announce_ticket, release_ticket};
use super::super::{Change, Engine, Loaded, ReplayUrlError, Result, Unavailable, UrlView};
use crate::ids::{JobId, Tenant, UrlId};
use crate::ports::{Expect, Write};
use crate::records::{Actor, AuditAction, HistoryEntry, UrlRecord, UrlReplay};
use crate::rules::delivery::DeliveryState;
use crate::rules::health::{CannotDisableFrozen, OperatorAction, UrlState};
use crate::time::Timestamp;

#[derive(Debug, thiserror::Error)]
pub enum ChangeUrlStateError {
    #[error("there is no such URL")]
    Unknown,
    #[error(transparent)]
    Frozen(#[from] CannotDisableFrozen),
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// What an action led to. The counts are of parked deliveries, and only an enable has them.
#[derive(Clone, Debug)]
pub struct UrlStateChange {
    pub url: UrlView,
    pub released: u64,
    pub expired: u64,
    /// There were more than could be counted.
    pub more: bool,
    /// The replay of what expired, if that was asked for.
    pub replay: Option<JobId>,
}

/// Parked deliveries are counted up to this.
pub(crate) const MAX_PARKED_COUNTED: usize = 1_000;
/// Between two changes from enabled there are at most a few others, so the last one is among these.
const LAST_CHANGES: usize = 10;

fn audited(action: OperatorAction) -> AuditAction {
    match action {
        OperatorAction::Enable => AuditAction::UrlEnabled,
        OperatorAction::Freeze => AuditAction::UrlFrozen,
        OperatorAction::Disable => AuditAction::UrlDisabled,
    }
}

impl Engine {
    pub async fn change_url_state(
        &self,
        tenant: &Tenant,
        url_id: &UrlId,
        action: OperatorAction,
        why: Option<&str>,
        replay_expired: bool,
        by: &Actor,
    ) -> Result<UrlStateChange, ChangeUrlStateError> {
        let parked = if action == OperatorAction::Enable {
            Some(self.repository.list_parked(tenant, url_id, None, MAX_PARKED_COUNTED).await?)
        } else {
            None
        };
        let decide = |Loaded { record: before, .. }: Loaded<UrlRecord>| {
            let mut url = before.clone();
            let history =
                url.apply_action(action, why.unwrap_or("by hand"), &by.key_id, self.ports.clock.both())?;
            if url == before {
                return Ok(Change::Keep((url, false)));
            }
            let needs_ticket = history.is_some() && before.announcement.is_none();
            let replaced = history.as_ref().and_then(HistoryEntry::replaced);
            let audit = self.audit(Some(tenant), audited(action), url_id.as_str(), by).because(why);
            let history = history.map(|entry| Write::put(entry, Expect::Any));
            let replaced = replaced.map(|key| Write::delete(key, Expect::Any));
            let with = history.into_iter().chain(replaced).chain([audit.into_write()]).collect();
            Ok::<_, ChangeUrlStateError>(Change::Write(url.clone(), with, (url, needs_ticket)))
        };
        let changed = self.repository.update(UrlRecord::key(tenant, url_id), decide).await?;
        let (url, needs_ticket) = changed.ok_or(ChangeUrlStateError::Unknown)?;
        let mut tickets = Vec::new();
        if let (OperatorAction::Enable, Some(release)) = (action, &url.releasing) {
            tickets.push(release_ticket(tenant, url_id, release.step, Duration::ZERO));
        }
        if needs_ticket {
            tickets.push(announce_ticket(tenant, url_id));
        }
        self.send_tickets(tickets).await;
        let replay = if replay_expired { self.replay_expired(tenant, url_id, by).await? } else { None };
        let now = self.ports.clock.now();
        let (pointers, more) = parked.map_or((Vec::new(), false), |page| (page.items, page.next.is_some()));
        let expired = pointers.iter().filter(|pointer| now > pointer.expires_at).count() as u64;
        let released = pointers.len() as u64 - expired;
        Ok(UrlStateChange { url: UrlView::of(url), released, expired, more, replay })
    }

    /// Replays what expired while its URL was disabled or frozen. `None`: it never was.
    async fn replay_expired(&self, tenant: &Tenant, url_id: &UrlId, by: &Actor) -> Result<Option<JobId>> {
        let Some(since) = self.left_enabled_at(tenant, url_id).await? else { return Ok(None) };
        let wanted = UrlReplay {
            url_id: url_id.clone(),
            since: None,
            until: None,
            states: vec![DeliveryState::Dead],
            expired_since: Some(since),
        };
        match self.replay_expired_of(tenant, wanted, by).await {
            Ok(id) => Ok(Some(id)),
            Err(ReplayUrlError::Unavailable(error)) => Err(error),
            Err(ReplayUrlError::UnknownUrl | ReplayUrlError::Running(_)) => Ok(None),
        }
    }

    /// When the URL last stopped being enabled.
    async fn left_enabled_at(&self, tenant: &Tenant, url_id: &UrlId) -> Result<Option<Timestamp>> {
        let history = self.repository.list_history(tenant, url_id, LAST_CHANGES).await?;
        Ok(history.into_iter().find(|entry| entry.from == UrlState::Enabled).map(|entry| entry.at))
    }
}
