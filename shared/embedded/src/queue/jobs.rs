use holdfast_core::ports::{BodyKey, QueueName, UnreadableMessage, chain};
use holdfast_core::records::{DeliveryTicket, FirstAttempt, Message};
use holdfast_core::time::Timestamp;
use rusqlite::{Connection, params};
use tokio::sync::oneshot;

use super::entry::{Decoded, Place, Sizes};
use super::group::GroupId;
use super::mirrors::{Mirrors, queue_number};
use super::ticket::{self, Sent, TicketId};
use crate::bodies::{NewBody, body_bytes, put_bodies};
use crate::checksum;
use crate::database::{CLOSED, write_meta};
use crate::error::Failure;
use crate::writer::Job;

pub(super) struct NewMessage {
    pub(super) group: GroupId,
    pub(super) place: Place,
    pub(super) payload: Vec<u8>,
    pub(super) message: Decoded,
    /// The body, if it is stored apart.
    pub(super) body: Option<NewBody>,
    /// The size of its body. Found when it is written, if the body is stored apart.
    pub(super) body_bytes: u64,
    pub(super) ticket: Option<TicketId>,
}

/// The body of a first attempt, which is stored with its message and not in it. `None`: the message has no body.
pub(super) fn body_of(message: &Message, remove_at: Timestamp) -> Option<NewBody> {
    let Message::FirstAttempt(FirstAttempt { body: Some(bytes), key, .. }) = message else { return None };
    Some(NewBody::new(BodyKey::of(key), bytes.clone(), remove_at))
}

/// The size of a body that is in the message.
pub(super) fn inline_body_bytes(message: &Message) -> u64 {
    match message {
        Message::FirstAttempt(FirstAttempt { body: Some(body), .. }) => body.len() as u64,
        _ => 0,
    }
}

/// The size of a body that is stored apart from the message. Retries hold theirs in memory too while they are made.
fn stored_body_bytes(connection: &Connection, queue: QueueName, message: &Decoded) -> rusqlite::Result<u64> {
    let key = match message {
        Ok(Message::FirstAttempt(FirstAttempt { body: None, key, .. })) => key,
        Ok(Message::Delivery(DeliveryTicket { key, .. })) if queue == QueueName::Retry => key,
        _ => return Ok(0),
    };
    Ok(body_bytes(connection, &BodyKey::of(key))?.unwrap_or(0).unsigned_abs())
}

/// Writes messages. They can be received once they are durable.
pub(super) struct SendJob {
    mirrors: Mirrors,
    queue: QueueName,
    rows: Vec<NewMessage>,
    /// What became of each row.
    sent: Vec<Sent>,
    reply: oneshot::Sender<Result<(), Failure>>,
}

impl SendJob {
    pub(super) fn new(
        mirrors: Mirrors,
        queue: QueueName,
        rows: Vec<NewMessage>,
        reply: oneshot::Sender<Result<(), Failure>>,
    ) -> SendJob {
        SendJob { mirrors, queue, rows, sent: Vec::new(), reply }
    }
}

impl Job for SendJob {
    fn run(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let mut statement = connection.prepare_cached(
            "INSERT INTO messages
                 (id, queue, group_id, deliver_at, body_bytes, received, opened, payload, checksum, ticket)
             VALUES (?1, ?2, ?3, ?4, ?5, 0, ?6, ?7, ?8, ?9)",
        )?;
        let queue = queue_number(self.queue);
        self.sent.clear();
        let bodies = self.rows.iter().filter_map(|row| row.body.as_ref());
        // The recipients of one event are neighbours and have the same body.
        let mut last = None;
        put_bodies(connection, bodies.filter(|body| last.replace(&body.key) != Some(&body.key)))?;
        for row in &mut self.rows {
            let sent = match row.ticket {
                Some(ticket) => {
                    let same = ticket.find(connection, queue)?;
                    let is_handled =
                        same.is_some_and(|same| self.mirrors.lock(self.queue).is_handled(same.id));
                    ticket::make_room(connection, same, is_handled, row)?
                }
                None => Sent::New,
            };
            self.sent.push(sent);
            if sent == Sent::NotNeeded {
                continue;
            }
            let NewMessage { group, place, payload, message, body_bytes, ticket, .. } = row;
            if *body_bytes == 0 {
                *body_bytes = stored_body_bytes(connection, self.queue, message)?;
            }
            let checksum = checksum::of(&[], payload);
            statement.execute(params![
                place.id,
                queue,
                group.0,
                place.deliver_at.as_millis(),
                *body_bytes as i64,
                self.mirrors.opens(),
                &*payload,
                checksum,
                ticket.map(|ticket| ticket.0)
            ])?;
        }
        Ok(())
    }

