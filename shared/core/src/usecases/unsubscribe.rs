//! Deletes a subscription. What it still had under way ends.

use super::subscribe::{MOST_MEETINGS, guard_of};
use super::{Engine, Unavailable};
use crate::ids::{SubscriptionId, Tenant};
use crate::ports::{Expect, Write};
use crate::records::{Record, Subscription};

impl Engine {
    /// `false`: there is no such subscription.
    pub async fn delete_subscription(
        &self,
        tenant: &Tenant,
        id: &SubscriptionId,
    ) -> Result<bool, Unavailable> {
        for _ in 0..MOST_MEETINGS {
            let Some((subscription, version)) = self.get_subscription_versioned(tenant, id).await? else {
                return Ok(false);
            };
            let mut writes = Vec::from(self.next_tenant_version(tenant, id, -1).await?.writes());
            let job = self.resettle_job(tenant, id);
            writes.extend([
                Write::Delete { key: Subscription::key(tenant, id), expect: Expect::Version(version) },
                Write::Delete { key: guard_of(&subscription).key(), expect: Expect::Any },
                Write::put(Record::Job(job.clone()), Expect::Any),
            ]);
            if self.try_write(writes).await? {
                self.send_job_ticket(&job, std::time::Duration::ZERO).await;
                return Ok(true);
            }
        }
        Err(Unavailable(format!("{id} changes too often to be deleted")))
    }
}
