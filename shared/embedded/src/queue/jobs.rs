use holdfast_core::ports::QueueName;
use holdfast_core::records::{Message, Unreadable};
use rusqlite::{Connection, params};
use tokio::sync::oneshot;

use super::entry::Place;
use super::mirrors::{Mirrors, queue_number};
use crate::writer::Job;

pub(super) struct NewMessage {
    pub(super) place: Place,
    pub(super) payload: Vec<u8>,
    pub(super) message: Result<Message, Unreadable>,
}

/// Writes messages, and once they are safe makes them known.
pub(super) struct SendJob {
    pub(super) mirrors: Mirrors,
    pub(super) queue: QueueName,
    pub(super) rows: Vec<NewMessage>,
    pub(super) reply: oneshot::Sender<Result<(), String>>,
}

impl Job for SendJob {
    fn run(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let mut statement = connection.prepare_cached(
            "INSERT INTO messages (id, queue, deliver_at, received, opened, payload) VALUES (?1, ?2, ?3, 0, ?4, ?5)",
        )?;
        for NewMessage { place, payload, .. } in &self.rows {
            let deliver_at = place.deliver_at.as_millis();
            statement.execute(params![
                place.id,
                queue_number(self.queue),
                deliver_at,
                self.mirrors.opens(),
                payload
            ])?;
        }
        Ok(())
    }

    fn done(self: Box<Self>, committed: Result<(), String>) {
        let SendJob { mirrors, queue, rows, reply } = *self;
        if committed.is_ok() {
            let mut mirror = mirrors.lock(queue);
            for NewMessage { place, payload, message } in rows {
                mirror.push(place, message, payload.len(), 0);
            }
            drop(mirror);
            mirrors.news(queue).notify_waiters();
        }
        // The sender may have stopped waiting; its messages are sent all the same.
        let _ = reply.send(committed);
    }
}

/// Removes messages that are gone from memory already.
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

    fn done(self: Box<Self>, committed: Result<(), String>) {
        // A row that could not be deleted stays marked, so that it is not received again before the next opening.
        if committed.is_ok() {
            self.mirrors.lock(self.queue).deleted(&self.ids);
        }
    }
}
