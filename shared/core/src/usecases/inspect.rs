//! What can be seen of events, deliveries and URLs.

use futures_util::future::{join, join_all};

use super::{Engine, Unavailable};
use crate::ids::{DeliveryKey, EventKey, SubscriptionId, Tenant, UrlId, generated_at};
use crate::ports::{BodyKey, IndexQuery, Order, Query};
use crate::records::{
    Attempt, DeliveryRecord, DeliveryState, EventRecord, HistoryEntry, IdPhase, ListIndex, LoggedDelivery,
    Reason, Record, TopicName, UrlListEntry, UrlRecord, VERSION,
};
use crate::rules::health::UrlState;
use crate::time::Timestamp;

/// One page of a list, and where the next one starts.
#[derive(Clone, Debug)]
pub struct ListPage<T> {
    pub items: Vec<T>,
    pub next: Option<String>,
}

/// A delivery as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryView {
    pub id: String,
    pub event_id: String,
    pub event_type: String,
    pub subscription_id: SubscriptionId,
    pub url_id: UrlId,
    pub url: String,
    pub state: DeliveryState,
    pub reason: Option<Reason>,
    pub epoch: u32,
    pub accepted_at: Timestamp,
    /// Only while it is alive.
    pub due_at: Option<Timestamp>,
    pub expires_at: Option<Timestamp>,
    pub attempts: Vec<Attempt>,
}

#[derive(Clone, Debug)]
pub struct EventView {
    pub event: EventRecord,
    /// Not kept for an event that is still on its way, or of which only trouble is logged.
    pub body: Option<bytes::Bytes>,
    pub deliveries: Vec<DeliveryView>,
}

#[derive(Clone, Debug)]
pub struct UrlView {
    pub url: UrlRecord,
    /// Only when one URL is asked for.
    pub parked: Option<(u64, bool)>,
    pub history: Option<Vec<HistoryEntry>>,
}

impl UrlView {
    pub(super) fn of(url: UrlRecord) -> UrlView {
        UrlView { url, parked: None, history: None }
    }
}

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

/// How many entries are looked through for one page, so that a rare state does not make one request read everything.
pub(super) const MOST_LOOKED_THROUGH: usize = 2_000;
const LIST_PAGE: usize = 100;
/// The newest changes of state that are shown.
const MOST_HISTORY: usize = 100;

impl Engine {
    pub async fn view_delivery(&self, key: &DeliveryKey) -> Result<Option<DeliveryView>, Unavailable> {
        let partition = DeliveryRecord::partition(&key.tenant, &key.event_key);
        let records = self.query_all(partition, key.subscription_id.as_str()).await?;
        Ok(views(records, self.ports.clock.now()).into_iter().next())
    }

    pub async fn view_event(&self, tenant: &Tenant, id: &str) -> Result<Option<EventView>, Unavailable> {
        let recorded = self.get_event(tenant, id).await?;
        let Some(event_key) = event_key_of(id, recorded.as_ref()) else { return Ok(None) };
        let body_key = BodyKey::new(tenant, &event_key);
        let (deliveries, bodies) = join(
            self.deliveries_of(tenant, &event_key),
            self.ports.store.get_bodies(std::slice::from_ref(&body_key)),
        )
        .await;
        let (deliveries, body) = (deliveries?, bodies?.into_iter().next().flatten());
        let event = recorded.or_else(|| unrecorded(tenant, event_key, &deliveries, body.as_deref()));
        Ok(event.map(|event| EventView { event, body, deliveries }))
    }

    async fn get_event(&self, tenant: &Tenant, id: &str) -> Result<Option<EventRecord>, Unavailable> {
        let found = self.get_one(EventRecord::key(tenant, id)).await?;
        Ok(found.and_then(|v| match v.record {
            Record::Event(event) => Some(event),
            _ => None,
        }))
    }

    async fn deliveries_of(
        &self,
        tenant: &Tenant,
        event_key: &EventKey,
    ) -> Result<Vec<DeliveryView>, Unavailable> {
        let records = self.query_all(DeliveryRecord::partition(tenant, event_key), "").await?;
        Ok(views(records, self.ports.clock.now()))
    }

    async fn query_all(&self, partition: String, prefix: &str) -> Result<Vec<Record>, Unavailable> {
        let mut records = Vec::new();
        let mut after = None;
        loop {
            let query = Query {
                partition: partition.clone(),
                prefix: prefix.to_owned(),
                after,
                order: Order::Ascending,
                limit: LIST_PAGE,
            };
            let page = self.ports.store.query(query).await?;
            records.extend(page.items.into_iter().map(|v| v.record));
            after = page.next;
            if after.is_none() {
                return Ok(records);
            }
        }
    }

