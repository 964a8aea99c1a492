//! Creates the record of a URL that a tenant subscribes for the first time.

use super::super::{Engine, Result};
use crate::ids::UrlId;
use crate::ports::{Expect, Write};
use crate::records::{TenantVersion, UrlListEntry, UrlRecord};
use crate::time::Timestamp;

impl Engine {
    /// What is to be written for a URL that the tenant has not had before; nothing if it has. Such a URL is counted on `counter`,
    /// which is to be written in the same transaction.
    pub(super) async fn ensure_url(
        &self,
        counter: &mut TenantVersion,
        (id, url): (&UrlId, &str),
        now: Timestamp,
    ) -> Result<Vec<Write>> {
        let tenant = &counter.tenant;
        if self.repository.get_url(tenant, id).await?.is_some() {
            return Ok(Vec::new());
        }
        let record = UrlRecord::new(tenant.clone(), id.clone(), url.to_owned(), now);
        let entry = UrlListEntry { tenant: tenant.clone(), id: id.clone() };
        counter.urls += 1;
        Ok(vec![Write::put(record, Expect::Absent), Write::put(entry, Expect::Any)])
    }
}
