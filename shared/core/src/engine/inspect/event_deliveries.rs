//! The deliveries of one event, page by page: there may be ten thousand.

use super::super::{Engine, Page, Result};
use super::{DeliveryFilter, DeliveryView, MAX_SCANNED};
use crate::ids::{DeliveryKey, EventKey, SubscriptionId, Tenant};
use crate::ports::Query;
use crate::records::{DeliveryRecord, Record};

/// How many records are read in one go: record, log and attempts of each delivery are records of their own.
const PAGE: usize = 200;

impl Engine {
    /// In the order of their ids. A page ends between deliveries, and the next begins behind the id of the last one that was
    /// looked at, whatever was added meanwhile.
    pub(super) async fn list_deliveries_of(
        &self,
        tenant: &Tenant,
        event_key: &EventKey,
        filter: &DeliveryFilter,
        after: Option<String>,
        limit: usize,
    ) -> Result<Page<DeliveryView>> {
        let key_of = |subscription_id: SubscriptionId| DeliveryKey {
            tenant: tenant.clone(),
            event_key: event_key.clone(),
            subscription_id,
        };
        let mut last = after.and_then(|id| DeliveryKey::parse(tenant, &id)).map(|key| key.subscription_id);
        let mut items = Vec::new();
        let mut scanned = 0;
        loop {
            let (groups, more) = self.whole_deliveries(tenant, event_key, last.as_ref()).await?;
            let count = groups.len();
            for (index, (subscription_id, records)) in groups.into_iter().enumerate() {
                scanned += records.len();
                // One that alone fills a page has more attempts than are shown.
                let view = match records.len() < PAGE {
                    true => DeliveryView::of(records, &self.settings, self.ports.clock.now()),
                    false => self.view_delivery(&key_of(subscription_id.clone())).await?,
                };
                items.extend(view.filter(|view| filter.wants(view)));
                let enough = items.len() >= limit || scanned >= MAX_SCANNED;
                if enough {
                    let next = (more || index + 1 < count).then(|| key_of(subscription_id).id());
                    return Ok(Page { items, next });
                }
                last = Some(subscription_id);
            }
            if !more {
                return Ok(Page { items, next: None });
            }
        }
    }

    /// The records of the next deliveries, each delivery with all of its own or with a whole page of them, and whether there are more.
    async fn whole_deliveries(
        &self,
        tenant: &Tenant,
        event_key: &EventKey,
        after: Option<&SubscriptionId>,
    ) -> Result<(Vec<(SubscriptionId, Vec<Record>)>, bool)> {
        let mut groups: Vec<(SubscriptionId, Vec<Record>)> = Vec::new();
        let query =
            Query::of(DeliveryRecord::partition(tenant, event_key), PAGE).after(after.map(behind_all_of));
        let page = self.repository.list::<Record>(query).await?;
        for record in page.items {
            let Some(id) = subscription_of(&record) else { continue };
            match groups.last_mut() {
                Some((last, records)) if *last == *id => records.push(record),
                _ => groups.push((id.clone(), vec![record])),
            }
        }
        // The page may have ended inside the last one, which comes whole with the next page then.
        if page.next.is_some() && groups.len() > 1 {
            groups.pop();
        }
        Ok((groups, page.next.is_some()))
    }
}

fn subscription_of(record: &Record) -> Option<&SubscriptionId> {
    match record {
        Record::Delivery(record) => Some(&record.key.subscription_id),
        Record::Logged(logged) => Some(&logged.delivery.key.subscription_id),
        Record::Attempt(attempt) => Some(&attempt.key.subscription_id),
        _ => None,
    }
}

/// Sorts behind everything of this delivery, whose records are called `subscription#…`, and before the next.
fn behind_all_of(subscription_id: &SubscriptionId) -> String {
    format!("{subscription_id}$")
}
