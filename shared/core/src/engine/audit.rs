//! What the holders of keys changed, and who they are.

use super::{Engine, Page, Result};
use crate::ids::Tenant;
use crate::ports::{Expect, Order, Query, Write};
use crate::records::{Actor, AuditAction, AuditEntry};
use crate::time::Timestamp;

/// Which changes are listed, and in which order.
#[derive(Clone, Copy, Debug)]
pub struct AuditFilter {
    /// Made then or later.
    pub since: Option<Timestamp>,
    /// Made before.
    pub until: Option<Timestamp>,
    pub order: Order,
}

impl AuditFilter {
    /// Where the list begins. Keys of that time are longer than this, and so behind it.
    fn start(&self) -> Option<String> {
        let start = match self.order {
            Order::Ascending => self.since,
            Order::Descending => self.until,
        };
        start.map(Timestamp::sort_key)
    }

    /// Whether it is before the end of the list.
    fn contains(&self, entry: &AuditEntry) -> bool {
        self.since.is_none_or(|since| entry.at >= since) && self.until.is_none_or(|until| entry.at < until)
    }
}

impl AuditEntry {
    /// For the transaction of the change.
    pub(super) fn into_write(self) -> Write {
        Write::put(self, Expect::Any)
    }
}

impl Engine {
    /// The entry of a change that is made now. `tenant`: `None` if what is changed has none.
    pub(super) fn audit(
        &self,
        tenant: Option<&Tenant>,
        action: AuditAction,
        target: impl Into<String>,
        by: &Actor,
    ) -> AuditEntry {
        AuditEntry::new(tenant, action, target, by, (self.ports.clock.now(), self.random()))
    }

    /// The changes of one tenant, by its partition; `None`: those of what has no tenant.
    pub async fn list_audit(
        &self,
        tenant: Option<&Tenant>,
        filter: &AuditFilter,
        after: Option<String>,
        limit: usize,
    ) -> Result<Page<AuditEntry>> {
        let query = Query::of(AuditEntry::partition(tenant), limit).after(after.or_else(|| filter.start()));
        let mut page = self.repository.list::<AuditEntry>(Query { order: filter.order, ..query }).await?;
        // Behind the first that is too far, all are.
        if let Some(end) = page.items.iter().position(|entry| !filter.contains(entry)) {
            page.items.truncate(end);
            page.next = None;
        }
        Ok(page)
    }
}
