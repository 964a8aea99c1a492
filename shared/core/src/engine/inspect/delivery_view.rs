use super::super::Settings;
use crate::ids::{SubscriptionId, UrlId};
use crate::records::{Attempt, DeliveryRecord, Record};
use crate::rules::delivery::{DeliveryState, Reason};
use crate::time::Timestamp;

/// A delivery as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryView {
    pub id: String,
    pub event_id: String,
    pub event_type: String,
    pub subscription_id: SubscriptionId,
    pub url_id: UrlId,
    pub url: String,
    pub state: DeliveryState,
    pub reason: Option<Reason>,
    pub epoch: u32,
    pub accepted_at: Timestamp,
    /// Only while it is alive.
    pub due_at: Option<Timestamp>,
    pub expires_at: Option<Timestamp>,
    /// The newest of them, oldest first.
    pub attempts: Vec<Attempt>,
}

impl DeliveryView {
    /// Without the attempts before the newest `max`.
    pub(super) fn with_newest(mut self, max: usize) -> DeliveryView {
        let older = self.attempts.len().saturating_sub(max);
        self.attempts.drain(..older);
        self
    }

    /// Combines the records of one delivery: record, log and attempts. `None`: only attempts are left of it.
    pub(super) fn of(
        records: impl IntoIterator<Item = Record>,
        settings: &Settings,
        now: Timestamp,
    ) -> Option<DeliveryView> {
        let (mut recorded, mut logged, mut attempts) = (None, None, Vec::new());
        for record in records {
            match record {
                Record::Delivery(record) => recorded = Some(record),
                Record::Logged(log) => {
                    attempts.push(log.attempt.clone());
                    logged = Some(log.into_record(&settings.schedule, settings.keep));
                }
                Record::Attempt(attempt) => attempts.push(attempt),
                _ => {}
            }
        }
        attempts.sort_by_key(|a| (a.epoch, a.n, a.at));
        // Delivered if either says so, but a replay is younger than the log.
        let replayed = recorded.as_ref().is_some_and(|record: &DeliveryRecord| record.progress.epoch > 0);
        let record = logged.filter(|_| !replayed).or(recorded)?;
        let (state, reason) = record.progress.state_at(now);
        Some(DeliveryView {
            id: record.key.id(),
            event_id: record.event_id,
            event_type: record.event_type,
            subscription_id: record.key.subscription_id,
            url_id: record.url_id,
            url: record.url,
            state,
            reason,
            epoch: record.progress.epoch,
            accepted_at: record.accepted_at,
            due_at: state.is_live().then_some(record.progress.due_at),
            expires_at: state.is_live().then_some(record.progress.expires_at),
            attempts,
        })
    }
}
