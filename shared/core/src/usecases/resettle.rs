//! Brings a subscription's live deliveries to where it is now, or ends them.

use std::time::Duration;

use futures_util::{StreamExt, stream};

use super::conclude::Parking;
use super::{Engine, MOST_CONFLICTS, Unavailable};
use crate::ids::{DeliveryKey, JobId, SubscriptionId, Tenant, UrlId};
use crate::ports::{IndexQuery, Order, Versioned};
use crate::records::{
    DeliveryRecord, DeliveryState, Job, JobRecord, ListIndex, Record, Resettle, Subscription,
};
use crate::rules::resettle::{Fate, fate};
use crate::time::Timestamp;

const PAGE: usize = 100;
const AT_ONCE: usize = 16;
/// The second pass comes when nobody can still act on the subscription as it was.
const PASSES: u32 = 2;
const SECOND_PASS_MARGIN: Duration = Duration::from_secs(5);

impl Engine {
    /// There is one for each subscription: a later change overwrites it, and it starts again.
    pub(super) fn resettle_job(&self, tenant: &Tenant, id: &SubscriptionId) -> JobRecord {
        let not_before_real = self.ports.clock.now_real();
        let work = Resettle { subscription_id: id.clone(), after: None, pass: 1, not_before_real };
        let job_id = JobId::derived(&["resettle", tenant.as_str(), id.as_str()]);
        self.new_job(tenant, job_id, Job::Resettle(work))
    }

    pub(super) async fn resettle(
        &self,
        job: JobRecord,
        mut version: u64,
        mut work: Resettle,
        until_real: Timestamp,
    ) -> Result<(), Unavailable> {
        let now_real = self.ports.clock.now_real();
        if work.not_before_real > now_real {
            self.send_job_ticket(&job, work.not_before_real.since(now_real)).await;
            return Ok(());
        }
        loop {
            work.after = self.resettle_page(&job.tenant, &work).await?;
            let pass_over = work.after.is_none();
            if pass_over && work.pass >= PASSES {
                return self.end_job_at(&job, version).await;
            }
            if pass_over {
                work.pass += 1;
                work.not_before_real = now_real + self.settings.function_timeout * 2 + SECOND_PASS_MARGIN;
            }
            if !self.put_job(&job, Job::Resettle(work.clone()), &mut version).await? {
                // Somebody else goes on with this, or the subscription changed again.
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

    /// Answers where the next page starts.
    async fn resettle_page(&self, tenant: &Tenant, work: &Resettle) -> Result<Option<String>, Unavailable> {
        let query = IndexQuery {
            index: ListIndex::BySubscription,
            partition: DeliveryRecord::subscription_list(tenant, &work.subscription_id),
            from: None,
            to: None,
            after: work.after.clone(),
            // Newest first: what is alive is met long before what was delivered days ago.
            order: Order::Descending,
            limit: PAGE,
        };
        let page = self.ports.store.query_index(query).await?;
        // The index may lag: what became live since was made so by somebody who saw the subscription as it is, or is found by
        // the second pass.
        let live = page.items.into_iter().filter_map(|item| match item.record {
            Record::Delivery(record) if record.state.is_live() => Some(record.key),
            _ => None,
        });
        let settled = stream::iter(live.map(|key| async move { self.settle(&key).await }));
        let settled: Vec<_> = settled.buffer_unordered(AT_ONCE).collect().await;
        let mut parking = Parking::new();
        for one in settled {
            parking.extend(one?.map(|url_id| (tenant.clone(), url_id)));
        }
        self.look_at_all_parked(parking).await?;
        Ok(page.next)
    }

    /// Answers the URL at which the delivery is parked now, which is to be looked at: whoever brought it there may have died before.
    pub(super) async fn settle(&self, key: &DeliveryKey) -> Result<Option<UrlId>, Unavailable> {
        for _ in 0..MOST_CONFLICTS {
            let Some((record, version, subscription)) = self.get_with_subscription(key).await? else {
                return Ok(None);
            };
            match fate(&record, subscription.as_ref()) {
                Fate::Stay => return Ok(parked_at(&record)),
                Fate::Die(reason) => {
                    if self.make_dead(record, version, reason).await? {
                        return Ok(None);
                    }
                }
                Fate::Move(moved) => {
                    let parked_at = parked_at(&moved);
                    if self.put_delivery(&record, version, *moved, Vec::new()).await? {
                        return Ok(parked_at);
                    }
                }
            }
        }
        Err(Unavailable(format!("{} changes too often to be moved", key.id())))
    }

    /// For a parked delivery whose subscription changed: it is not left for the job, which may be far behind.
    pub(super) async fn settle_parked(&self, key: &DeliveryKey) -> Result<(), Unavailable> {
        let parking: Parking =
            self.settle(key).await?.into_iter().map(|url_id| (key.tenant.clone(), url_id)).collect();
        self.look_at_all_parked(parking).await
    }

    /// The delivery with its version, and its subscription if there is one, by one read.
    pub(super) async fn get_with_subscription(
        &self,
        key: &DeliveryKey,
    ) -> Result<Option<(DeliveryRecord, u64, Option<Subscription>)>, Unavailable> {
        let keys = [DeliveryRecord::key(key), Subscription::key(&key.tenant, &key.subscription_id)];
        let mut found = self.ports.store.get(&keys).await?.into_iter();
        let Some(Versioned { record: Record::Delivery(record), version }) = found.next().flatten() else {
            return Ok(None);
        };
        let subscription = found.next().flatten().and_then(|v| match v.record {
            Record::Subscription(subscription) => Some(subscription),
            _ => None,
        });
        Ok(Some((record, version, subscription)))
    }
}

fn parked_at(record: &DeliveryRecord) -> Option<UrlId> {
    (record.state == DeliveryState::Parked).then(|| record.url_id.clone())
}
