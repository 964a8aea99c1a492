//! Events, newest first: all of a tenant by their index, those of one subject by its partition.

use super::super::{Engine, Page, Result};
use super::{MAX_SCANNED, scan_cost};
use crate::ids::Tenant;
use crate::ports::{IndexQuery, Query};
use crate::records::{EventRecord, ListIndex, StateEntry, SubjectEntry};
use crate::time::Timestamp;

/// Which events are listed. The type narrows what is read; nothing lists by it.
#[derive(Clone, Debug, Default)]
pub struct EventFilter {
    pub event_type: Option<String>,
    pub subject: Option<String>,
    /// Accepted then or later.
    pub since: Option<Timestamp>,
    /// Accepted before.
    pub until: Option<Timestamp>,
}

/// An event in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedEvent {
    pub id: String,
    pub event_type: String,
    pub subject: Option<String>,
    pub accepted_at: Timestamp,
    /// How many deliveries it was accepted for.
    pub deliveries: u64,
}

impl From<EventRecord> for ListedEvent {
    fn from(event: EventRecord) -> ListedEvent {
        let EventRecord { id, event_type, subject, accepted_at, deliveries, .. } = event;
        ListedEvent { id, event_type, subject, accepted_at, deliveries }
    }
}

impl From<SubjectEntry> for ListedEvent {
    fn from(entry: SubjectEntry) -> ListedEvent {
        let SubjectEntry { event_id: id, event_type, subject, accepted_at, deliveries, .. } = entry;
        ListedEvent { id, event_type, subject: Some(subject), accepted_at, deliveries }
    }
}

impl Engine {
    /// Those of a type are searched for among at most `MAX_SCANNED` events, so a page of them may have few, and a next one.
    pub async fn list_events(
        &self,
        tenant: &Tenant,
        filter: &EventFilter,
        after: Option<String>,
        limit: usize,
    ) -> Result<Page<ListedEvent>> {
        let mut page = Page { items: Vec::new(), next: after };
        let mut scanned = 0;
        loop {
            let wanted = limit - page.items.len();
            let found = match &filter.subject {
                Some(subject) => {
                    self.events_with_subject(tenant, subject, filter, page.next.take(), wanted).await?
                }
                None => self.events_by_time(tenant, filter, page.next.take(), wanted).await?,
            };
            scanned += scan_cost(found.items.len());
            page.next = found.next;
            let is_wanted =
                |event: &ListedEvent| filter.event_type.as_ref().is_none_or(|name| event.event_type == *name);
            page.items.extend(found.items.into_iter().filter(is_wanted));
            if page.next.is_none() || page.items.len() >= limit || scanned >= MAX_SCANNED {
                return Ok(page);
            }
        }
    }

    async fn events_by_time(
        &self,
        tenant: &Tenant,
        filter: &EventFilter,
        after: Option<String>,
        limit: usize,
    ) -> Result<Page<ListedEvent>> {
        let (from, to) = (filter.since.map(Timestamp::sort_key), filter.until.map(Timestamp::sort_key));
        let query = IndexQuery::of(ListIndex::ByState, StateEntry::events_of(tenant), limit)
            .between(from, to)
            .after(after)
            .descending();
        let page = self.repository.list_index::<EventRecord>(query).await?;
        Ok(Page { items: page.items.into_iter().map(ListedEvent::from).collect(), next: page.next })
    }

    async fn events_with_subject(
        &self,
        tenant: &Tenant,
        subject: &str,
        filter: &EventFilter,
        after: Option<String>,
        limit: usize,
    ) -> Result<Page<ListedEvent>> {
        // Keys of that time are longer than this, and so behind it.
        let after = after.or_else(|| filter.until.map(Timestamp::sort_key));
        let query = Query::of(SubjectEntry::partition(tenant, subject), limit).after(after).descending();
        let page = self.repository.list::<SubjectEntry>(query).await?;
        let is_in = |entry: &SubjectEntry| filter.since.is_none_or(|since| entry.accepted_at >= since);
        // Behind the first that is too old, all are.
        let next = page.next.filter(|_| page.items.iter().all(is_in));
        let items = page.items.into_iter().filter(is_in).map(ListedEvent::from).collect();
        Ok(Page { items, next })
    }
}
