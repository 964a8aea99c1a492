//! Deliveries, one or a list of them.

use futures_util::future::join_all;

use super::super::{Engine, Page, Result, Unavailable};
use super::in_state::lists_of_subscription;
use super::{DeliveryView, MAX_SCANNED, scan_cost};
use crate::ids::{DeliveryKey, SubscriptionId, Tenant, UrlId};
use crate::ports::{IndexQuery, Query};
use crate::records::{DeliveryRecord, ListIndex, Record, StateIndex};
use crate::rules::delivery::DeliveryState;
use crate::time::Timestamp;

/// Which list answers the question.
#[derive(Clone, Debug)]
pub enum Scope {
    Tenant,
    Event(String),
    Url(UrlId),
    Subscription(SubscriptionId),
}

/// What to list. The scope picks the index; the rest narrows what comes from it.
#[derive(Clone, Debug)]
pub struct DeliveryFilter {
    pub scope: Scope,
    pub url: Option<UrlId>,
    pub subscription: Option<SubscriptionId>,
    pub state: Option<DeliveryState>,
    pub since: Option<Timestamp>,
    pub until: Option<Timestamp>,
}

#[derive(Debug, thiserror::Error)]
pub enum ListError {
    #[error("there is no such event")]
    UnknownEvent,
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// How many attempts of a delivery are shown: the newest. A delivery that is replayed over and over has any number of them.
const MAX_ATTEMPTS_SHOWN: usize = 100;
/// The same in lists: those of two epochs.
const MAX_ATTEMPTS_LISTED: usize = 24;
/// A delivery's record and its log.
const BESIDE_ATTEMPTS: usize = 2;

impl Engine {
    pub async fn view_delivery(&self, key: &DeliveryKey) -> Result<Option<DeliveryView>> {
        self.view_with_attempts(key, MAX_ATTEMPTS_SHOWN).await
    }

    async fn view_with_attempts(
        &self,
        key: &DeliveryKey,
        max_attempts: usize,
    ) -> Result<Option<DeliveryView>> {
        let partition = DeliveryRecord::partition(&key.tenant, &key.event_key);
        // From the end: the log, the record, and the attempts from the newest on.
        let query = Query::of(partition, max_attempts + BESIDE_ATTEMPTS)
            .prefix(DeliveryRecord::prefix(&key.subscription_id))
            .descending();
        let page = self.repository.list::<Record>(query).await?;
        let view = DeliveryView::of(page.items, &self.settings, self.ports.clock.now());
        Ok(view.map(|view| view.with_newest(max_attempts)))
    }

    /// Newest first; those of one event in the order of their ids.
    pub async fn list_deliveries(
        &self,
        tenant: &Tenant,
        filter: &DeliveryFilter,
        after: Option<String>,
        limit: usize,
    ) -> Result<Page<DeliveryView>, ListError> {
        let (index, partition) = match &filter.scope {
            Scope::Event(id) => {
                let event_key = self.find_event(tenant, id).await?.ok_or(ListError::UnknownEvent)?.0;
                return Ok(self.list_deliveries_of(tenant, &event_key, filter, after, limit).await?);
            }
            Scope::Url(id) => (ListIndex::ByUrl, DeliveryRecord::url_list(tenant, id)),
            Scope::Subscription(id) => {
                let lists = lists_of_subscription(tenant, id, filter.state);
                return Ok(self.list_deliveries_in(&lists, filter, after, limit).await?);
            }
            Scope::Tenant => match filter.state.and_then(StateIndex::of_delivery) {
                Some(state) => {
                    let lists = self.lists_in_state(state, tenant);
                    return Ok(self.list_deliveries_in(&lists, filter, after, limit).await?);
                }
                None => (ListIndex::ByTenant, DeliveryRecord::tenant_list(tenant)),
            },
        };
        let (mut shown, next) = split_cursor(after);
        let mut page = Page { items: Vec::new(), next };
        let mut scanned = 0;
        loop {
            let (from, to) = (filter.since.map(Timestamp::sort_key), filter.until.map(Timestamp::sort_key));
            let query = IndexQuery::of(index, partition.clone(), limit - page.items.len())
                .between(from, to)
                .after(page.next.take())
                .descending();
            let found = self.repository.list_index::<Record>(query).await?;
            scanned += scan_cost(found.items.len());
            page.next = found.next;
            let mut keys: Vec<DeliveryKey> = found.items.iter().filter_map(listed_key).collect();
            keys.dedup();
            keys.retain(|key| shown.as_ref() != Some(&key.id()));
            shown = keys.last().map(DeliveryKey::id).or(shown);
            for view in self.view_each(&keys).await? {
                if filter.wants(&view) {
                    page.items.push(view);
                }
            }
            if page.next.is_none() || page.items.len() >= limit || scanned >= MAX_SCANNED {
                page.next = page.next.map(|next| format!("{} {next}", shown.unwrap_or_default()));
                return Ok(page);
            }
        }
    }

    pub(super) async fn view_each(&self, keys: &[DeliveryKey]) -> Result<Vec<DeliveryView>> {
        let view = |key| self.view_with_attempts(key, MAX_ATTEMPTS_LISTED);
        let views = join_all(keys.iter().map(view)).await;
        views.into_iter().filter_map(Result::transpose).collect()
    }
}

impl DeliveryFilter {
    pub(super) fn of_event(id: &str) -> DeliveryFilter {
        let scope = Scope::Event(id.to_owned());
        DeliveryFilter { scope, url: None, subscription: None, state: None, since: None, until: None }
    }

    pub(super) fn wants(&self, view: &DeliveryView) -> bool {
        self.url.as_ref().is_none_or(|id| view.url_id == *id)
            && self.subscription.as_ref().is_none_or(|id| view.subscription_id == *id)
            && self.state.is_none_or(|state| view.state == state)
            && self.since.is_none_or(|since| view.accepted_at >= since)
            && self.until.is_none_or(|until| view.accepted_at < until)
    }
}

/// A record and the log of the same delivery stand beside each other in a list and are shown as one, also when a page ends
/// between them: so a cursor begins with the delivery that was shown last.
fn split_cursor(cursor: Option<String>) -> (Option<String>, Option<String>) {
    match cursor.as_deref().and_then(|cursor| cursor.split_once(' ')) {
        Some((shown, next)) => (Some(shown.to_owned()), Some(next.to_owned())),
        None => (None, cursor),
    }
}

pub(super) fn listed_key(record: &Record) -> Option<DeliveryKey> {
    match record {
        Record::Delivery(record) => Some(record.key.clone()),
        Record::Logged(logged) => Some(logged.delivery.key.clone()),
        _ => None,
    }
}
