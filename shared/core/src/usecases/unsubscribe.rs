//! Deletes a subscription and ends its live deliveries.

use std::time::Duration;

use super::subscribe::{MOST_MEETINGS, guard_of};
use super::{Engine, Unavailable};
use crate::ids::{JobId, SubscriptionId, Tenant};
use crate::messages::Message;
use crate::ports::{Delay, Expect, IndexQuery, Order, Outgoing, Write};
use crate::records::{DeliveryRecord, Job, JobRecord, ListIndex, Reason, Record, Subscription, Unsubscribe};
use crate::time::Timestamp;

const PAGE: usize = 100;
/// The second pass comes when nobody can still act on the subscription as it was.
const PASSES: u32 = 2;
const SECOND_PASS_MARGIN: Duration = Duration::from_secs(5);

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
            let guard = guard_of(&subscription);
            let (counter, expect) = self.bumped_tenant_version(tenant, -1).await?;
            let job = self.unsubscribe_job(tenant, id);
            let ticket = Message::Job { tenant: tenant.clone(), id: job.id.clone() };
            let writes = vec![
                Write::Delete { key: Subscription::key(tenant, id), expect: Expect::Version(version) },
                Write::Delete { key: guard.key(), expect: Expect::Any },
                Write::put(Record::TenantVersion(counter), expect),
                Write::put(Record::Job(job), Expect::Any),
            ];
            if self.try_write(writes).await? {
                self.hint(vec![Outgoing { message: ticket, delay: Delay::NONE }]).await;
                return Ok(true);
            }
        }
        Err(Unavailable(format!("{id} changes too often to be deleted")))
    }

    fn unsubscribe_job(&self, tenant: &Tenant, id: &SubscriptionId) -> JobRecord {
        let not_before_real = self.ports.clock.now_real();
        let work = Unsubscribe { subscription_id: id.clone(), after: None, pass: 1, not_before_real };
        let job_id = JobId::derived(&["unsubscribe", tenant.as_str(), id.as_str()]);
        self.new_job(tenant, job_id, Job::Unsubscribe(work))
    }

    pub(super) async fn unsubscribe(
        &self,
        job: JobRecord,
        mut version: u64,
        mut work: Unsubscribe,
        until_real: Timestamp,
    ) -> Result<(), Unavailable> {
        let now_real = self.ports.clock.now_real();
        if work.not_before_real > now_real {
            self.send_job_ticket(&job, work.not_before_real.since(now_real)).await;
            return Ok(());
        }
        loop {
            let query = IndexQuery {
                index: ListIndex::BySubscription,
                partition: DeliveryRecord::subscription_list(&job.tenant, &work.subscription_id),
                from: None,
                to: None,
                after: work.after.take(),
                order: Order::Ascending,
                limit: PAGE,
            };
            let page = self.ports.store.query_index(query).await?;
            for item in page.items {
                if let Record::Delivery(record) = item.record {
                    self.end_live(record).await?;
                }
            }
            work.after = page.next;
            let pass_over = work.after.is_none();
            if pass_over && work.pass >= PASSES {
                return self.end_job(&job).await;
            }
            if pass_over {
                work.pass += 1;
                work.not_before_real = now_real + self.settings.function_timeout * 2 + SECOND_PASS_MARGIN;
            }
            if !self.put_job(&job, Job::Unsubscribe(work.clone()), &mut version).await? {
                return Ok(());
            }
            if pass_over {
                self.send_job_ticket(&job, work.not_before_real.since(now_real)).await;
                return Ok(());
            }
            if self.check_time(until_real).is_err() {
                self.send_job_ticket(&job, Duration::ZERO).await;
                return Ok(());
            }
        }
    }

    async fn end_live(&self, listed: DeliveryRecord) -> Result<(), Unavailable> {
        // The index may lag: the record itself is asked.
        let Some((record, version)) = self.get_delivery(&listed.key).await? else { return Ok(()) };
        if record.state.is_live() {
            self.make_dead(record, version, Reason::Unsubscribed).await?;
        }
        Ok(())
    }
}
