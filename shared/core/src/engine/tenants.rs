//! Shows a tenant, and sets its quotas.

use super::{ConflictRetries, Engine, Result, Unavailable};
use crate::ids::Tenant;
use crate::ports::Write;
use crate::records::{Actor, AuditAction, TenantVersion};
use crate::rules::quota::{Quota, QuotaPatch, QuotaWarning, Quotas};

/// A tenant with its quotas and what it uses of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantView {
    pub tenant: Tenant,
    pub quotas: Quotas,
    pub subscriptions: u64,
    /// `None`: this host does not count them.
    pub waiting_bytes: Option<u64>,
    /// The same.
    pub stored_bytes: Option<u64>,
    /// The quotas that are nearly used up.
    pub warnings: Vec<QuotaWarning>,
}

/// What a host counts; `None` if it does not.
#[derive(Clone, Copy)]
struct CountedBytes {
    waiting: Option<u64>,
    stored: Option<u64>,
}

#[derive(Debug, thiserror::Error)]
pub enum SetQuotasError {
    #[error("this host does not count what {} limits", .0.as_str())]
    NotCounted(Quota),
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl Engine {
    /// A tenant that does not exist has nothing and no quotas: the caller knows which ones do.
    pub async fn view_tenant(&self, tenant: &Tenant) -> Result<TenantView> {
        let counted = self.count_bytes(tenant).await?;
        let known = self.repository.get_tenant_version(tenant).await?.record;
        Ok(self.tenant_view(&known, counted))
    }

    /// What exceeds a lowered quota stays. Posts and subscriptions that come later are refused.
    pub async fn set_quotas(
        &self,
        tenant: &Tenant,
        patch: QuotaPatch,
        by: &Actor,
    ) -> Result<TenantView, SetQuotasError> {
        let counted = self.count_bytes(tenant).await?;
        if counted.waiting.is_none() && patch.waiting_bytes.flatten().is_some() {
            return Err(SetQuotasError::NotCounted(Quota::WaitingBytes));
        }
        if counted.stored.is_none() && patch.stored_bytes.flatten().is_some() {
            return Err(SetQuotasError::NotCounted(Quota::StoredBytes));
        }
        let mut retries = ConflictRetries::many();
        loop {
            let loaded = self.repository.get_tenant_version(tenant).await?;
            let quotas = loaded.record.quotas.patched(&patch);
            let after = TenantVersion { quotas, ..loaded.record.clone() };
            // The version stays: it is that of the subscriptions, which did not change.
            let audit = self.audit(Some(tenant), AuditAction::QuotasChanged, tenant.as_str(), by);
            let audit = audit.changing(&loaded.record.quotas.changed_in(&quotas));
            let writes = vec![Write::put(after.clone(), loaded.expect()), audit.into_write()];
            if after == loaded.record || self.repository.try_write(writes).await? {
                return Ok(self.tenant_view(&after, counted));
            }
            retries.again(tenant)?;
        }
    }

    async fn count_bytes(&self, tenant: &Tenant) -> Result<CountedBytes> {
        let waiting = self.ports.backlog.bytes(tenant).await?;
        let stored = self.ports.backlog.stored_bytes(tenant).await?;
        Ok(CountedBytes { waiting, stored })
    }

    fn tenant_view(
        &self,
        known: &TenantVersion,
        CountedBytes { waiting, stored }: CountedBytes,
    ) -> TenantView {
        TenantView {
            tenant: known.tenant.clone(),
            quotas: known.quotas,
            subscriptions: known.subscriptions,
            waiting_bytes: waiting,
            stored_bytes: stored,
            warnings: self.quota_warnings(known, waiting, stored),
        }
    }
}
