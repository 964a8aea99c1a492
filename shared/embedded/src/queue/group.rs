use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use holdfast_core::records::Message;

use super::entry::Place;
use crate::list::short_hash;
use crate::options::Options;

/// Names a tenant and a group of messages: two tenants with the same URL are two. A hash, which makes the index in the file small.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct GroupId(pub(super) i64);

impl GroupId {
    /// The group of all messages that could not be read when they were sent.
    pub(super) const UNREADABLE: GroupId = GroupId(0);

    pub(super) fn of(message: &Message) -> GroupId {
        // No tenant's name holds a `#`.
        GroupId(short_hash([message.tenant().as_str(), "#", name_of(message)]))
    }
}

const JOBS: &str = "jobs";
/// How many jobs of a tenant run at a time. Each keeps the queue's writer busy by itself, and their deliveries have limits of their
/// own.
const JOBS_IN_FLIGHT: usize = 2;

/// What the messages of a group have in common. All jobs of a tenant are one group: there is no bound on how many it has, as there is
/// for its URLs, and every group takes some memory.
fn name_of(message: &Message) -> &str {
    match message {
        Message::Job { .. } => JOBS,
        other => other.group(),
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
    pub(super) in_flight_bytes: u64,
}

impl Limits {
    /// So many messages of each group are kept in memory even if there is no room for more, so that all are served. One of each is enough for
    /// that: a tenant with more groups than it has subscriptions, because they move all the time, gets no more than one, and so does each if many
    /// tenants have very many groups.
    pub(super) const GROUP_RESERVE: usize = 16;

    pub(super) fn new(options: &Options, slots: usize) -> Limits {
        let group_in_flight = options.per_group_limit.max(1);
        Limits {
            slots,
            group_in_flight,
            messages: options.memory_messages,
            tenant_messages: options.memory_messages.div_ceil(2),
            group_messages: options.group_messages.max(1),
            bytes: options.memory_bytes,
            in_flight_bytes: options.in_flight_bytes,
        }
    }

    /// How many messages a group may have in memory, beside those in flight. `in_memory`: how many there are in all, long ones as several.
    pub(super) fn group_capacity(&self, in_memory: usize, of_tenant: usize) -> usize {
        let has_room = in_memory < self.messages && of_tenant < self.tenant_messages;
        // A small tenant is not hurt by what the others have in memory.
        if has_room || of_tenant < self.group_messages {
            self.group_messages
        } else if of_tenant < self.tenant_messages.saturating_mul(2)
            && in_memory < self.messages.saturating_mul(2)
        {
            Self::GROUP_RESERVE
        } else {
            1
        }
    }
}

/// The messages of one group, as far as they are in memory.
pub(super) struct Group {
    /// Empty until a message was read.
    pub(super) tenant: Arc<str>,
    /// The id of its URL, or "jobs".
    pub(super) name: Arc<str>,
    pub(super) ready: VecDeque<i64>,
    pub(super) delayed: BTreeSet<Place>,
    pub(super) in_memory: usize,
    pub(super) in_flight: usize,
    pub(super) in_flight_bytes: u64,
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
            name: message.map_or("", name_of).into(),
            ready: VecDeque::new(),
            delayed: BTreeSet::new(),
            in_memory: 0,
            in_flight: 0,
            in_flight_bytes: 0,
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

    /// How many more of its messages may be in flight.
    pub(super) fn room(&self, limits: &Limits) -> usize {
        let limit = if &*self.name == JOBS { JOBS_IN_FLIGHT } else { limits.group_in_flight };
        limit.saturating_sub(self.in_flight)
    }

    /// How many of its messages are in memory and not in flight. How many can be in flight has a limit of its own.
    pub(super) fn at_hand(&self) -> usize {
        self.in_memory - self.in_flight
    }

    /// Whether to load messages from the file: there are some, and there is room for many, or all that are in memory are postponed.
    pub(super) fn wants_more(&self, capacity: usize, group_messages: usize) -> bool {
        let is_stuck = self.ready.is_empty()
            && self.delayed.is_empty()
            && self.in_flight == 0
            && self.in_memory < group_messages.saturating_mul(2);
        self.horizon.is_some() && !self.is_loading && (self.at_hand() * 2 <= capacity || is_stuck)
    }

    /// Sets whose messages they are: those of a group in the file are not known before one was read.
    pub(super) fn name_after(&mut self, message: &Message) {
        (self.tenant, self.name) = (message.tenant().as_str().into(), name_of(message).into());
    }
}

/// What is counted for a tenant.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) in_memory: usize,
    pub(super) in_flight: usize,
    pub(super) in_flight_bytes: u64,
    /// The size of all its bodies, in memory or not.
    pub(super) body_bytes: u64,
}

impl Counts {
    pub(super) fn add(&mut self, group: &Group) {
        self.in_memory += group.in_memory;
        self.in_flight += group.in_flight;
        self.in_flight_bytes += group.in_flight_bytes;
        self.body_bytes += group.body_bytes;
    }

    pub(super) fn subtract(&mut self, group: &Group) {
        self.in_memory -= group.in_memory;
        self.in_flight -= group.in_flight;
        self.in_flight_bytes -= group.in_flight_bytes;
        self.body_bytes -= group.body_bytes;
    }

    pub(super) fn is_zero(&self) -> bool {
        self.in_memory == 0 && self.in_flight == 0 && self.body_bytes == 0
    }
}

#[cfg(test)]
mod tests {
    use holdfast_core::ids::{JobId, UrlId};

    use super::*;

    #[test]
    fn a_group_keeps_fewer_messages_in_memory_the_more_its_tenant_has() {
        let limits =
            Limits::new(&Options { memory_messages: 100, group_messages: 20, ..Options::default() }, 1);
        for (in_memory, of_tenant, expected) in [
            (0, 0, 20),
            (99, 49, 20),
            (100, 19, 20),
            (100, 20, 16),
            (60, 50, 16),
            (99, 99, 16),
            (199, 60, 16),
            (200, 60, 1),
            (200, 19, 20),
            (100, 100, 1),
            (900, 900, 1),
        ] {
            assert_eq!(limits.group_capacity(in_memory, of_tenant), expected, "{in_memory} {of_tenant}");
        }
    }

    #[test]
    fn a_tenants_jobs_are_one_group_and_its_urls_are_one_each() {
        let job = |tenant: &str, n| {
            GroupId::of(&Message::Job {
                tenant: tenant.into(),
                id: JobId::new([n; 16]),
                step: None,
                links: 0,
            })
        };
        let probe = |tenant: &str, url| {
            GroupId::of(&Message::Probe { tenant: tenant.into(), url_id: UrlId::of(url) })
        };
        assert_eq!(job("a", 1), job("a", 2));
        assert_ne!(job("a", 1), job("b", 1));
        assert_eq!(probe("a", "https://x.test"), probe("a", "https://x.test"));
        assert_ne!(probe("a", "https://x.test"), probe("a", "https://y.test"));
        assert_ne!(probe("a", "https://x.test"), probe("b", "https://x.test"));
    }
}
