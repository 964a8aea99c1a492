//! Deletes a subscription. Its live deliveries end.

use super::super::{ConflictRetries, Engine, Result};
use super::create::guard_of;
use crate::ids::{SubscriptionId, Tenant};
use crate::ports::{Expect, Write};
use crate::records::{Actor, AuditAction, Subscription};

impl Engine {
    /// `false`: there is no such subscription.
    pub async fn delete_subscription(
        &self,
        tenant: &Tenant,
        id: &SubscriptionId,
        by: &Actor,
    ) -> Result<bool> {
        let mut retries = ConflictRetries::many();
        loop {
            let Some(found) = self.repository.get_subscription(tenant, id).await? else { return Ok(false) };
            let mut next = self.next_tenant_version(tenant, id, -1).await?;
            let freed = found.record.index_bytes();
            next.counter.index_bytes = next.counter.index_bytes.saturating_sub(freed);
            let mut writes = Vec::from(next.writes());
            let (job, write) = self.new_reassign_job(tenant, id).await?;
            writes.extend([
                Write::delete(Subscription::key(tenant, id), Expect::Version(found.version)),
                Write::delete(guard_of(&found.record).key(), Expect::Any),
                write,
                self.audit(Some(tenant), AuditAction::SubscriptionDeleted, id.as_str(), by).into_write(),
            ]);
            writes.extend(self.release_url(tenant, &found.record.url_id).await?);
            if self.repository.try_write(writes).await? {
                self.send_job_ticket(&job).await;
                return Ok(true);
            }
            retries.again(id)?;
        }
    }
}
