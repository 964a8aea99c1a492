//! Sending hints. A hint that cannot be sent is not an error: the record knows when somebody will look.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{Engine, Unavailable};
use crate::ids::{Tenant, UrlId};
use crate::messages::Message;
use crate::ports::{Delay, Outgoing, QueueName, SendError};
use crate::records::{DeliveryRecord, DeliveryState};
use crate::time::Timestamp;

/// The ticket for the attempt that is next, if a queue can hold it that long.
pub(super) fn ticket_for(record: &DeliveryRecord, now: Timestamp) -> Option<Outgoing> {
    if record.state != DeliveryState::Waiting {
        return None;
    }
    let delay = Delay::new(record.due_at.since(now)).ok()?;
    Some(delivery_ticket(record, delay))
}

pub(super) fn delivery_ticket(record: &DeliveryRecord, delay: Delay) -> Outgoing {
    let message = Message::Delivery {
        key: record.key.clone(),
        url_id: record.url_id.clone(),
        epoch: record.epoch,
        n: record.next_attempt,
    };
    Outgoing { message, delay }
}

pub(super) fn probe_ticket(tenant: &Tenant, url_id: &UrlId) -> Outgoing {
    Outgoing {
        message: Message::Probe { tenant: tenant.clone(), url_id: url_id.clone() },
        delay: Delay::NONE,
    }
}

pub(super) fn announce_ticket(tenant: &Tenant, url_id: &UrlId) -> Outgoing {
    Outgoing {
        message: Message::Announce { tenant: tenant.clone(), url_id: url_id.clone() },
        delay: Delay::NONE,
    }
}

pub(super) fn release_ticket(tenant: &Tenant, url_id: &UrlId, step: u64, wait: Duration) -> Outgoing {
    let message = Message::Release { tenant: tenant.clone(), url_id: url_id.clone(), step };
    Outgoing { message, delay: Delay::at_most(wait) }
}

impl Engine {
    pub(super) async fn hint(&self, tickets: Vec<Outgoing>) {
        if tickets.is_empty() {
            return;
        }
        if let Err(error) = self.ports.queue.send(QueueName::Retry, tickets).await {
            let SendError::Partly { unsent, .. } = &error;
            self.tally.tickets_not_sent.fetch_add(unsent.len() as u64, Ordering::Relaxed);
            tracing::warn!(%error, "tickets were not sent; the sweep will send them");
        }
    }

    /// For messages that are not hints: they are the only trace of a delivery.
    pub(super) async fn send_first_attempts(&self, messages: Vec<Outgoing>) -> Result<(), Unavailable> {
        if messages.is_empty() {
            return Ok(());
        }
        Ok(self.ports.queue.send(QueueName::First, messages).await?)
    }
}
