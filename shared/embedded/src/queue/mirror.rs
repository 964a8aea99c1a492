use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use holdfast_core::ports::{Receipt, Received};
use holdfast_core::records::{FirstAttempt, Message};
use holdfast_core::time::{Now, Timestamp};

use super::entry::{Decoded, Entry, Group, Limits, Place, State, Taken, Wait};

/// The group of all messages that cannot be read. No tenant has an empty name.
const UNREADABLE: &str = "#";

/// The part of one queue that is in memory.
///
/// Messages that do not fit are only in the file, at `horizon` or after it. Messages after it may be in memory too, if they were
/// there before it was set.
pub(super) struct Mirror {
    limits: Limits,
    entries: HashMap<i64, Entry>,
    /// By tenant and group of the messages: two tenants with the same URL are two.
    groups: HashMap<Arc<str>, Group>,
    /// The tenants that can be served, in turn.
    turns: VecDeque<Arc<str>>,
    /// The groups of each of these tenants that can be served, in turn.
    tenants: HashMap<Arc<str>, VecDeque<Arc<str>>>,
    /// By the schedule clock.
    delayed: BTreeSet<Place>,
    /// By the real clock.
    invisible: BTreeSet<(Timestamp, i64)>,
    bytes: usize,
    horizon: Option<Place>,
    /// Deleted from memory, but perhaps not yet from the file.
    deleting: HashSet<i64>,
}

impl Mirror {
    /// Empty: all messages are only in the file.
    pub(super) fn new(limits: Limits) -> Mirror {
        Mirror {
            limits,
            entries: HashMap::new(),
            groups: HashMap::new(),
            turns: VecDeque::new(),
            tenants: HashMap::new(),
            delayed: BTreeSet::new(),
            invisible: BTreeSet::new(),
            bytes: 0,
            horizon: Some(Place::START),
            deleting: HashSet::new(),
        }
    }

    fn is_full(&self) -> bool {
        self.entries.len() >= self.limits.messages
    }

    /// Whether messages wait in the file, and there is room for many of them or nothing else to do.
    pub(super) fn wants_more(&self) -> bool {
        let half_empty = self.entries.len() <= self.limits.messages / 2;
        self.horizon.is_some() && !self.is_full() && (half_empty || self.turns.is_empty())
    }

    /// The first place from which messages may be only in the file.
    pub(super) fn waiting_from(&self) -> Option<Place> {
        self.horizon
    }

    pub(super) fn all_loaded(&mut self) {
        self.horizon = None;
    }

    /// Loads the next message from the file. Returns `false` if there is no room for it.
    pub(super) fn load(&mut self, place: Place, read: impl FnOnce() -> (Decoded, usize, u32)) -> bool {
        if self.is_full() {
            self.horizon = Some(place);
            return false;
        }
        if !self.entries.contains_key(&place.id) && !self.deleting.contains(&place.id) {
            let (message, bytes, received) = read();
            self.insert(place, message, bytes, received);
        }
        self.horizon = Some(Place { id: place.id + 1, ..place });
        true
    }

    /// Adds a message that was just committed, or leaves it in the file.
    pub(super) fn push(&mut self, place: Place, message: Decoded, bytes: usize) {
        // Messages that are due sooner replace those that are due later; otherwise many delayed messages would keep out new ones.
        while self.is_full()
            && let Some(last) = self.delayed.last().copied()
            && last > place
        {
            self.remove(last.id);
            self.leave_in_file(last);
        }
        if self.is_full() || self.horizon.is_some_and(|horizon| place >= horizon) {
            self.leave_in_file(place);
        } else {
            self.insert(place, message, bytes, 0);
        }
    }

    fn leave_in_file(&mut self, place: Place) {
        self.horizon = Some(self.horizon.map_or(place, |horizon| horizon.min(place)));
    }

    fn insert(&mut self, place: Place, mut message: Decoded, mut bytes: usize, received: u32) {
        let name = message.as_ref().map_or(UNREADABLE.to_owned(), group_name);
        let group = match self.groups.get_key_value(name.as_str()) {
            Some((name, _)) => Arc::clone(name),
            None => Arc::from(name),
        };
        // Many large bodies must not take the room of other URLs' messages: bodies beyond the limit stay in the file.
        let without_body = has_body(&message) && self.bytes + bytes > self.limits.bytes;
        if without_body {
            strip_body(&mut message);
            bytes = 0;
        }
        let state = State::Delayed { deliver_at: place.deliver_at };
        self.bytes += bytes;
        self.delayed.insert(place);
        self.entries.insert(
            place.id,
            Entry { message, group, bytes, without_body, received, stored: received, state },
        );
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
        let group = Arc::clone(&entry.group);
        self.groups.entry(Arc::clone(&group)).or_default().ready.push_back(id);
        self.enrol(&group);
    }

