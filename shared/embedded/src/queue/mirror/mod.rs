//! What can be received, and what becomes of it.

mod loading;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use holdfast_core::ports::{Receipt, Received};
use holdfast_core::rules::turns::Turns;
use holdfast_core::time::{Now, Timestamp};

use super::entry::{Entry, Place, State, Taken, Wait};
use super::group::{Counts, Group, GroupId, Limits};
use super::share::{HeldBytes, Slots};
use super::slow::SlowTenants;

/// The part of one queue that is in memory: some messages of every group. The others wait in the file, in the order of their
/// group, so that no group's messages stand in line behind another's.
pub(super) struct Mirror {
    limits: Limits,
    entries: HashMap<i64, Entry>,
    groups: HashMap<GroupId, Group>,
    tenants: HashMap<Arc<str>, Counts>,
    slow: SlowTenants,
    /// The groups that have ready messages and are below their limit in flight.
    serving: Turns<Arc<str>, GroupId>,
    /// The groups with room for messages that are only in the file.
    loading: Turns<Arc<str>, GroupId>,
    /// By the schedule clock.
    delayed: BTreeSet<Place>,
    /// By the real clock.
    invisible: BTreeSet<(Timestamp, i64)>,
    in_flight: usize,
    in_flight_bytes: u64,
    /// All messages of the queue, in memory or not.
    messages: u64,
    /// The size of the payloads that are in memory.
    bytes: usize,
    /// How many are in memory, long ones as several.
    units: usize,
    /// Deleted from memory, but perhaps not yet from the file.
    deleting: HashSet<i64>,
    /// Nothing is received any more: the counts in the file are final.
    closed: bool,
}

impl Mirror {
    pub(super) fn new(limits: Limits) -> Mirror {
        Mirror {
            limits,
            entries: HashMap::new(),
            groups: HashMap::new(),
            tenants: HashMap::new(),
            slow: SlowTenants::default(),
            serving: Turns::default(),
            loading: Turns::default(),
            delayed: BTreeSet::new(),
            invisible: BTreeSet::new(),
            in_flight: 0,
            in_flight_bytes: 0,
            messages: 0,
            bytes: 0,
            units: 0,
            deleting: HashSet::new(),
            closed: false,
        }
    }

    /// Makes all messages ready that are due.
    fn wake(&mut self, now: Now) {
        while let Some(Place { deliver_at, id }) = self.delayed.first().copied()
            && deliver_at <= now.schedule
        {
            self.make_ready(id);
        }
        while let Some((until, id)) = self.invisible.first().copied()
            && until <= now.real
        {
            self.make_ready(id);
        }
    }

    fn make_ready(&mut self, id: i64) {
        self.leave_state(id);
        let Some(entry) = self.entries.get_mut(&id) else { return };
        entry.state = State::Ready;
        let group = entry.group;
        if let Some(group) = self.groups.get_mut(&group) {
            group.ready.push_back(id);
        }
        self.enrol(group);
    }

    /// Gives a group a turn if it can be served.
    fn enrol(&mut self, id: GroupId) {
        if let Some(group) = self.groups.get_mut(&id)
            && !group.in_turn
            && !group.ready.is_empty()
            && group.room(&self.limits) > 0
        {
            group.in_turn = true;
            self.serving.push(&group.tenant, id, 1);
        }
    }

    /// Removes a message from the collection of its state.
    fn leave_state(&mut self, id: i64) {
        let Some(entry) = self.entries.get(&id) else { return };
        let (group_id, state, body_bytes) = (entry.group, entry.state, entry.sizes.body);
        let Some(group) = self.groups.get_mut(&group_id) else { return };
        match state {
            State::Delayed { deliver_at } => {
                self.delayed.remove(&Place { deliver_at, id });
                group.delayed.remove(&Place { deliver_at, id });
            }
            State::Postponed { until } => {
                self.invisible.remove(&(until, id));
            }
            State::InFlight { until, .. } => {
                self.invisible.remove(&(until, id));
                self.in_flight -= 1;
                self.in_flight_bytes -= body_bytes;
                group.in_flight -= 1;
                group.in_flight_bytes -= body_bytes;
                if let Some(counts) = self.tenants.get_mut(&group.tenant) {
                    counts.in_flight -= 1;
                    counts.in_flight_bytes -= body_bytes;
                }
                self.enrol(group_id);
            }
            State::Ready => group.ready.retain(|ready| *ready != id),
        }
    }

    /// The next group of the tenant whose turn it is, and how many of the `wanted` slots it may take.
    fn next_group(&mut self, now: Timestamp, wanted: usize) -> Option<(GroupId, usize)> {
        // Taken out, so that what the tenants share can be looked at meanwhile.
        let mut serving = std::mem::take(&mut self.serving);
        let shares = self.shares(now);
        let next = serving.next(|tenant| shares.grant(tenant, 1) > 0);
        let granted = next.map(|(tenant, id)| (id, shares.grant(&tenant, wanted)));
        self.serving = serving;
        granted
    }

