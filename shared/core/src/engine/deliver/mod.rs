//! Takes a batch of messages from a queue, makes the attempts, and records what came of them.

mod attempt;
mod batch;
mod bodies;
mod body_cache;
mod context;
mod first;
mod outage;
mod outcome;
mod paced_log;
mod retry;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join_all, join3};

pub(super) use attempt::{Attempted, Ready};
pub(super) use batch::GivenBackLog;
pub(super) use body_cache::BodyCache;
pub(super) use context::{Admission, AllowedBy, is_fresh};
pub(super) use outage::Outage;
pub(super) use paced_log::PacedLog;

use super::{Engine, Result};
use crate::ports::{Received, Settlement};
use crate::records::Message;
use crate::time::Timestamp;
use batch::{Batch, Handled, Slot};
use first::FirstMessage;
use retry::RetryTicket;

impl Engine {
    /// Handles a batch and returns what the host must do with each message, in their order. A customer's failure is never an error
    /// here. `until_real` is the end of the host's time for this batch: what could not end before is not begun and goes back.
    pub async fn handle(&self, batch: Vec<Received>, until_real: Timestamp) -> Vec<Settlement> {
        let (mut batch, messages) = Batch::new(batch);
        let (mut firsts, mut tickets, mut others) = (Vec::new(), Vec::new(), Vec::new());
        for (slot, Received { message, receive_count, body_is_stored, .. }) in messages {
            match message {
                Ok(Message::FirstAttempt(message)) => {
                    firsts.push((slot, FirstMessage { message, receive_count, body_is_stored }));
                }
                Ok(Message::Delivery(ticket)) => {
                    tickets.push((slot, RetryTicket { ticket, redelivered: receive_count > 1 }));
                }
                Ok(Message::Probe { tenant, url_id }) => {
                    others
                        .push((slot, async move { self.probe(&tenant, &url_id, until_real).await }.boxed()));
                }
                Ok(Message::Release { tenant, url_id, step, links }) => {
                    let release =
                        async move { self.release(&tenant, &url_id, step, links, until_real).await };
                    others.push((slot, release.boxed()));
                }
                Ok(Message::Announce { tenant, url_id }) => {
                    others.push((slot, async move { self.announce(&tenant, &url_id).await }.boxed()));
                }
                Ok(Message::Job { tenant, id, step, links }) => {
                    let resume = async move { self.resume_job(&tenant, &id, step, links, until_real).await };
                    others.push((slot, resume.boxed()));
                }
                Err(unreadable) => batch.cannot_read(slot, unreadable),
            }
        }
        let (firsts, tickets, others) = join3(
            self.deliver_firsts(firsts, until_real),
            self.deliver_tickets(tickets, until_real),
            each_alone(others),
        )
        .await;
        for handled in [firsts, tickets, others] {
            batch.fill(handled);
        }
        batch.settlements(&self.given_back_log, self.ports.clock.now_real())
    }
}

/// Tickets for URLs and jobs have nothing to share with each other.
async fn each_alone(work: Vec<(Slot, BoxFuture<'_, Result<()>>)>) -> Handled {
    join_all(work.into_iter().map(async |(slot, work)| (slot, work.await))).await
}
