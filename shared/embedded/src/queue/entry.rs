use std::time::Duration;

use holdfast_core::ports::{Received, UnreadableMessage};
use holdfast_core::records::Message;
use holdfast_core::time::Timestamp;

use super::group::GroupId;

/// A message's place in the order of its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) deliver_at: Timestamp,
    pub(super) id: i64,
}

impl Place {
    pub(super) const START: Place = Place { deliver_at: Timestamp::ZERO, id: i64::MIN };

    pub(super) fn next(self) -> Place {
        Place { id: self.id + 1, ..self }
    }
}

/// A message as far as this release can read it.
pub(super) type Decoded = Result<Message, UnreadableMessage>;

/// Most messages take no more than this beside their bodies.
const UNIT_BYTES: usize = 1_024;

/// The sizes of a message.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    pub(super) payload: usize,
    /// Of its body, which may be in the payload or stored apart.
    pub(super) body: u64,
    /// The body is stored apart, and not in the payload.
    pub(super) body_is_stored: bool,
}

impl Sizes {
    /// Of a message as it is in the file.
    pub(super) fn in_file(payload: usize, body: u64) -> Sizes {
        Sizes { payload, body, body_is_stored: false }
    }

    /// As how many messages it counts in memory: as several if its type, id or trace are long.
    pub(super) fn units(self) -> usize {
        let body = if self.body_is_stored { 0 } else { self.body as usize };
        1 + self.payload.saturating_sub(body) / UNIT_BYTES
    }

    /// What it takes in memory with its body.
    pub(super) fn in_memory(self) -> usize {
        self.payload + if self.body_is_stored { self.body as usize } else { 0 }
    }
}

pub(super) struct Entry {
    pub(super) message: Decoded,
    pub(super) group: GroupId,
    pub(super) sizes: Sizes,
    /// Its body did not fit in memory. Unless it is stored apart, it is read from the file when the message is received.
    pub(super) without_body: bool,
    pub(super) received: u32,
    /// The value of `received` in the file.
    pub(super) stored: u32,
    pub(super) state: State,
}

impl Entry {
    /// How many bytes of the payload and of the body are in memory.
    pub(super) fn bytes_here(&self) -> usize {
        if self.without_body { 0 } else { self.sizes.in_memory() }
    }
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum State {
    Delayed {
        deliver_at: Timestamp,
    },
    Ready,
    /// Received and counted in its group, until then.
    InFlight {
        since: Timestamp,
        until: Timestamp,
    },
    /// Invisible, but not counted in its group.
    Postponed {
        until: Timestamp,
    },
}

#[derive(Default)]
pub(super) struct Taken {
    pub(super) received: Vec<Received>,
    /// Which of them lack their body, and under which id it is in the file.
    pub(super) without_body: Vec<(usize, i64)>,
    /// Receive counts to store before the messages are returned.
    pub(super) counts: Vec<(i64, u32)>,
}

/// How long nothing can be received.
#[derive(Debug, PartialEq)]
pub(super) enum Wait {
    Over,
    Until { schedule: Duration, real: Duration },
    News,
}

/// The next messages to load from the file.
pub(super) struct Load {
    pub(super) group: GroupId,
    pub(super) from: Place,
    pub(super) limit: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_with_a_long_type_counts_as_several_and_one_with_a_long_body_does_not() {
        for (payload, body, body_is_stored, units) in
            [(300, 0, false, 1), (300, 900_000, true, 1), (900_300, 900_000, false, 1), (3_100, 0, false, 4)]
        {
            assert_eq!(Sizes { payload, body, body_is_stored }.units(), units, "{payload} {body}");
        }
    }
}
