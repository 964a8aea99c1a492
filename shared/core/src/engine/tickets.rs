//! Sends tickets. A ticket that cannot be sent is not an error: the record knows when the sweep looks at it.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{Engine, Result, Unavailable};
use crate::ids::{JobId, Tenant, UrlId};
use crate::ports::{Delay, Outgoing, QueueName, chain};
use crate::records::{DeliveryRecord, DeliveryTicket, Message};
use crate::rules::delivery::DeliveryState;
use crate::time::Timestamp;

/// The ticket for the attempt that is next, if a queue can hold it that long.
pub(super) fn next_ticket(record: &DeliveryRecord, now: Timestamp) -> Option<Outgoing> {
    if record.progress.state != DeliveryState::Waiting {
        return None;
    }
    let delay = Delay::new(record.progress.due_at.since(now)).ok()?;
    Some(delivery_ticket(record, delay))
}

pub(super) fn delivery_ticket(record: &DeliveryRecord, delay: Delay) -> Outgoing {
    let ticket = DeliveryTicket {
        key: record.key.clone(),
        url_id: record.url_id.clone(),
        epoch: record.progress.epoch,
        n: record.progress.next_attempt,
        links: 0,
    };
    Outgoing { message: Message::Delivery(ticket), delay }
}

/// `wait`: until the probe is due.
pub(super) fn probe_ticket(tenant: &Tenant, url_id: &UrlId, wait: Duration) -> Outgoing {
    let message = Message::Probe { tenant: tenant.clone(), url_id: url_id.clone() };
    Outgoing { message, delay: Delay::at_most(wait) }
}

pub(super) fn announce_ticket(tenant: &Tenant, url_id: &UrlId) -> Outgoing {
    let message = Message::Announce { tenant: tenant.clone(), url_id: url_id.clone() };
    Outgoing { message, delay: Delay::NONE }
}

pub(super) fn release_ticket(tenant: &Tenant, url_id: &UrlId, step: u64, wait: Duration) -> Outgoing {
    let message = Message::Release { tenant: tenant.clone(), url_id: url_id.clone(), step, links: 0 };
    Outgoing { message, delay: Delay::at_most(wait) }
}

/// `wait` is on the schedule's clock.
pub(super) fn job_ticket(tenant: &Tenant, id: &JobId, wait: Duration) -> Outgoing {
    let message = Message::Job { tenant: tenant.clone(), id: id.clone(), step: None, links: 0 };
    Outgoing { message, delay: Delay::at_most(wait) }
}

/// The same for one step of the job.
pub(super) fn job_step_ticket(tenant: &Tenant, id: &JobId, step: u64, wait: Duration) -> Outgoing {
    let message = Message::Job { tenant: tenant.clone(), id: id.clone(), step: Some(step), links: 0 };
    Outgoing { message, delay: Delay::at_most(wait) }
}

/// A ticket that is sent while another one, at `links` in its chain, is handled. `None`: the chain is long enough. The record says when the
/// sweep looks at it, and the sweep begins a new chain.
pub(super) fn linked_after(links: u32, ticket: Outgoing) -> Option<Outgoing> {
    let Outgoing { message, delay } = ticket;
    Some(Outgoing { message: message.linked_after(links)?, delay })
}

/// The tickets of what succeeded, which are sent in any case, and the last error of what did not.
pub(super) fn split_tickets<T: IntoIterator<Item = Outgoing>>(
    results: Vec<Result<T>>,
) -> (Vec<Outgoing>, Option<Unavailable>) {
    let mut tickets = Vec::new();
    let mut failed = None;
    for result in results {
        match result {
            Ok(ticket) => tickets.extend(ticket),
            Err(error) => failed = Some(error),
        }
    }
    (tickets, failed)
}

impl Engine {
    pub(super) async fn send_tickets(&self, tickets: Vec<Outgoing>) {
        if tickets.is_empty() {
            return;
        }
        if let Err(error) = self.ports.queue.send(QueueName::Retry, tickets).await {
            self.counters.tickets_not_sent.fetch_add(error.unsent.len() as u64, Ordering::Relaxed);
            tracing::warn!(error = chain(&error), "tickets were not sent; the sweep sends them");
        }
    }
}