    /// Newest first.
    pub async fn list_deliveries(
        &self,
        tenant: &Tenant,
        filter: &DeliveryFilter,
        after: Option<String>,
        limit: usize,
    ) -> Result<ListPage<DeliveryView>, ListError> {
        if let Scope::Event(id) = &filter.scope {
            return self.list_deliveries_of_event(tenant, id, filter, after, limit).await;
        }
        if let (Scope::Tenant, Some(topic)) = (&filter.scope, filter.state.and_then(TopicName::of_delivery)) {
            return Ok(self.list_deliveries_in(topic, tenant, filter, after, limit).await?);
        }
        let (index, partition) = match &filter.scope {
            Scope::Url(id) => (ListIndex::ByUrl, DeliveryRecord::url_list(tenant, id)),
            Scope::Subscription(id) => {
                (ListIndex::BySubscription, DeliveryRecord::subscription_list(tenant, id))
            }
            Scope::Tenant | Scope::Event(_) => (ListIndex::ByTenant, DeliveryRecord::tenant_list(tenant)),
        };
        let (mut shown, next) = split_cursor(after);
        let mut page = ListPage { items: Vec::new(), next };
        let mut looked_through = 0;
        loop {
            let query = IndexQuery {
                index,
                partition: partition.clone(),
                from: filter.since.map(Timestamp::sort_key),
                to: filter.until.map(Timestamp::sort_key),
                after: page.next.take(),
                order: Order::Descending,
                limit: limit - page.items.len(),
            };
            let found = self.ports.store.query_index(query).await.map_err(Unavailable::from)?;
            looked_through += found.items.len();
            page.next = found.next;
            let mut keys: Vec<DeliveryKey> =
                found.items.iter().filter_map(|v| listed_key(&v.record)).collect();
            keys.dedup();
            keys.retain(|key| shown.as_ref() != Some(&key.id()));
            shown = keys.last().map(DeliveryKey::id).or(shown);
            for view in self.view_each(&keys).await? {
                if filter.wants(&view) {
                    page.items.push(view);
                }
            }
            if page.next.is_none() || page.items.len() >= limit || looked_through >= MOST_LOOKED_THROUGH {
                page.next = page.next.map(|next| format!("{} {next}", shown.unwrap_or_default()));
                return Ok(page);
            }
        }
    }

    pub(super) async fn view_each(&self, keys: &[DeliveryKey]) -> Result<Vec<DeliveryView>, Unavailable> {
        let views = join_all(keys.iter().map(|key| self.view_delivery(key))).await;
        views.into_iter().filter_map(Result::transpose).collect()
    }

    async fn list_deliveries_of_event(
        &self,
        tenant: &Tenant,
        event_id: &str,
        filter: &DeliveryFilter,
        after: Option<String>,
        limit: usize,
    ) -> Result<ListPage<DeliveryView>, ListError> {
        let recorded = self.get_event(tenant, event_id).await?;
        let event_key = event_key_of(event_id, recorded.as_ref()).ok_or(ListError::UnknownEvent)?;
        let mut all = self.deliveries_of(tenant, &event_key).await?;
        all.retain(|view| filter.wants(view) && after.as_ref().is_none_or(|after| view.id > *after));
        let more = all.len() > limit;
        all.truncate(limit);
        let next = if more { all.last().map(|view| view.id.clone()) } else { None };
        Ok(ListPage { items: all, next })
    }

    pub async fn view_url(&self, tenant: &Tenant, id: &UrlId) -> Result<Option<UrlView>, Unavailable> {
        let Some((url, _)) = self.get_url(tenant, id).await? else { return Ok(None) };
        let query = Query {
            partition: UrlRecord::partition(tenant, id),
            prefix: "history#".to_owned(),
            after: None,
            order: Order::Descending,
            limit: MOST_HISTORY,
        };
        let (parked, history) =
            join(self.parked(tenant, id, super::steer::MOST_COUNTED), self.ports.store.query(query)).await;
        let parked = parked?;
        let now = self.ports.clock.now();
        // What is past its time is dead, whether or not anything has touched it yet.
        let alive = parked.pointers.iter().filter(|p| p.expires_at >= now).count() as u64;
        let history = history?.items.into_iter().filter_map(|v| match v.record {
            Record::History(entry) => Some(entry),
            _ => None,
        });
        Ok(Some(UrlView { url, parked: Some((alive, parked.more)), history: Some(history.collect()) }))
    }