    fn shares(&self, now: Timestamp) -> Shares<'_> {
        let slots = Slots { total: self.limits.slots, in_flight: self.in_flight };
        let bytes = (self.in_flight_bytes, self.limits.in_flight_bytes);
        Shares { slots, bytes, tenants: &self.tenants, slow: &self.slow, now }
    }

    fn can_serve(&self, now: Timestamp) -> bool {
        let shares = self.shares(now);
        self.serving.any(|tenant| shares.grant(tenant, 1) > 0)
    }

    /// The next messages of the group whose turn it is.
    pub(super) fn receive(&mut self, now: Now, max: usize, until: Timestamp) -> Taken {
        self.wake(now);
        let mut taken = Taken::default();
        while max > 0
            && !self.closed
            && taken.received.is_empty()
            && let Some((id, granted)) = self.next_group(now.real, max)
        {
            let Some(group) = self.groups.get_mut(&id) else { continue };
            group.in_turn = false;
            let room = group.room(&self.limits);
            let counts = self.tenants.entry(Arc::clone(&group.tenant)).or_default();
            for _ in 0..granted.min(room) {
                let held = HeldBytes { total: self.in_flight_bytes, of_tenant: counts.in_flight_bytes };
                let Some(id) =
                    group.ready.front().copied().filter(|_| held.has_room(self.limits.in_flight_bytes))
                else {
                    break;
                };
                group.ready.pop_front();
                let Some(entry) = self.entries.get_mut(&id) else { continue };
                self.in_flight += 1;
                self.in_flight_bytes += entry.sizes.body;
                group.in_flight += 1;
                group.in_flight_bytes += entry.sizes.body;
                counts.in_flight += 1;
                counts.in_flight_bytes += entry.sizes.body;
                hand_out(id, entry, (now.real, until), &mut taken);
                self.invisible.insert((until, id));
            }
            // A turn counts as one message at least.
            self.serving.charge(&group.tenant, (taken.received.len() as u64).saturating_sub(1));
            self.enrol(id);
            self.load_if_wanted(id);
            self.forget_if_empty(id);
        }
        taken
    }

    /// Hands out nothing from now on. Returns the receive counts that the file does not have.
    pub(super) fn close(&mut self) -> Vec<(i64, u32)> {
        self.closed = true;
        let counted = self.entries.iter().filter(|(_, entry)| entry.received > entry.stored);
        counted.map(|(id, entry)| (*id, entry.received)).collect()
    }

    /// The message that a receipt names, unless it was received again since.
    pub(super) fn find(&self, receipt: &Receipt) -> Option<i64> {
        let (id, received) = receipt.0.split_once('.')?;
        let (id, received) = (id.parse().ok()?, received.parse::<u32>().ok()?);
        (self.entries.get(&id)?.received == received).then_some(id)
    }

    /// Notes how long a message held its slot. Called when it is settled.
    pub(super) fn note_held(&mut self, receipt: &Receipt, now: Timestamp) {
        let entry = self.find(receipt).and_then(|id| self.entries.get(&id));
        if let Some(Entry { state: State::InFlight { since, .. }, group, .. }) = entry
            && let Some(group) = self.groups.get(group)
        {
            self.slow.note(&group.tenant, now.since(*since), now);
        }
    }

    /// Returns the row to delete, and whose message it is.
    pub(super) fn delete(&mut self, receipt: &Receipt) -> Option<(i64, Arc<str>)> {
        let id = self.find(receipt)?;
        let tenant = self.tenant_of(id);
        self.remove(id);
        self.deleting.insert(id);
        Some((id, tenant))
    }

    pub(super) fn tenant_of(&self, id: i64) -> Arc<str> {
        let group = self.entries.get(&id).and_then(|entry| self.groups.get(&entry.group));
        group.map(|group| Arc::clone(&group.tenant)).unwrap_or_default()
    }

    /// Removes a message that will not be in the file any more.
    pub(super) fn remove(&mut self, id: i64) {
        let Some(Entry { group: group_id, sizes, .. }) = self.drop_entry(id) else { return };
        self.messages -= 1;
        if let Some(group) = self.groups.get_mut(&group_id) {
            group.body_bytes -= sizes.body;
            if let Some(counts) = self.tenants.get_mut(&group.tenant) {
                counts.body_bytes -= sizes.body;
                if counts.is_zero() {
                    self.tenants.remove(&group.tenant);
                }
            }
        }
        self.load_if_wanted(group_id);
        self.forget_if_empty(group_id);
    }

    /// Removes a message from memory.
    fn drop_entry(&mut self, id: i64) -> Option<Entry> {
        self.leave_state(id);
        let entry = self.entries.remove(&id)?;
        self.bytes -= entry.bytes_here();
        self.units -= entry.sizes.units();
        if let Some(group) = self.groups.get_mut(&entry.group) {
            group.in_memory -= 1;
            if let Some(counts) = self.tenants.get_mut(&group.tenant) {
                counts.in_memory -= 1;
            }
        }
        Some(entry)
    }

    fn forget_if_empty(&mut self, id: GroupId) {
        let is_empty = |group: &Group| group.in_memory == 0 && group.horizon.is_none() && !group.in_turn;
        if self.groups.get(&id).is_some_and(is_empty) {
            self.groups.remove(&id);
        }
    }

    /// Whether a message in the file is being handled, or was. One that cannot be read is never handled, so it counts as one that is.
    pub(super) fn is_handled(&self, id: i64) -> bool {
        let is_handled =
            |entry: &Entry| matches!(entry.state, State::InFlight { .. }) || entry.message.is_err();
        self.deleting.contains(&id) || self.entries.get(&id).is_some_and(is_handled)
    }

    /// Another message has taken the place of this one in the file.
    pub(super) fn replaced(&mut self, id: i64) {
        match self.entries.get(&id) {
            // It was received meanwhile, and is removed when it has been handled.
            Some(Entry { state: State::InFlight { .. }, .. }) => {}
            Some(_) => self.remove(id),
            // It was handled meanwhile.
            None if self.deleting.contains(&id) => {}
            None => self.messages -= 1,
        }
    }

    /// The rows were deleted from the file too.
    pub(super) fn deleted(&mut self, ids: &[i64]) {
        for id in ids {
            self.deleting.remove(id);
        }
    }

    pub(super) fn postpone(&mut self, receipt: &Receipt, until: Timestamp) {
        let Some(id) = self.find(receipt) else { return };
        self.leave_state(id);
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.state = State::Postponed { until };
            self.invisible.insert((until, id));
            let group = entry.group;
            self.load_if_wanted(group);
        }
    }

    /// The group of a message.
    pub(super) fn group_of(&self, id: i64) -> Option<GroupId> {
        self.entries.get(&id).map(|entry| entry.group)
    }

    /// How long nothing can be received if nothing else happens.
    pub(super) fn wait(&mut self, now: Now) -> Wait {
        self.wake(now);
        let schedule = self.delayed.first().map(|place| place.deliver_at.since(now.schedule));
        let real = self.invisible.first().map(|(until, _)| until.since(now.real));
        match (schedule, real) {
            _ if self.closed => Wait::News,
            _ if self.can_serve(now.real) => Wait::Over,
            (None, None) => Wait::News,
            _ => Wait::Until {
                schedule: schedule.unwrap_or(Duration::MAX),
                real: real.unwrap_or(Duration::MAX),
            },
        }
    }

    /// How many messages the queue has, in memory or not.
    pub(super) fn messages(&self) -> u64 {
        self.messages
    }

    /// The size of the bodies of a tenant's messages, in memory or not.
    pub(super) fn body_bytes(&self, tenant: &str) -> u64 {
        self.tenants.get(tenant).map_or(0, |counts| counts.body_bytes)
    }

    /// The same by the name of their group.
    pub(super) fn body_bytes_by_group(&self, tenant: &str) -> Vec<(Arc<str>, u64)> {
        let groups = self.groups.values().filter(|group| group.body_bytes > 0 && &*group.tenant == tenant);
        groups.map(|group| (Arc::clone(&group.name), group.body_bytes)).collect()
    }
}

