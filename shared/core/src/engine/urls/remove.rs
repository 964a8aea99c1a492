//! Removes a URL that has had no subscription for as long as deliveries are kept, with its history.

use super::super::{Engine, Loaded, Result};
use crate::ports::{Expect, Query, Write};
use crate::records::{HistoryEntry, Record, UrlListEntry, UrlRecord};

/// How many entries of the history one transaction removes, and how many transactions one look makes: the next look goes on.
const PAGE: usize = 90;
const MAX_PAGES: usize = 10;

impl Engine {
    /// If another writer changes the URL meanwhile, the sweep looks again.
    pub(crate) async fn remove_url(&self, url: Loaded<UrlRecord>) -> Result<()> {
        let Loaded { record: mut url, mut version } = url;
        if !self.repository.list_parked(&url.tenant, &url.id, None, 1).await?.items.is_empty() {
            // Its subscription was just deleted, and the job that ends its deliveries is behind.
            url.remove_at = Some(self.ports.clock.now() + self.settings.keep);
            self.repository.replace(url, version).await?;
            return Ok(());
        }
        for _ in 0..MAX_PAGES {
            let query = Query::of(UrlRecord::partition(&url.tenant, &url.id), PAGE);
            let page = self.repository.list::<HistoryEntry>(query.prefix(HistoryEntry::PREFIX)).await?;
            let mut writes: Vec<Write> =
                page.items.iter().map(|entry| Write::delete(entry.key(), Expect::Any)).collect();
            let is_last = page.next.is_none();
            if is_last {
                writes.extend(self.last_writes(&url, version).await?);
            } else {
                // So that nothing is removed once the URL has a subscription again.
                writes.push(Write::put(url.clone(), Expect::Version(version)));
            }
            if !self.repository.try_write(writes).await? || is_last {
                return Ok(());
            }
            version += 1;
        }
        Ok(())
    }

    async fn last_writes(&self, url: &UrlRecord, version: u64) -> Result<[Write; 3]> {
        let UrlRecord { tenant, id, .. } = url;
        let known = self.repository.get_tenant_version(tenant).await?;
        let (expect, mut counter) = (known.expect(), known.record);
        counter.urls = counter.urls.saturating_sub(1);
        let entry = Record::UrlListEntry(UrlListEntry { tenant: tenant.clone(), id: id.clone() });
        Ok([
            Write::delete(UrlRecord::key(tenant, id), Expect::Version(version)),
            Write::delete(entry.key(), Expect::Any),
            Write::put(counter, expect),
        ])
    }
}
