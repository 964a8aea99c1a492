//! Gives a URL its record again. A URL without one is enabled, wherever that is asked.

use super::super::subscriptions::new_url;
use super::super::{ConflictRetries, Engine, Result};
use crate::ids::{Tenant, UrlId};
use crate::ports::Write;
use crate::records::UrlRecord;

impl Engine {
    /// Creates the record of a URL that has none, as for a new URL.
    pub(crate) async fn restore_url(&self, tenant: &Tenant, (id, url): (&UrlId, &str)) -> Result<()> {
        let mut retries = ConflictRetries::many();
        loop {
            let known = self.repository.get_tenant_version(tenant).await?;
            let (expect, mut counter) = (known.expect(), known.record);
            if self.repository.get_url(tenant, id).await?.is_some() {
                return Ok(());
            }
            let now = self.ports.clock.now();
            let record = UrlRecord::new(tenant.clone(), id.clone(), url.to_owned(), now);
            let [record, entry] = new_url(&mut counter, record);
            if self.repository.try_write(vec![record, entry, Write::put(counter, expect)]).await? {
                tracing::warn!(%tenant, url_id = %id, "url.restored");
                return Ok(());
            }
            retries.again(id)?;
        }
    }

    /// The same for a URL that is known only by the deliveries that are parked there. `false`: nothing is.
    pub(crate) async fn restore_parked_url(&self, tenant: &Tenant, id: &UrlId) -> Result<bool> {
        let parked = self.repository.list_parked(tenant, id, None, 1).await?;
        let Some(pointer) = parked.items.into_iter().next() else { return Ok(false) };
        let Some(delivery) = self.repository.get_delivery(&pointer.key).await? else { return Ok(false) };
        self.restore_url(tenant, (id, &delivery.record.url)).await?;
        Ok(true)
    }
}