/// What tenants share.
struct Shares<'a> {
    slots: Slots,
    /// The bytes of bodies in flight, and how many there may be.
    bytes: (u64, u64),
    tenants: &'a HashMap<Arc<str>, Counts>,
    slow: &'a SlowTenants,
    now: Timestamp,
}

impl Shares<'_> {
    fn grant(&self, tenant: &str, wanted: usize) -> usize {
        let (in_flight, of_tenant) =
            self.tenants.get(tenant).map_or((0, 0), |counts| (counts.in_flight, counts.in_flight_bytes));
        let (total, limit) = self.bytes;
        if !(HeldBytes { total, of_tenant }).has_room(limit) {
            return 0;
        }
        self.slots.grant(wanted, in_flight, self.slow.is_slow(tenant, self.now))
    }
}

fn hand_out(id: i64, entry: &mut Entry, (since, until): (Timestamp, Timestamp), taken: &mut Taken) {
    entry.state = State::InFlight { since, until };
    entry.received = entry.received.saturating_add(1);
    // The next opening adds one to the stored count: that covers one receipt, not two.
    if entry.received - entry.stored > 1 {
        entry.stored = entry.received - 1;
        taken.counts.push((id, entry.stored));
    }
    if entry.without_body && !entry.sizes.body_is_stored {
        taken.without_body.push((taken.received.len(), id));
    }
    taken.received.push(Received {
        message: entry.message.clone(),
        receipt: Receipt(format!("{id}.{}", entry.received)),
        receive_count: entry.received,
        body_is_stored: entry.sizes.body_is_stored,
    });
}
