use std::sync::Arc;

use async_trait::async_trait;
use holdfast_core::ids::{Tenant, UrlId};
use holdfast_core::ports::{Backlog, StoreError, Waiting};
use holdfast_core::records::DeliveryRecord;
use rusqlite::{Connection, OptionalExtension};

use crate::queue::EmbeddedQueue;
use crate::readers::Readers;

pub(crate) const BYTES_BY_URL: &str = "SELECT list, bytes FROM backlog WHERE list >= ?1 AND list < ?2";
pub(crate) const SUM_OF_BYTES: &str =
    "SELECT coalesce(sum(bytes), 0) FROM backlog WHERE list >= ?1 AND list < ?2";
pub(crate) const STORED_BYTES: &str = "SELECT bytes FROM stored WHERE tenant = ?1";

/// How much waits: by the counters in the file, and by those of the queue.
pub struct EmbeddedBacklog {
    pub(crate) readers: Arc<Readers>,
    pub(crate) queue: Arc<EmbeddedQueue>,
}

#[async_trait]
impl Backlog for EmbeddedBacklog {
    async fn of(&self, tenant: &Tenant) -> Result<Option<Waiting>, StoreError> {
        let of = tenant.clone();
        let recorded =
            self.readers.read(tenant.as_str(), move |connection| recorded(connection, &of)).await?;
        Ok(Some(Waiting::sum(recorded.into_iter().chain(self.queue.queued_bytes_by_url(tenant)))))
    }

    async fn bytes(&self, tenant: &Tenant) -> Result<Option<u64>, StoreError> {
        let of = tenant.clone();
        let read = move |connection: &Connection| recorded_bytes(connection, &of);
        let recorded = self.readers.read(tenant.as_str(), read).await?;
        Ok(Some(recorded + self.queue.queued_bytes(tenant)))
    }

    async fn stored_bytes(&self, tenant: &Tenant) -> Result<Option<u64>, StoreError> {
        Ok(Some(self.readers.read_here(|connection| stored_bytes(connection, tenant))?))
    }
}

/// The bytes of bodies of deliveries that have a record and are waiting or parked, by URL.
fn recorded(connection: &Connection, tenant: &Tenant) -> rusqlite::Result<Vec<(UrlId, u64)>> {
    let (prefix, end) = lists_of(tenant);
    let mut statement = connection.prepare_cached(BYTES_BY_URL)?;
    let rows = statement.query_map([&prefix, &end], |row| {
        let (list, bytes): (String, i64) = (row.get(0)?, row.get(1)?);
        Ok((UrlId(list[prefix.len()..].to_owned()), u64::try_from(bytes).unwrap_or(0)))
    })?;
    rows.collect()
}

fn recorded_bytes(connection: &Connection, tenant: &Tenant) -> rusqlite::Result<u64> {
    let (prefix, end) = lists_of(tenant);
    let mut statement = connection.prepare_cached(SUM_OF_BYTES)?;
    let bytes: i64 = statement.query_row([&prefix, &end], |row| row.get(0))?;
    Ok(u64::try_from(bytes).unwrap_or(0))
}

fn stored_bytes(connection: &Connection, tenant: &Tenant) -> rusqlite::Result<u64> {
    let mut statement = connection.prepare_cached(STORED_BYTES)?;
    let bytes = statement.query_row([tenant.as_str()], |row| row.get::<_, i64>(0)).optional()?;
    Ok(bytes.map_or(0, |bytes| u64::try_from(bytes).unwrap_or(0)))
}

/// Every list of a URL of this tenant is from the first of these up to the second, and no other is: a tenant's name holds no `#`,
/// which `$` follows.
fn lists_of(tenant: &Tenant) -> (String, String) {
    let prefix = DeliveryRecord::url_list(tenant, &UrlId(String::new()));
    let end = format!("{}$", prefix.trim_end_matches('#'));
    (prefix, end)
}