    /// In the order of their ids.
    pub async fn list_urls(
        &self,
        tenant: &Tenant,
        state: Option<UrlState>,
        after: Option<String>,
        limit: usize,
    ) -> Result<ListPage<UrlView>, Unavailable> {
        if let Some((state, topic)) = state.and_then(|state| Some((state, TopicName::of_url(state)?))) {
            return self.list_urls_in(topic, tenant, state, after, limit).await;
        }
        let mut page = ListPage { items: Vec::new(), next: after };
        let mut looked_through = 0;
        loop {
            let query = Query {
                partition: UrlListEntry::partition(tenant),
                prefix: String::new(),
                after: page.next.take(),
                order: Order::Ascending,
                limit: limit - page.items.len(),
            };
            let found = self.ports.store.query(query).await?;
            looked_through += found.items.len();
            page.next = found.next;
            let keys: Vec<_> = found
                .items
                .iter()
                .filter_map(|v| match &v.record {
                    Record::UrlListEntry(entry) => Some(UrlRecord::key(tenant, &entry.id)),
                    _ => None,
                })
                .collect();
            let urls = self.get_all(&keys).await?.into_iter().flatten().filter_map(|v| match v.record {
                Record::Url(url) => Some(url),
                _ => None,
            });
            let wanted = urls.filter(|url| state.is_none_or(|state| url.health.state == state));
            page.items.extend(wanted.map(UrlView::of));
            if page.next.is_none() || page.items.len() >= limit || looked_through >= MOST_LOOKED_THROUGH {
                return Ok(page);
            }
        }
    }
}

impl DeliveryFilter {
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

fn listed_key(record: &Record) -> Option<DeliveryKey> {
    match record {
        Record::Delivery(record) => Some(record.key.clone()),
        Record::Logged(logged) => Some(logged.key.clone()),
        _ => None,
    }
}

/// Puts together what stands under one event: record, log and attempts of each delivery, in the order of subscriptions.
fn views(records: Vec<Record>, now: Timestamp) -> Vec<DeliveryView> {
    let mut views: Vec<DeliveryView> = Vec::new();
    let mut attempts: Vec<Attempt> = Vec::new();
    let mut logged: Vec<LoggedDelivery> = Vec::new();
    for record in records {
        match record {
            Record::Delivery(record) => views.push(view_of(record, now)),
            Record::Logged(log) => logged.push(log),
            Record::Attempt(attempt) => attempts.push(attempt),
            _ => {}
        }
    }
    for log in logged {
        attempts.push(log.attempt.clone());
        let id = log.key.id();
        match views.iter_mut().find(|view| view.id == id) {
            // Delivered if either says so, but a replay is younger than the log.
            Some(view) if view.epoch == 0 => {
                view.state = DeliveryState::Delivered;
                view.reason = None;
                view.due_at = None;
                view.expires_at = None;
            }
            Some(_) => {}
            None => views.push(view_of_log(log)),
        }
    }
    for attempt in attempts {
        let id = attempt.key.id();
        if let Some(view) = views.iter_mut().find(|view| view.id == id) {
            view.attempts.push(attempt);
        }
    }
    for view in &mut views {
        view.attempts.sort_by_key(|a| (a.epoch, a.n, a.at));
    }
    views.sort_by(|a, b| a.id.cmp(&b.id));
    views
}

fn view_of(record: DeliveryRecord, now: Timestamp) -> DeliveryView {
    let (state, reason) = record.state_at(now);
    DeliveryView {
        id: record.key.id(),
        event_id: record.event_id,
        event_type: record.event_type,
        subscription_id: record.key.subscription_id,
        url_id: record.url_id,
        url: record.url,
        state,
        reason,
        epoch: record.epoch,
        accepted_at: record.accepted_at,
        due_at: state.is_live().then_some(record.due_at),
        expires_at: state.is_live().then_some(record.expires_at),
        attempts: Vec::new(),
    }
}

fn view_of_log(log: LoggedDelivery) -> DeliveryView {
    DeliveryView {
        id: log.key.id(),
        event_id: log.event_id,
        event_type: log.event_type,
        subscription_id: log.key.subscription_id,
        url_id: log.url_id,
        url: log.url,
        state: DeliveryState::Delivered,
        reason: None,
        epoch: 0,
        accepted_at: log.accepted_at,
        due_at: None,
        expires_at: None,
        attempts: Vec::new(),
    }
}

fn event_key_of(id: &str, recorded: Option<&EventRecord>) -> Option<EventKey> {
    match recorded {
        Some(event) => Some(event.event_key.clone()),
        None => generated_at(id).map(|accepted_at| EventKey::of(id, accepted_at)),
    }
}

/// An event that has no record of its own, as its deliveries show it: where only trouble is logged.
fn unrecorded(
    tenant: &Tenant,
    event_key: EventKey,
    deliveries: &[DeliveryView],
    body: Option<&[u8]>,
) -> Option<EventRecord> {
    #[derive(serde::Deserialize)]
    struct Posted {
        subject: Option<String>,
    }
    let one = deliveries.first()?;
    Some(EventRecord {
        v: VERSION,
        tenant: tenant.clone(),
        id: one.event_id.clone(),
        event_key,
        event_type: one.event_type.clone(),
        subject: body.and_then(|body| serde_json::from_slice::<Posted>(body).ok()?.subject),
        accepted_at: one.accepted_at,
        deliveries: deliveries.len() as u64,
        fingerprint: String::new(),
        phase: IdPhase::Done,
        remove_at: None,
    })
}
