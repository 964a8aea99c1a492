//! Creates, lists, deletes and authenticates keys, and lists tenants.

use super::{ConflictRetries, Engine, Loaded, Page, Result, Unavailable};
use crate::ids::{KeyId, Tenant, fingerprint};
use crate::ports::{Expect, Query, Write};
use crate::records::{Actor, AuditAction, KeyRecord, OperatorGuard, TenantRecord};
use crate::rules::access::{self, Role};
use crate::time::Timestamp;

/// Validated by the API: only an operator's key has no tenant, and `expires_at_real` is in the future.
#[derive(Clone, Debug)]
pub struct NewKey {
    pub tenant: Option<Tenant>,
    pub role: Role,
    pub description: Option<String>,
    pub expires_at_real: Option<Timestamp>,
}

/// A key that was just created. Its text is not stored and cannot be shown again.
pub struct CreatedKey {
    pub record: KeyRecord,
    pub text: String,
}

#[derive(Debug, thiserror::Error)]
pub enum DeleteKeyError {
    #[error("there is no such key")]
    Unknown,
    #[error("it is the last operator's key")]
    LastOperator,
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

const PAGE: usize = 100;
/// How many keys are read for one page, so that a tenant with few keys does not make one request read all of them.
const MAX_SCANNED: usize = 2_000;

impl Engine {
    pub async fn create_key(&self, new: NewKey, by: &Actor) -> Result<CreatedKey> {
        let text = access::new_key(self.random());
        let hash = fingerprint(text.as_bytes());
        let record = KeyRecord {
            id: KeyId::of(&hash),
            tenant: new.tenant,
            role: new.role,
            hash,
            description: new.description,
            created_at_real: self.ports.clock.wall(),
            expires_at_real: new.expires_at_real,
        };
        let mut retries = ConflictRetries::new();
        loop {
            let audit = self.audit(record.tenant.as_ref(), AuditAction::KeyCreated, record.id.as_str(), by);
            let mut writes = vec![Write::put(record.clone(), Expect::Absent), audit.into_write()];
            if let Some(tenant) = &record.tenant
                && !self.tenant_exists(tenant).await?
            {
                let (tenant, created_at_real) = (tenant.clone(), record.created_at_real);
                let first = TenantRecord { tenant, created_at_real };
                writes.push(Write::put(first, Expect::Absent));
            }
            if record.role == Role::Operator {
                writes.push(self.changed_operators().await?);
            }
            if self.repository.try_write(writes).await? {
                return Ok(CreatedKey { record, text });
            }
            retries.again("the list of keys")?;
        }
    }

    /// The key with this hash, if there is one and it has not expired.
    pub async fn authenticate(&self, hash: &str) -> Result<Option<KeyRecord>> {
        let found = self.get_key(&KeyId::of(hash)).await?.map(|key| key.record);
        let now_real = self.ports.clock.wall();
        Ok(found.filter(|key| access::same_hash(&key.hash, hash) && key.is_valid_at(now_real)))
    }

    /// In the order of their ids. Expired keys are listed until they are deleted.
    pub async fn list_keys(
        &self,
        tenant: Option<&Tenant>,
        after: Option<String>,
        limit: usize,
    ) -> Result<Page<KeyRecord>> {
        let mut page = Page { items: Vec::new(), next: after };
        let mut scanned = 0;
        loop {
            let found = self.keys_after(page.next.take(), limit - page.items.len()).await?;
            scanned += super::inspect::scan_cost(found.items.len());
            page.next = found.next;
            let wanted = |key: &KeyRecord| tenant.is_none_or(|tenant| key.tenant.as_ref() == Some(tenant));
            page.items.extend(found.items.into_iter().filter(wanted));
            if page.next.is_none() || page.items.len() >= limit || scanned >= MAX_SCANNED {
                return Ok(page);
            }
        }
    }

    /// Only a key of `tenant`, if one is given. The last operator's key that has not expired cannot be deleted, unless the host has
    /// one of its own (`operator_remains`).
    pub async fn delete_key(
        &self,
        id: &KeyId,
        tenant: Option<&Tenant>,
        operator_remains: bool,
        by: &Actor,
    ) -> Result<(), DeleteKeyError> {
        let mut retries = ConflictRetries::new();
        loop {
            let found = self.get_key(id).await?;
            let Loaded { record: key, version } = found
                .filter(|key| tenant.is_none_or(|tenant| key.record.tenant.as_ref() == Some(tenant)))
                .ok_or(DeleteKeyError::Unknown)?;
            let audit = self.audit(key.tenant.as_ref(), AuditAction::KeyDeleted, id.as_str(), by);
            let mut writes =
                vec![Write::delete(KeyRecord::key(id), Expect::Version(version)), audit.into_write()];
            if key.role == Role::Operator {
                // Read before the others are counted, so that a concurrent deletion of one of them is a conflict.
                writes.push(self.changed_operators().await?);
                if !operator_remains && !self.has_other_operator(id).await? {
                    return Err(DeleteKeyError::LastOperator);
                }
            }
            if self.repository.try_write(writes).await? {
                return Ok(());
            }
            retries.again("the list of keys")?;
        }
    }

    pub async fn tenant_exists(&self, tenant: &Tenant) -> Result<bool> {
        Ok(self.repository.get::<TenantRecord>(TenantRecord::key(tenant)).await?.is_some())
    }

    /// The names of tenants, in order, beyond `after`.
    pub async fn list_tenants(&self, after: Option<&Tenant>, limit: usize) -> Result<Page<Tenant>> {
        let query = Query::of(TenantRecord::PARTITION, limit).after(after.map(|tenant| tenant.0.clone()));
        let page = self.repository.list::<TenantRecord>(query).await?;
        let items = page.items.into_iter().map(|record| record.tenant).collect();
        Ok(Page { items, next: page.next })
    }

    async fn get_key(&self, id: &KeyId) -> Result<Option<Loaded<KeyRecord>>> {
        self.repository.get(KeyRecord::key(id)).await
    }

    async fn keys_after(&self, after: Option<String>, limit: usize) -> Result<Page<KeyRecord>> {
        self.repository.list(Query::of(KeyRecord::PARTITION, limit).after(after)).await
    }

    async fn has_other_operator(&self, id: &KeyId) -> Result<bool> {
        let now_real = self.ports.clock.wall();
        let other =
            |key: &KeyRecord| key.role == Role::Operator && key.id != *id && key.is_valid_at(now_real);
        let mut after = None;
        loop {
            let page = self.keys_after(after, PAGE).await?;
            after = page.next;
            if page.items.iter().any(other) {
                return Ok(true);
            }
            if after.is_none() {
                return Ok(false);
            }
        }
    }

    /// The write that fails if an operator's key is made or deleted from here on.
    async fn changed_operators(&self) -> Result<Write> {
        let guard = self.repository.get(OperatorGuard::key()).await?;
        let guard = guard.unwrap_or_else(|| Loaded::not_stored(OperatorGuard { changes: 0 }));
        Ok(Write::put(OperatorGuard { changes: guard.record.changes + 1 }, guard.expect()))
    }
}
