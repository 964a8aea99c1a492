//! Takes a batch from a queue and says what becomes of each message.

use futures_util::future::{join_all, join3};

use super::{Engine, Unavailable};
use crate::messages::{FirstAttempt, Message, Undecodable};
use crate::ports::Received;
use crate::time::Timestamp;

/// What the host does with a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Delete it: all that follows from it is safe.
    Done,
    /// We failed, not the customer: give it back after a while.
    Again(String),
    /// A newer Holdfast wrote it: send it again unchanged, as a new message with a delay, so that it never looks like poison.
    Newer(String),
    /// Nobody can read it: put it aside for a person.
    DeadLetter(String),
}

impl From<Result<(), Unavailable>> for Verdict {
    fn from(result: Result<(), Unavailable>) -> Self {
        match result {
            Ok(()) => Verdict::Done,
            Err(error) => Verdict::Again(error.to_string()),
        }
    }
}

/// A ticket for a delivery, with what its receipt tells.
#[derive(Clone)]
pub(super) struct DeliveryTicket {
    pub(super) key: crate::ids::DeliveryKey,
    pub(super) epoch: u32,
    pub(super) n: u32,
    pub(super) redelivered: bool,
}

/// A first-attempt message, with how often it was received.
pub(super) struct FirstMessage {
    pub(super) message: FirstAttempt,
    pub(super) receive_count: u32,
}

impl Engine {
    /// One verdict per message, in their order. A customer's failure is never an error here. At `until_real` the host's time for
    /// this batch is over: nothing is begun that could not end before, and goes back instead.
    pub async fn handle(&self, batch: Vec<Received>, until_real: Timestamp) -> Vec<Verdict> {
        let mut verdicts = vec![Verdict::Done; batch.len()];
        let (mut firsts, mut tickets, mut others) = (Vec::new(), Vec::new(), Vec::new());
        for (index, received) in batch.into_iter().enumerate() {
            let redelivered = received.receive_count > 1;
            match received.message {
                Ok(Message::FirstAttempt(message)) => {
                    firsts.push((index, FirstMessage { message, receive_count: received.receive_count }));
                }
                Ok(Message::Delivery { key, epoch, n, .. }) => {
                    tickets.push((index, DeliveryTicket { key, epoch, n, redelivered }));
                }
                Ok(other) => others.push((index, other)),
                Err(Undecodable::Newer(version)) => verdicts[index] = newer(version),
                Err(Undecodable::Poison(why)) => verdicts[index] = Verdict::DeadLetter(why),
            }
        }
        let (first_indexes, firsts): (Vec<_>, Vec<_>) = firsts.into_iter().unzip();
        let (ticket_indexes, tickets): (Vec<_>, Vec<_>) = tickets.into_iter().unzip();
        let others = join_all(
            others
                .into_iter()
                .map(|(index, message)| async move { (index, self.follow(message, until_real).await) }),
        );
        let (firsts, tickets, others) =
            join3(self.deliver_firsts(firsts, until_real), self.deliver_tickets(tickets, until_real), others)
                .await;
        let all = first_indexes
            .into_iter()
            .zip(firsts)
            .chain(ticket_indexes.into_iter().zip(tickets))
            .chain(others);
        for (index, result) in all {
            verdicts[index] = result.into();
        }
        verdicts
    }

    /// Everything but deliveries is handled one by one.
    async fn follow(&self, message: Message, until_real: Timestamp) -> Result<(), Unavailable> {
        match message {
            Message::Probe { tenant, url_id } => self.probe(&tenant, &url_id, until_real).await,
            Message::Release { tenant, url_id, step } => self.release(&tenant, &url_id, step).await,
            Message::Announce { tenant, url_id } => self.announce(&tenant, &url_id).await,
            Message::Job { tenant, id } => self.go_on_with(&tenant, &id, until_real).await,
            Message::FirstAttempt(_) | Message::Delivery { .. } => Ok(()),
        }
    }
}

fn newer(version: u32) -> Verdict {
    Verdict::Newer(format!("message version {version} is for a newer Holdfast"))
}
