//! Gives a delivered or dead delivery a new epoch with a fresh schedule.

mod bulk;
mod candidates;

use super::tickets::delivery_ticket;
use super::{Change, ConflictRetries, Engine, Loaded, OverQuota, Page, Result, Settings, Unavailable};
use crate::ids::{DeliveryKey, JobId, Tenant};
use crate::ports::{BodyKey, Delay, Expect, IndexQuery, Outgoing, Write};
use crate::records::{
    Actor, AuditAction, BulkReplay, DeliveryRecord, EventRecord, ListIndex, LoggedDelivery, ReplayOf,
    ReplayRecord, StateEntry, active_subscription,
};
use crate::rules::delivery::{DeliveryState, Reason};

/// How often one delivery can be replayed. Each replay adds up to twelve attempts, which are kept with it.
const MAX_REPLAYS: u32 = 1_000;

#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    #[error("there is no such delivery")]
    Unknown,
    #[error("the delivery is {}: it will be attempted without a replay", .0.as_str())]
    Live(DeliveryState),
    #[error("the delivery was replayed {MAX_REPLAYS} times; post the event again")]
    TooOften,
    #[error("the delivery's body is no longer kept, so there is nothing to send")]
    BodyGone,
    #[error("the delivery's subscription was deleted; post the event again for those who want it now")]
    Unsubscribed,
    #[error("the delivery's subscription is inactive; activate it first")]
    Inactive,
    #[error(transparent)]
    OverQuota(OverQuota),
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// Why the deliveries of a URL are not replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayUrlError {
    #[error("there is no such URL")]
    UnknownUrl,
    #[error("the replay {0} of this URL is running")]
    Running(JobId),
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl Engine {
    /// Returns the id of the replay.
    pub async fn replay(&self, key: &DeliveryKey, by: &Actor) -> Result<JobId, ReplayError> {
        let mut retries = ConflictRetries::new();
        loop {
            let finished = self.load_finished(key).await?.ok_or(ReplayError::Unknown)?;
            let now = self.ports.clock.now();
            let (state, _) = finished.record.progress.state_at(now);
            if state.is_live() {
                return Err(ReplayError::Live(state));
            }
            let epoch = finished.record.progress.epoch + 1;
            let id = JobId::derived(&["replay", &key.id(), &epoch.to_string()]);
            let mut shown = ReplayRecord::new(&key.tenant, id.clone(), ReplayOf::Delivery(key.clone()), now);
            shown.done = 1;
            shown.end(1, now, self.settings.keep);
            let audit = self.audit(Some(&key.tenant), AuditAction::DeliveryReplayed, key.id(), by);
            let with = vec![Write::put(shown, Expect::Any), audit.into_write()];
            self.take_replay(&key.tenant).await?.map_err(ReplayError::OverQuota)?;
            let started = self.start_epoch(&finished, None, with).await;
            if let Ok(Some(ticket)) = started {
                self.send_tickets(vec![ticket]).await;
                return Ok(id);
            }
            self.give_back_events(&key.tenant, 1);
            started?;
            retries.again(key.id())?;
        }
    }

    /// Newest first, by the index.
    pub async fn list_replays(
        &self,
        tenant: &Tenant,
        after: Option<String>,
        limit: usize,
    ) -> Result<Page<ReplayRecord>> {
        let query = IndexQuery::of(ListIndex::ByState, StateEntry::replays_of(tenant), limit);
        self.repository.list_index(query.after(after).descending()).await
    }

    pub async fn view_replay(&self, tenant: &Tenant, id: &JobId) -> Result<Option<ReplayRecord>> {
        let found = self.repository.get(ReplayRecord::key(tenant, id)).await?;
        Ok(found.map(|loaded| loaded.record))
    }

    /// Returns the ticket that is to be sent. `None`: another writer changed the delivery, and nothing was written.
    async fn start_epoch(
        &self,
        finished: &Loaded<DeliveryRecord>,
        bulk: Option<&BulkReplay>,
        with: Vec<Write>,
    ) -> Result<Option<Outgoing>, ReplayError> {
        let key = &finished.record.key;
        if finished.record.progress.epoch >= MAX_REPLAYS {
            return Err(ReplayError::TooOften);
        }
        let subscription = self.get_subscription(&key.tenant, &key.subscription_id).await?;
        active_subscription(subscription.as_ref()).map_err(|reason| match reason {
            Reason::Inactive => ReplayError::Inactive,
            _ => ReplayError::Unsubscribed,
        })?;
        // The body's removal is moved on before the new epoch is written: a live delivery always has its body.
        let kept = self.ports.store.keep_body(&BodyKey::of(key), self.body_remove_at()).await;
        if !kept.map_err(Unavailable::from)? {
            return Err(ReplayError::BodyGone);
        }
        self.keep_event(&finished.record).await?;
        let mut record = finished.record.clone();
        record.progress.replay(&self.settings.schedule, self.ports.clock.now());
        if let Some(bulk) = bulk {
            record.replayed_by = Some(bulk.shown.id.clone());
        }
        record.released_in = bulk.map(BulkReplay::step_id);
        let ticket = delivery_ticket(&record, Delay::NONE);
        Ok(self.repository.replace_delivery(finished, record, with).await?.then_some(ticket))
    }

    /// The event is shown as long as one of its deliveries may be.
    async fn keep_event(&self, record: &DeliveryRecord) -> Result<()> {
        let remove_at = Some(self.ports.clock.now() + self.settings.schedule.lifetime + self.settings.keep);
        let keep = |Loaded { record: mut event, .. }: Loaded<EventRecord>| {
            // The id may have become another event since.
            if event.event_key != record.key.event_key || event.remove_at >= remove_at {
                return Ok(Change::Keep(()));
            }
            event.remove_at = remove_at;
            Ok::<_, Unavailable>(Change::Write(event, Vec::new(), ()))
        };
        self.repository.update(EventRecord::key(&record.key.tenant, &record.event_id), keep).await?;
        Ok(())
    }

    /// The delivery's record, or what its log says: a delivery that succeeded at once has no record.
    async fn load_finished(&self, key: &DeliveryKey) -> Result<Option<Loaded<DeliveryRecord>>> {
        let (record, logged) = (DeliveryRecord::key(key), LoggedDelivery::key(key));
        let (record, logged) = self.repository.get_both(record, logged).await?;
        Ok(self.finished(record, logged.map(|loaded| loaded.record)))
    }

    fn finished(
        &self,
        record: Option<Loaded<DeliveryRecord>>,
        logged: Option<LoggedDelivery>,
    ) -> Option<Loaded<DeliveryRecord>> {
        let Settings { schedule, keep, .. } = &self.settings;
        record.or_else(|| Some(Loaded::not_stored(logged?.into_record(schedule, *keep))))
    }
}
