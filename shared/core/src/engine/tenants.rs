//! Shows a tenant, and sets its quotas.

use super::{ConflictRetries, Engine, Result, Unavailable};
use crate::ids::Tenant;
use crate::ports::Write;
use crate::records::TenantVersion;
use crate::rules::quota::{QuotaPatch, QuotaWarning, Quotas};

/// A tenant with its quotas and what it uses of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantView {
    pub tenant: Tenant,
    pub quotas: Quotas,
    pub subscriptions: u64,
    /// `None`: this host does not count them.
    pub waiting_bytes: Option<u64>,
    /// The quotas that are nearly used up.
    pub warnings: Vec<QuotaWarning>,
}

#[derive(Debug, thiserror::Error)]
pub enum SetQuotasError {
    #[error("this host does not count waiting bytes")]
    WaitingNotCounted,
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl Engine {
    /// A tenant that does not exist has nothing and no quotas: the caller knows which ones do.
    pub async fn view_tenant(&self, tenant: &Tenant) -> Result<TenantView> {
        let waiting_bytes = self.waiting_bytes(tenant).await?;
        let known = self.repository.get_tenant_version(tenant).await?.record;
        Ok(self.tenant_view(&known, waiting_bytes))
    }

    /// What exceeds a lowered quota stays. Posts and subscriptions that come later are refused.
    pub async fn set_quotas(&self, tenant: &Tenant, patch: QuotaPatch) -> Result<TenantView, SetQuotasError> {
        let waiting_bytes = self.waiting_bytes(tenant).await?;
        if waiting_bytes.is_none() && patch.waiting_bytes.flatten().is_some() {
            return Err(SetQuotasError::WaitingNotCounted);
        }
        let mut retries = ConflictRetries::many();
        loop {
            let loaded = self.repository.get_tenant_version(tenant).await?;
            let quotas = loaded.record.quotas.patched(&patch);
            let after = TenantVersion { quotas, ..loaded.record.clone() };
            // The version stays: it is that of the subscriptions, which did not change.
            let write = Write::put(after.clone(), loaded.expect());
            if after == loaded.record || self.repository.try_write(vec![write]).await? {
                return Ok(self.tenant_view(&after, waiting_bytes));
            }
            retries.again(tenant)?;
        }
    }

    async fn waiting_bytes(&self, tenant: &Tenant) -> Result<Option<u64>> {
        Ok(self.ports.backlog.bytes(tenant).await?)
    }

    fn tenant_view(&self, known: &TenantVersion, waiting_bytes: Option<u64>) -> TenantView {
        TenantView {
            tenant: known.tenant.clone(),
            quotas: known.quotas,
            subscriptions: known.subscriptions,
            waiting_bytes,
            warnings: self.quota_warnings(known, waiting_bytes),
        }
    }
}