    /// Gives a group a turn if it can be served, and removes it if it is empty.
    fn enrol(&mut self, name: &Arc<str>) {
        let Some(group) = self.groups.get_mut(name) else { return };
        if group.in_turn {
            return;
        }
        if !group.ready.is_empty() && group.in_flight < self.limits.per_group {
            group.in_turn = true;
            match self.tenants.get_mut(tenant_of(name)) {
                Some(groups) => groups.push_back(Arc::clone(name)),
                None => {
                    let tenant: Arc<str> = tenant_of(name).into();
                    self.turns.push_back(Arc::clone(&tenant));
                    self.tenants.insert(tenant, VecDeque::from([Arc::clone(name)]));
                }
            }
        } else if group.ready.is_empty() && group.in_flight == 0 {
            self.groups.remove(name);
        }
    }

    /// Removes a message from the collection of its state.
    fn leave_state(&mut self, id: i64) {
        let Some(entry) = self.entries.get(&id) else { return };
        let name = Arc::clone(&entry.group);
        match entry.state {
            State::Delayed { deliver_at } => {
                self.delayed.remove(&Place { deliver_at, id });
            }
            State::Postponed { until } => {
                self.invisible.remove(&(until, id));
            }
            State::InFlight { until } => {
                self.invisible.remove(&(until, id));
                if let Some(group) = self.groups.get_mut(&name) {
                    group.in_flight = group.in_flight.saturating_sub(1);
                }
                self.enrol(&name);
            }
            State::Ready => {
                if let Some(group) = self.groups.get_mut(&name) {
                    group.ready.retain(|ready| *ready != id);
                }
            }
        }
    }

    /// The next group of the tenant whose turn it is.
    fn next_group(&mut self) -> Option<Arc<str>> {
        let tenant = self.turns.pop_front()?;
        let groups = self.tenants.get_mut(&tenant)?;
        let group = groups.pop_front();
        if groups.is_empty() {
            self.tenants.remove(&tenant);
        } else {
            self.turns.push_back(tenant);
        }
        group
    }

    /// The next messages of the group whose turn it is.
    pub(super) fn receive(&mut self, now: Now, max: usize, until: Timestamp) -> Taken {
        self.wake(now);
        let mut taken = Taken::default();
        while max > 0
            && taken.received.is_empty()
            && let Some(name) = self.next_group()
        {
            let Some(group) = self.groups.get_mut(&name) else { continue };
            group.in_turn = false;
            let room = self.limits.per_group.saturating_sub(group.in_flight);
            let count = max.min(room).min(group.ready.len());
            group.in_flight += count;
            let ids: Vec<i64> = group.ready.drain(..count).collect();
            for id in ids {
                self.hand_out(id, until, &mut taken);
            }
            self.enrol(&name);
        }
        taken
    }

    fn hand_out(&mut self, id: i64, until: Timestamp, taken: &mut Taken) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        entry.state = State::InFlight { until };
        entry.received = entry.received.saturating_add(1);
        // The next opening adds one to the stored count: that covers one receipt, not two.
        if entry.received - entry.stored > 1 {
            entry.stored = entry.received - 1;
            taken.counts.push((id, entry.stored));
        }
        if entry.without_body {
            taken.without_body.push((taken.received.len(), id));
        }
        taken.received.push(Received {
            message: entry.message.clone(),
            receipt: Receipt(format!("{id}.{}", entry.received)),
            receive_count: entry.received,
        });
        self.invisible.insert((until, id));
    }

    /// The message that a receipt names, unless it was received again since.
    pub(super) fn find(&self, receipt: &Receipt) -> Option<i64> {
        let (id, received) = receipt.0.split_once('.')?;
        let (id, received) = (id.parse().ok()?, received.parse::<u32>().ok()?);
        (self.entries.get(&id)?.received == received).then_some(id)
    }

    /// Returns the id of the row to delete.
    pub(super) fn delete(&mut self, receipt: &Receipt) -> Option<i64> {
        let id = self.find(receipt)?;
        self.remove(id);
        self.deleting.insert(id);
        Some(id)
    }

    pub(super) fn remove(&mut self, id: i64) {
        self.leave_state(id);
        if let Some(entry) = self.entries.remove(&id) {
            self.bytes -= entry.bytes;
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
        }
    }

    /// How long nothing can be received if nothing else happens.
    pub(super) fn wait(&mut self, now: Now) -> Wait {
        self.wake(now);
        let schedule = self.delayed.first().map(|place| place.deliver_at.since(now.schedule));
        let real = self.invisible.first().map(|(until, _)| until.since(now.real));
        match (schedule, real) {
            _ if !self.turns.is_empty() => Wait::Over,
            (None, None) => Wait::News,
            _ => Wait::Until {
                schedule: schedule.unwrap_or(Duration::MAX),
                real: real.unwrap_or(Duration::MAX),
            },
        }
    }
}

/// No tenant's name holds a `#`.
fn group_name(message: &Message) -> String {
    format!("{}#{}", message.tenant(), message.group())
}

fn tenant_of(group: &str) -> &str {
    group.split_once('#').map_or("", |(tenant, _)| tenant)
}

fn has_body(message: &Decoded) -> bool {
    matches!(message, Err(_) | Ok(Message::FirstAttempt(FirstAttempt { body: Some(_), .. })))
}

fn strip_body(message: &mut Decoded) {
    match message {
        Ok(Message::FirstAttempt(first)) => first.body = None,
        Ok(_) => {}
        Err(unreadable) => unreadable.payload = Bytes::new(),
    }
}
