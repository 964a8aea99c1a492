//! Gives a delivered or dead delivery a new epoch with a fresh schedule.

use super::enqueue::delivery_ticket;
use super::{Engine, MOST_CONFLICTS, Unavailable};
use crate::ids::{DeliveryKey, JobId, Tenant};
use crate::ports::{BodyKey, Delay, Expect, Outgoing, Write};
use crate::records::{
    DeliveryRecord, DeliveryState, EventRecord, LoggedDelivery, NewDelivery, Record, ReplayOf, ReplayRecord,
};

#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    #[error("there is no such delivery")]
    Unknown,
    #[error("the delivery is {}: it will be attempted without a replay", .0.as_str())]
    Live(DeliveryState),
    #[error("the delivery's body is no longer kept, so there is nothing to send")]
    BodyGone,
    #[error("the delivery's subscription was deleted; post the event again for those who want it now")]
    Unsubscribed,
    #[error("the delivery's subscription is inactive; activate it first")]
    Inactive,
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl Engine {
    /// Answers the id of the replay.
    pub async fn replay(&self, key: &DeliveryKey) -> Result<JobId, ReplayError> {
        for _ in 0..MOST_CONFLICTS {
            let (before, version) = self.get_ended(key).await?.ok_or(ReplayError::Unknown)?;
            let now = self.ports.clock.now();
            let (state, _) = before.state_at(now);
            if state.is_live() {
                return Err(ReplayError::Live(state));
            }
            let id = JobId::derived(&["replay", &key.id(), &(before.epoch + 1).to_string()]);
            let mut shown = ReplayRecord::new(&key.tenant, id.clone(), ReplayOf::Delivery(key.clone()), now);
            shown.done = 1;
            shown.end(1, now, self.settings.keep);
            let with = vec![Write::put(Record::Replay(shown), Expect::Any)];
            if let Some(ticket) = self.give_new_epoch(&before, version, None, with).await? {
                self.hint(vec![ticket]).await;
                return Ok(id);
            }
        }
        Err(Unavailable(format!("{} changes too often to be replayed", key.id())).into())
    }

    pub async fn view_replay(
        &self,
        tenant: &Tenant,
        id: &JobId,
    ) -> Result<Option<ReplayRecord>, Unavailable> {
        let found = self.get_one(ReplayRecord::key(tenant, id)).await?;
        Ok(found.and_then(|v| match v.record {
            Record::Replay(replay) => Some(replay),
            _ => None,
        }))
    }

    /// Answers the ticket that is to be sent. `None`: somebody else changed the delivery, and nothing was written.
    pub(super) async fn give_new_epoch(
        &self,
        before: &DeliveryRecord,
        version: Option<u64>,
        bulk: Option<&JobId>,
        with: Vec<Write>,
    ) -> Result<Option<Outgoing>, ReplayError> {
        let key = &before.key;
        match self.get_subscription(&key.tenant, &key.subscription_id).await? {
            None => return Err(ReplayError::Unsubscribed),
            Some(subscription) if !subscription.active => return Err(ReplayError::Inactive),
            Some(_) => {}
        }
        // The body's removal is moved on before the new epoch is written: a live delivery always has its body.
        let kept = self.ports.store.keep_body(&BodyKey::of(key), self.body_remove_at()).await;
        if !kept.map_err(Unavailable::from)? {
            return Err(ReplayError::BodyGone);
        }
        self.keep_event(before).await?;
        let mut record = before.clone();
        record.replay(&self.settings.schedule, self.ports.clock.now());
        record.replayed_by = bulk.cloned().or(record.replayed_by);
        let ticket = delivery_ticket(&record, Delay::NONE);
        let written = match version {
            Some(version) => self.put_delivery(before, version, record, with).await?,
            None => self.create(record, with).await?,
        };
        Ok(written.then_some(ticket))
    }

    /// The event is shown as long as one of its deliveries may be.
    async fn keep_event(&self, record: &DeliveryRecord) -> Result<(), Unavailable> {
        let key = EventRecord::key(&record.key.tenant, &record.event_id);
        let Some((Record::Event(mut event), version)) =
            self.get_one(key).await?.map(|v| (v.record, v.version))
        else {
            return Ok(());
        };
        let remove_at = Some(self.ports.clock.now() + self.settings.schedule.lifetime + self.settings.keep);
        if event.event_key == record.key.event_key && event.remove_at < remove_at {
            event.remove_at = remove_at;
            // If somebody else was faster, it was for the same reason, or the id has become another event.
            self.try_write(vec![Write::put(Record::Event(event), Expect::Version(version))]).await?;
        }
        Ok(())
    }

    /// A delivery's record, with its version if it exists; one that succeeded at once has only its log.
    pub(super) async fn get_ended(
        &self,
        key: &DeliveryKey,
    ) -> Result<Option<(DeliveryRecord, Option<u64>)>, Unavailable> {
        let keys = [DeliveryRecord::key(key), LoggedDelivery::key(key)];
        let mut found =
            self.ports.store.get(&keys).await?.into_iter().map(|v| v.map(|v| (v.record, v.version)));
        let (record, logged) = (found.next().flatten(), found.next().flatten());
        Ok(match (record, logged) {
            (Some((Record::Delivery(record), version)), _) => Some((record, Some(version))),
            (_, Some((Record::Logged(logged), _))) => Some((self.record_of(logged), None)),
            _ => None,
        })
    }

    pub(super) fn record_of(&self, logged: LoggedDelivery) -> DeliveryRecord {
        let ended_at = logged.attempt.at + std::time::Duration::from_millis(logged.attempt.ms);
        let new = NewDelivery {
            key: logged.key,
            event_id: logged.event_id,
            event_type: logged.event_type,
            accepted_at: logged.accepted_at,
            url_id: logged.url_id,
            url: logged.url,
        };
        let mut record = DeliveryRecord::new(new, &self.settings.schedule);
        record.succeed(ended_at, self.settings.keep);
        record
    }
}
