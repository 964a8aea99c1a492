use crate::ids::{SubscriptionId, UrlId};
use crate::records::{Attempt, DeliveryRecord, LoggedDelivery, Record};
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
    pub attempts: Vec<Attempt>,
}

impl DeliveryView {
    /// Combines the records of one delivery: record, log and attempts. `None`: only attempts are left of it.
    pub(super) fn of(records: impl IntoIterator<Item = Record>, now: Timestamp) -> Option<DeliveryView> {
        let (mut view, mut logged, mut attempts) = (None, None, Vec::new());
        for record in records {
            match record {
                Record::Delivery(record) => view = Some(view_of(record, now)),
                Record::Logged(log) => logged = Some(log),
                Record::Attempt(attempt) => attempts.push(attempt),
                _ => {}
            }
        }
        if let Some(log) = logged {
            attempts.push(log.attempt.clone());
            view = Some(match view {
                // Delivered if either says so, but a replay is younger than the log.
                Some(view) if view.epoch == 0 => delivered(view),
                Some(view) => view,
                None => view_of_log(log),
            });
        }
        let mut view = view?;
        attempts.sort_by_key(|a| (a.epoch, a.n, a.at));
        view.attempts = attempts;
        Some(view)
    }
}

fn delivered(view: DeliveryView) -> DeliveryView {
    DeliveryView { state: DeliveryState::Delivered, reason: None, due_at: None, expires_at: None, ..view }
}

fn view_of(record: DeliveryRecord, now: Timestamp) -> DeliveryView {
    let (state, reason) = record.progress.state_at(now);
    DeliveryView {
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
        attempts: Vec::new(),
    }
}

fn view_of_log(log: LoggedDelivery) -> DeliveryView {
    DeliveryView {
        id: log.key.id(),
        event_id: log.event_id,
        event_type: log.event_type,
        subscription_id: log.key.subscription_id,
        url_id: log.url_id,
        url: log.url,
        state: DeliveryState::Delivered,
        reason: None,
        epoch: 0,
        accepted_at: log.accepted_at,
        due_at: None,
        expires_at: None,
        attempts: Vec::new(),
    }
}
