//! The subscriptions of one URL.

use super::super::{Engine, Page, Result};
use super::create::{LISTED_AT_A_TIME, MAX_LISTED_BYTES};
use crate::ids::{Tenant, UrlId};
use crate::ports::IndexQuery;
use crate::records::{ListIndex, StateEntry, Subscription};

impl Engine {
    /// In the order of their ids, by the index. A page of large subscriptions has fewer than `limit`.
    pub async fn list_subscriptions_of(
        &self,
        tenant: &Tenant,
        url_id: &UrlId,
        after: Option<String>,
        limit: usize,
    ) -> Result<Page<Subscription>> {
        let mut page = Page { items: Vec::new(), next: after };
        let mut bytes = 0;
        loop {
            let count = (limit - page.items.len()).min(LISTED_AT_A_TIME);
            let query =
                IndexQuery::of(ListIndex::ByState, StateEntry::subscriptions_of(tenant, url_id), count);
            let some = self.repository.list_index::<Subscription>(query.after(page.next.take())).await?;
            page.next = some.next;
            // The index may lag behind the record.
            for subscription in some.items.into_iter().filter(|one| one.url_id == *url_id) {
                bytes += subscription.shown_bytes();
                page.items.push(subscription);
            }
            if page.next.is_none() || page.items.len() >= limit || bytes >= MAX_LISTED_BYTES {
                return Ok(page);
            }
        }
    }
}
