//! Gives a delivered or dead delivery a new epoch with a fresh schedule.

use super::enqueue::delivery_ticket;
use super::{Engine, MOST_CONFLICTS, Unavailable};
use crate::ids::{DeliveryKey, JobId};
use crate::ports::{BodyKey, Delay, Expect, Write};
use crate::records::{DeliveryRecord, DeliveryState, EventRecord, LoggedDelivery, NewDelivery, Record};

#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    #[error("there is no such delivery")]
    Unknown,
    #[error("the delivery is {}: it will be attempted without a replay", .0.as_str())]
    Live(DeliveryState),
    #[error("the delivery's body is no longer kept")]
    BodyGone,
    #[error("the delivery's subscription was deleted")]
    Unsubscribed,
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl Engine {
    /// Answers the id of the replay.
    pub async fn replay(&self, key: &DeliveryKey) -> Result<JobId, ReplayError> {
        for _ in 0..MOST_CONFLICTS {
            let (before, version) = self.replayable(key).await?;
            // The body's removal is moved on before the new epoch is written: a live delivery always has its body.
            let body = BodyKey::of(key);
            let remove_at = self.body_remove_at();
            if !self.ports.store.keep_body(&body, remove_at).await.map_err(Unavailable::from)? {
                return Err(ReplayError::BodyGone);
            }
            self.keep_event(&before).await?;
            let mut record = before.clone();
            record.replay(&self.settings.schedule, self.ports.clock.now());
            let written = match version {
                Some(version) => self.put_delivery(&before, version, record.clone(), Vec::new()).await?,
                None => self.create(record.clone(), Vec::new()).await?,
            };
            if written {
                self.hint(vec![delivery_ticket(&record, Delay::NONE)]).await;
                return Ok(JobId::derived(&["replay", &key.id(), &record.epoch.to_string()]));
            }
        }
        Err(Unavailable(format!("{} changes too often to be replayed", key.id())).into())
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

    /// The record to replay, with its version if it exists; one that succeeded at once has only its log.
    async fn replayable(&self, key: &DeliveryKey) -> Result<(DeliveryRecord, Option<u64>), ReplayError> {
        let keys = [DeliveryRecord::key(key), LoggedDelivery::key(key)];
        let found = self.ports.store.get(&keys).await.map_err(Unavailable::from)?;
        let mut found = found.into_iter().map(|v| v.map(|v| (v.record, v.version)));
        let (record, logged) = (found.next().flatten(), found.next().flatten());
        let (record, version) = match (record, logged) {
            (Some((Record::Delivery(record), version)), _) => (record, Some(version)),
            (_, Some((Record::Logged(logged), _))) => (self.record_of(logged), None),
            _ => return Err(ReplayError::Unknown),
        };
        let (state, _) = record.state_at(self.ports.clock.now());
        if state.is_live() {
            return Err(ReplayError::Live(state));
        }
        if self.get_subscription(&key.tenant, &key.subscription_id).await?.is_none() {
            return Err(ReplayError::Unsubscribed);
        }
        Ok((record, version))
    }

    fn record_of(&self, logged: LoggedDelivery) -> DeliveryRecord {
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
