//! At most one ticket in the file of those that ask for the same look at a record. The sweep sends a ticket again when it should have been
//! handled by then, and without this rule every one of them would stay in the file as long as its URL is behind.

use holdfast_core::records::{DeliveryTicket, Message};
use holdfast_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use super::group::GroupId;
use super::jobs::NewMessage;
use crate::list::short_hash;

/// Names what a ticket asks for. A hash, which makes the index in the file small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TicketId(pub(super) i64);

impl TicketId {
    /// `None`: the message is not only a hint, and each one counts.
    pub(super) fn of(message: &Message) -> Option<TicketId> {
        let (tenant, what) = (message.tenant(), what(message)?);
        // No tenant's name holds a `#`.
        Some(TicketId(short_hash([tenant.as_str(), "#", &what])))
    }

    /// The message in the file that asks for the same.
    pub(super) fn find(self, connection: &Connection, queue: u8) -> rusqlite::Result<Option<Queued>> {
        connection
            .prepare_cached("SELECT id, group_id, deliver_at FROM messages WHERE queue = ?1 AND ticket = ?2")?
            .query_row(params![queue, self.0], |row| {
                let deliver_at = Timestamp::from_millis(row.get(2)?);
                Ok(Queued { id: row.get(0)?, group: GroupId(row.get(1)?), deliver_at })
            })
            .optional()
    }
}

/// Neither the length of its chain nor the URL makes it another ticket: a delivery can be moved to another URL.
fn what(message: &Message) -> Option<String> {
    Some(match message {
        Message::FirstAttempt(_) => return None,
        Message::Delivery(DeliveryTicket { key, epoch, n, .. }) => {
            format!("delivery#{}#{}#{epoch}#{n}", key.event_key, key.subscription_id)
        }
        Message::Probe { url_id, .. } => format!("probe#{url_id}"),
        Message::Release { url_id, step, .. } => format!("release#{url_id}#{step}"),
        Message::Announce { url_id, .. } => format!("announce#{url_id}"),
        Message::Job { id, step, .. } => match step {
            Some(step) => format!("job#{id}#{step}"),
            None => format!("job#{id}"),
        },
    })
}

/// A ticket that is in the file.
#[derive(Clone, Copy)]
pub(super) struct Queued {
    pub(super) id: i64,
    group: GroupId,
    deliver_at: Timestamp,
}

/// What became of a message that was to be sent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sent {
    New,
    /// In place of this one.
    Replaces(i64),
    /// The same ticket is in the queue, and is received as soon or sooner.
    NotNeeded,
}

/// Decides what becomes of a ticket, and of the one in the file that asks for the same.
///
/// One that is being handled does not count: its handler may have read the record before it was written, or may itself be sending the
/// next ticket. One that is received later than now sees all that was written before.
pub(super) fn make_room(
    connection: &Connection,
    same: Option<Queued>,
    is_handled: bool,
    new: &mut NewMessage,
) -> rusqlite::Result<Sent> {
    let Some(same) = same else { return Ok(Sent::New) };
    if is_handled {
        connection.prepare_cached("UPDATE messages SET ticket = NULL WHERE id = ?1")?.execute([same.id])?;
        return Ok(Sent::New);
    }
    if same.group == new.group && same.deliver_at <= new.place.deliver_at {
        return Ok(Sent::NotNeeded);
    }
    new.place.deliver_at = new.place.deliver_at.min(same.deliver_at);
    connection.prepare_cached("DELETE FROM messages WHERE id = ?1")?.execute([same.id])?;
    Ok(Sent::Replaces(same.id))
}
