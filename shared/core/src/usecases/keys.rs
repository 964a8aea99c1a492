//! Makes, lists, deletes and recognises keys, and knows which tenants there are.

use super::{Engine, ListPage, MOST_CONFLICTS, Unavailable};
use crate::ids::{KeyId, Tenant, fingerprint};
use crate::ports::{Expect, Order, Query, Write};
use crate::records::{KeyRecord, OperatorGuard, Record, TenantRecord, VERSION};
use crate::rules::access::{self, Role};
use crate::time::Timestamp;

/// Checked by the API: only an operator's key has no tenant, and `expires_at_real` is in the future.
#[derive(Clone, Debug)]
pub struct NewKey {
    pub tenant: Option<Tenant>,
    pub role: Role,
    pub description: Option<String>,
    pub expires_at_real: Option<Timestamp>,
}

/// A key that was just made. Nobody can ask for the text again.
pub struct MadeKey {
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
/// How many keys are looked through for one page, so that a tenant with few keys does not make one request read all of them.
const MOST_LOOKED_THROUGH: usize = 2_000;

impl Engine {
    pub async fn create_key(&self, new: NewKey) -> Result<MadeKey, Unavailable> {
        let text = access::new_key(self.random());
        let hash = fingerprint(text.as_bytes());
        let record = KeyRecord {
            v: VERSION,
            id: KeyId::of(&hash),
            tenant: new.tenant,
            role: new.role,
            hash,
            description: new.description,
            created_at_real: self.ports.clock.now_real(),
            expires_at_real: new.expires_at_real,
        };
        for _ in 0..MOST_CONFLICTS {
            let mut writes = vec![Write::put(Record::Key(record.clone()), Expect::Absent)];
            if let Some(tenant) = &record.tenant
                && !self.tenant_exists(tenant).await?
            {
                let (tenant, created_at_real) = (tenant.clone(), record.created_at_real);
                let first = TenantRecord { v: VERSION, tenant, created_at_real };
                writes.push(Write::put(Record::Tenant(first), Expect::Absent));
            }
            if record.role == Role::Operator {
                writes.push(self.changed_operators().await?);
            }
            if self.try_write(writes).await? {
                return Ok(MadeKey { record, text });
            }
        }
        Err(Unavailable("the keys change too often".to_owned()))
    }

    /// Whose key has this hash, if there is one and it is not over.
    pub async fn authenticate(&self, hash: &str) -> Result<Option<KeyRecord>, Unavailable> {
        let found = self.get_key(&KeyId::of(hash)).await?.map(|(key, _)| key);
        let now_real = self.ports.clock.now_real();
        Ok(found.filter(|key| access::same_hash(&key.hash, hash) && key.is_valid_at(now_real)))
    }

    /// In the order of their ids. Those that are over are shown until somebody deletes them.
    pub async fn list_keys(
        &self,
        tenant: Option<&Tenant>,
        after: Option<String>,
        limit: usize,
    ) -> Result<ListPage<KeyRecord>, Unavailable> {
        let mut page = ListPage { items: Vec::new(), next: after };
        let mut looked_through = 0;
        loop {
            let found = self.keys_after(page.next.take(), limit - page.items.len()).await?;
            looked_through += super::inspect::looked_at(found.items.len());
            page.next = found.next;
            let wanted = |key: &KeyRecord| tenant.is_none_or(|tenant| key.tenant.as_ref() == Some(tenant));
            page.items.extend(found.items.into_iter().filter(wanted));
            if page.next.is_none() || page.items.len() >= limit || looked_through >= MOST_LOOKED_THROUGH {
                return Ok(page);
            }
        }
    }

    /// Only a key of `tenant`, if one is given. Unless `operator_remains` whatever is deleted, the last operator's key that is not
    /// over stays.
    pub async fn delete_key(
        &self,
        id: &KeyId,
        tenant: Option<&Tenant>,
        operator_remains: bool,
    ) -> Result<(), DeleteKeyError> {
        for _ in 0..MOST_CONFLICTS {
            let found = self.get_key(id).await?;
            let (key, version) = found
                .filter(|(key, _)| tenant.is_none_or(|tenant| key.tenant.as_ref() == Some(tenant)))
                .ok_or(DeleteKeyError::Unknown)?;
            let mut writes =
                vec![Write::Delete { key: KeyRecord::key(id), expect: Expect::Version(version) }];
            if key.role == Role::Operator {
                // Read before the others are counted, so that whoever deletes one of them meanwhile is noticed.
                writes.push(self.changed_operators().await?);
                if !operator_remains && !self.has_other_operator(id).await? {
                    return Err(DeleteKeyError::LastOperator);
                }
            }
            if self.try_write(writes).await? {
                return Ok(());
            }
        }
        Err(Unavailable("the keys change too often".to_owned()).into())
    }

    pub async fn tenant_exists(&self, tenant: &Tenant) -> Result<bool, Unavailable> {
        Ok(self.get_one(TenantRecord::key(tenant)).await?.is_some())
    }

    /// The names of tenants, in order, beyond `after`.
    pub async fn list_tenants(
        &self,
        after: Option<&Tenant>,
        limit: usize,
    ) -> Result<ListPage<Tenant>, Unavailable> {
        let query = Query {
            partition: TenantRecord::PARTITION.to_owned(),
            prefix: String::new(),
            after: after.map(|tenant| tenant.0.clone()),
            order: Order::Ascending,
            limit,
        };
        let page = self.ports.store.query(query).await?;
        let items = page.items.into_iter().filter_map(|v| match v.record {
            Record::Tenant(record) => Some(record.tenant),
            _ => None,
        });
        Ok(ListPage { items: items.collect(), next: page.next })
    }

    async fn get_key(&self, id: &KeyId) -> Result<Option<(KeyRecord, u64)>, Unavailable> {
        let found = self.get_one(KeyRecord::key(id)).await?;
        Ok(found.and_then(|v| match v.record {
            Record::Key(key) => Some((key, v.version)),
            _ => None,
        }))
    }

    async fn keys_after(
        &self,
        after: Option<String>,
        limit: usize,
    ) -> Result<ListPage<KeyRecord>, Unavailable> {
        let partition = KeyRecord::PARTITION.to_owned();
        let query = Query { partition, prefix: String::new(), after, order: Order::Ascending, limit };
        let page = self.ports.store.query(query).await?;
        let items = page.items.into_iter().filter_map(|v| match v.record {
            Record::Key(key) => Some(key),
            _ => None,
        });
        Ok(ListPage { items: items.collect(), next: page.next })
    }

    async fn has_other_operator(&self, id: &KeyId) -> Result<bool, Unavailable> {
        let now_real = self.ports.clock.now_real();
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
    async fn changed_operators(&self) -> Result<Write, Unavailable> {
        let found = self.get_one(OperatorGuard::key()).await?;
        let expect = found.as_ref().map_or(Expect::Absent, |v| Expect::Version(v.version));
        let before = match found.map(|v| v.record) {
            Some(Record::OperatorGuard(guard)) => guard.changes,
            _ => 0,
        };
        Ok(Write::put(Record::OperatorGuard(OperatorGuard { changes: before + 1 }), expect))
    }
}
