//! The tenant's subscriptions in memory, known to be current by one small read.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::{Engine, Unavailable};
use crate::ids::Tenant;
use crate::ports::{Order, Query};
use crate::records::{Record, Subscription};
use crate::rules::look::Look;
use crate::rules::{event_type, filter};

/// In the order of their ids.
pub(super) type SubscriptionList = Arc<Vec<Arc<Subscription>>>;

#[derive(Default)]
pub(super) struct SubscriptionCache {
    by_tenant: Mutex<HashMap<Tenant, (u64, SubscriptionList)>>,
}

const PAGE: usize = 500;

impl Engine {
    /// The tenant's subscriptions as of this version or later. The version is read first, so that one made a moment ago counts:
    /// a change in between is loaded early, never missed.
    pub(super) async fn subscriptions_at(
        &self,
        tenant: &Tenant,
        version: u64,
    ) -> Result<SubscriptionList, Unavailable> {
        if let Some((cached, list)) = self.cache().get(tenant)
            && *cached == version
        {
            return Ok(Arc::clone(list));
        }
        let list: SubscriptionList = Arc::new(self.load_subscriptions(tenant).await?);
        self.cache().insert(tenant.clone(), (version, Arc::clone(&list)));
        Ok(list)
    }

    fn cache(&self) -> std::sync::MutexGuard<'_, HashMap<Tenant, (u64, SubscriptionList)>> {
        self.subscriptions.by_tenant.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn load_subscriptions(&self, tenant: &Tenant) -> Result<Vec<Arc<Subscription>>, Unavailable> {
        let mut list = Vec::new();
        let mut after = None;
        loop {
            let query = Query {
                partition: Subscription::partition(tenant),
                prefix: String::new(),
                after,
                order: Order::Ascending,
                limit: PAGE,
            };
            let page = self.ports.store.query(query).await?;
            list.extend(page.items.into_iter().filter_map(|item| match item.record {
                Record::Subscription(subscription) => Some(Arc::new(subscription)),
                _ => None,
            }));
            after = page.next;
            if after.is_none() {
                return Ok(list);
            }
        }
    }
}

/// Those that want this event, in the order of their ids. The body is only looked into if somebody filters.
pub(super) fn matching<'a>(
    list: &'a [Arc<Subscription>],
    name: &'a str,
    body: &'a [u8],
) -> impl Iterator<Item = &'a Arc<Subscription>> {
    list.iter().filter(move |s| {
        s.active
            && s.event_types.iter().any(|pattern| event_type::matches(pattern, name))
            && filter::passes(&s.filters, s.filter_connector, &Look::at(body))
    })
}
