use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use holdfast_core::records::Message;
use sha2::{Digest, Sha256};

use super::entry::Place;
use crate::options::Options;

/// Names a tenant and a group of messages: two tenants with the same URL are two. A hash, which makes the index in the file small.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct GroupId(pub(super) i64);

impl GroupId {
    /// The group of all messages that could not be read when they were sent.
    pub(super) const UNREADABLE: GroupId = GroupId(0);

    pub(super) fn of(message: &Message) -> GroupId {
        // No tenant's name holds a `#`.
        let hash = Sha256::new()
            .chain_update(message.tenant().as_str())
            .chain_update("#")
            .chain_update(message.group())
            .finalize();
        GroupId(hash.first_chunk().map_or(0, |start| i64::from_be_bytes(*start)))
    }
}

/// What a queue may keep in memory and have in flight.
pub(super) struct Limits {
    pub(super) slots: usize,
    pub(super) group_in_flight: usize,
    pub(super) messages: usize,
    pub(super) tenant_messages: usize,
    pub(super) group_messages: usize,
    pub(super) bytes: usize,
}

impl Limits {
    /// So many messages of each group are kept in memory even if there is no room for more, so that all are served.
    pub(super) const GROUP_RESERVE: usize = 8;

    pub(super) fn new(options: &Options, slots: usize) -> Limits {
        let group_in_flight = options.per_group_limit.max(1);
        Limits {
            slots,
            group_in_flight,
            messages: options.memory_messages,
            tenant_messages: options.memory_messages.div_ceil(2),
            // Enough to have a full group in flight while the next messages are loaded.
            group_messages: options.group_messages.max(group_in_flight.saturating_mul(2)),
            bytes: options.memory_bytes,
        }
    }

    /// How many messages a group may have in memory.
    pub(super) fn group_capacity(&self, in_memory: usize, of_tenant: usize) -> usize {
        if in_memory < self.messages && of_tenant < self.tenant_messages {
            self.group_messages
        } else {
            Self::GROUP_RESERVE
        }
    }
}

/// The messages of one group, as far as they are in memory.
pub(super) struct Group {
    /// Empty until a message was read.
    pub(super) tenant: Arc<str>,
    /// What the messages of the group have in common: the id of a URL or of a job.
    pub(super) name: Arc<str>,
    pub(super) ready: VecDeque<i64>,
    pub(super) delayed: BTreeSet<Place>,
    pub(super) in_memory: usize,
    pub(super) in_flight: usize,
    pub(super) in_turn: bool,
    /// The first place from which messages may be only in the file. Messages after it may be in memory too, if they were there
    /// before it was set.
    pub(super) horizon: Option<Place>,
    pub(super) is_loading: bool,
    /// The size of all its bodies, in memory or not.
    pub(super) body_bytes: u64,
}

impl Group {
    pub(super) fn of(message: Option<&Message>) -> Group {
        Group {
            tenant: message.map_or("", |message| message.tenant().as_str()).into(),
            name: message.map_or("", Message::group).into(),
            ready: VecDeque::new(),
            delayed: BTreeSet::new(),
            in_memory: 0,
            in_flight: 0,
            in_turn: false,
            horizon: None,
            is_loading: false,
            body_bytes: 0,
        }
    }

    /// A group whose messages are all in the file.
    pub(super) fn in_file(body_bytes: u64) -> Group {
        Group { horizon: Some(Place::START), body_bytes, ..Group::of(None) }
    }

    /// Whether to load messages from the file: there are some, and there is room for many.
    pub(super) fn wants_more(&self, capacity: usize) -> bool {
        self.horizon.is_some() && !self.is_loading && self.in_memory * 2 <= capacity
    }
}

/// What is counted for a tenant.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) in_memory: usize,
    pub(super) in_flight: usize,
}

impl Counts {
    pub(super) fn is_zero(&self) -> bool {
        self.in_memory == 0 && self.in_flight == 0
    }
}