    fn done(self: Box<Self>, committed: Result<(), Failure>) {
        let SendJob { mirrors, queue, rows, sent, reply } = *self;
        if committed.is_ok() {
            let mut mirror = mirrors.lock(queue);
            for (row, sent) in rows.into_iter().zip(sent) {
                match sent {
                    Sent::NotNeeded => continue,
                    Sent::Replaces(id) => mirror.replaced(id),
                    Sent::New => {}
                }
                let NewMessage { group, place, payload, message, body, body_bytes, .. } = row;
                let sizes =
                    Sizes { payload: payload.len(), body: body_bytes, body_is_stored: body.is_some() };
                mirror.push(group, place, message, sizes);
            }
            drop(mirror);
            mirrors.news(queue).notify_waiters();
        }
        // The sender may have stopped waiting.
        let _ = reply.send(committed);
    }
}

/// Removes messages that were removed from memory already.
pub(super) struct DeleteJob {
    pub(super) mirrors: Mirrors,
    pub(super) queue: QueueName,
    pub(super) ids: Vec<i64>,
}

impl Job for DeleteJob {
    fn run(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let mut statement = connection.prepare_cached("DELETE FROM messages WHERE id = ?1")?;
        self.ids.iter().try_for_each(|id| statement.execute([id]).map(drop))
    }

    fn done(self: Box<Self>, committed: Result<(), Failure>) {
        // A row that could not be deleted stays marked, so that it is not received again before the next opening.
        if committed.is_ok() {
            self.mirrors.lock(self.queue).deleted(&self.ids);
        }
    }
}

/// Stores the exact receive counts, and that they are exact. Nothing is received after that.
pub(crate) struct CloseJob {
    pub(crate) mirrors: Mirrors,
}

impl Job for CloseJob {
    fn run(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let mut statement =
            connection.prepare_cached("UPDATE messages SET received = ?2, opened = ?3 WHERE id = ?1")?;
        let opens = self.mirrors.opens();
        for queue in [QueueName::First, QueueName::Retry] {
            for (id, received) in self.mirrors.lock(queue).close() {
                statement.execute(params![id, received, opens])?;
            }
        }
        write_meta(connection, CLOSED, &opens.to_string())
    }

    fn done(self: Box<Self>, committed: Result<(), Failure>) {
        if let Err(error) = committed {
            // As after a crash: the next opening counts one more for each message.
            tracing::warn!(error = chain(&error), "receive counts could not be stored at the close");
        }
    }
}

/// Turns a received message into a fresh one: the same row under a new id, so that old receipts do not name it.
pub(super) struct ResendJob {
    pub(super) mirrors: Mirrors,
    pub(super) queue: QueueName,
    pub(super) id: i64,
    pub(super) group: GroupId,
    pub(super) place: Place,
    pub(super) message: UnreadableMessage,
    /// Whether the row was still there.
    pub(super) found: bool,
    pub(super) reply: oneshot::Sender<Result<(), Failure>>,
}

impl Job for ResendJob {
    fn run(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let Place { deliver_at, id } = self.place;
        let mut statement = connection.prepare_cached(
            "UPDATE messages SET id = ?2, deliver_at = ?3, body_bytes = 0, received = 0, opened = ?4 WHERE id = ?1",
        )?;
        let changed =
            statement.execute(params![self.id, id, deliver_at.as_millis(), self.mirrors.opens()])?;
        self.found = changed > 0;
        Ok(())
    }

    fn done(self: Box<Self>, committed: Result<(), Failure>) {
        let ResendJob { mirrors, queue, id, group, place, message, found, reply } = *self;
        if committed.is_ok() && found {
            let sizes = Sizes::in_file(message.payload.len(), 0);
            let mut mirror = mirrors.lock(queue);
            mirror.remove(id);
            mirror.push(group, place, Err(message), sizes);
            drop(mirror);
            mirrors.news(queue).notify_waiters();
        }
        // The caller may have stopped waiting.
        let _ = reply.send(committed);
    }
}
