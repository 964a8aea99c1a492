//! Moves a subscription's live deliveries to the URL that it has now, or ends them.

use std::time::Duration;

use futures_util::{StreamExt, stream};

use super::super::jobs::RunningJob;
use super::super::recover::ParkedUrls;
use super::super::{ConflictRetries, Engine, Loaded, Result};
use crate::ids::{DeliveryKey, JobId, SubscriptionId, Tenant, UrlId};
use crate::ports::{Expect, IndexQuery, Write};
use crate::records::{DeliveryRecord, Job, JobRecord, ListIndex, Reassign, Subscription};
use crate::rules::delivery::DeliveryState;
use crate::rules::reassign::Reassignment;
use crate::time::Timestamp;

const PAGE: usize = 100;
const CONCURRENCY: usize = 16;
/// The second pass comes when no function can still act on the subscription as it was.
const PASSES: u32 = 2;
const SECOND_PASS_MARGIN: Duration = Duration::from_secs(5);

impl Engine {
    /// The job and the write that starts it. There is one job for each subscription: a later change starts it again.
    pub(super) async fn new_reassign_job(
        &self,
        tenant: &Tenant,
        id: &SubscriptionId,
    ) -> Result<(JobRecord, Write)> {
        let not_before_real = self.ports.clock.now_real();
        let work = Reassign { subscription_id: id.clone(), after: None, pass: 1, not_before_real };
        let job_id = JobId::derived(&["reassign", tenant.as_str(), id.as_str()]);
        let running = self.repository.get::<JobRecord>(JobRecord::key(tenant, &job_id)).await?;
        let expect = running.map_or(Expect::Absent, |running| Expect::Version(running.version));
        let job = self.new_job(tenant, job_id, Job::Reassign(work));
        Ok((job.clone(), Write::put(job, expect)))
    }

    pub(crate) async fn reassign(
        &self,
        mut running: RunningJob,
        mut work: Reassign,
        until_real: Timestamp,
    ) -> Result<()> {
        let now_real = self.ports.clock.now_real();
        if work.not_before_real > now_real {
            let wait = self.ports.clock.to_schedule(work.not_before_real.since(now_real));
            self.continue_job(&running, wait).await;
            return Ok(());
        }
        loop {
            work.after = self.reassign_page(&running.job.tenant, &work).await?;
            let pass_over = work.after.is_none();
            if pass_over && work.pass >= PASSES {
                self.end_job(&running, Vec::new()).await?;
                return Ok(());
            }
            if pass_over {
                work.pass += 1;
                work.not_before_real = now_real + self.settings.function_timeout * 2 + SECOND_PASS_MARGIN;
            }
            if !self.put_job(&mut running, Job::Reassign(work.clone()), Vec::new()).await? {
                // Another function goes on with it, or the subscription changed again.
                return Ok(());
            }
            if pass_over {
                let wait = self.ports.clock.to_schedule(work.not_before_real.since(now_real));
                self.continue_job(&running, wait).await;
                return Ok(());
            }
            if self.check_time(until_real).is_err() {
                self.continue_job(&running, Duration::ZERO).await;
                return Ok(());
            }
        }
    }

    /// Returns where the next page starts.
    async fn reassign_page(&self, tenant: &Tenant, work: &Reassign) -> Result<Option<String>> {
        let partition = DeliveryRecord::live_subscription_list(tenant, &work.subscription_id);
        let query = IndexQuery::of(ListIndex::BySubscription, partition, PAGE).after(work.after.clone());
        let page = self.repository.list_index::<DeliveryRecord>(query).await?;
        // The index may lag. What became live since was made so by a function that saw the subscription as it is, or is found by
        // the second pass.
        let live = page.items.into_iter().map(|record| record.key);
        let reassigned = stream::iter(live.map(|key| async move { self.reassign_delivery(&key).await }));
        let reassigned: Vec<_> = reassigned.buffer_unordered(CONCURRENCY).collect().await;
        let mut parked_at = ParkedUrls::new();
        for one in reassigned {
            parked_at.extend(one?.map(|url_id| (tenant.clone(), url_id)));
        }
        self.recheck_urls(parked_at).await?;
        Ok(page.next)
    }

    /// Returns the URL at which the delivery is parked now. The caller rechecks that URL, because the function that parked the
    /// delivery there may have died before it did.
    async fn reassign_delivery(&self, key: &DeliveryKey) -> Result<Option<UrlId>> {
        let mut retries = ConflictRetries::new();
        loop {
            let Some((delivery, subscription)) = self.load_with_subscription(key).await? else {
                return Ok(None);
            };
            match (delivery.record.reassignment(subscription.as_ref()), &subscription) {
                (Reassignment::End(reason), _) => {
                    if self.make_dead(&delivery, reason).await? {
                        return Ok(None);
                    }
                }
                (Reassignment::Move, Some(subscription)) => {
                    let mut moved = delivery.record.clone();
                    moved.retarget(subscription);
                    let parked_at = parked_at(&moved);
                    if self.repository.replace_delivery(&delivery, moved, Vec::new()).await? {
                        return Ok(parked_at);
                    }
                }
                (Reassignment::Stay | Reassignment::Move, _) => return Ok(parked_at(&delivery.record)),
            }
            retries.again(key.id())?;
        }
    }

    /// For a parked delivery whose subscription changed: it does not wait for the job, which may be far behind.
    pub(crate) async fn reassign_parked(&self, key: &DeliveryKey) -> Result<()> {
        let parked_at = self.reassign_delivery(key).await?;
        self.recheck_urls(parked_at.into_iter().map(|url_id| (key.tenant.clone(), url_id)).collect()).await
    }

    /// The delivery, and its subscription if there is one, by one read.
    pub(crate) async fn load_with_subscription(
        &self,
        key: &DeliveryKey,
    ) -> Result<Option<(Loaded<DeliveryRecord>, Option<Subscription>)>> {
        let subscription = Subscription::key(&key.tenant, &key.subscription_id);
        let (delivery, subscription) =
            self.repository.get_both(DeliveryRecord::key(key), subscription).await?;
        Ok(delivery
            .map(|delivery| (delivery, subscription.map(|loaded: Loaded<Subscription>| loaded.record))))
    }
}

fn parked_at(record: &DeliveryRecord) -> Option<UrlId> {
    (record.progress.state == DeliveryState::Parked).then(|| record.url_id.clone())
}
