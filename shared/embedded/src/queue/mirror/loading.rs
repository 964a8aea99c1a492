//! Which messages are in memory: how they come in, from a commit or from the file, and which stay in the file.

use std::sync::Arc;

use bytes::Bytes;
use holdfast_core::records::{FirstAttempt, Message};

use super::Mirror;
use crate::queue::entry::{Decoded, Entry, Load, Place, Sizes, State};
use crate::queue::group::{Group, GroupId, Limits};

impl Mirror {
    /// Adds a group whose messages are all in the file, with the size of their bodies.
    pub(in crate::queue) fn add_group(&mut self, id: GroupId, messages: u64, body_bytes: u64) {
        self.messages += messages;
        self.groups.insert(id, Group::in_file(body_bytes));
        self.tenants.entry(Arc::default()).or_default().body_bytes += body_bytes;
        self.load_if_wanted(id);
    }

    /// Whether messages are to be loaded from the file.
    pub(in crate::queue) fn wants_more(&self) -> bool {
        !self.loading.is_empty()
    }

    /// The group whose turn it is to load messages.
    pub(in crate::queue) fn next_load(&mut self) -> Option<Load> {
        loop {
            let (_, id) = self.loading.next(|_| true)?;
            let capacity = self.capacity(id);
            let Some(group) = self.groups.get_mut(&id) else { continue };
            let Some(from) = group.horizon else { continue };
            // As long as it is not known whose messages they are, only a few: the first ones of other groups come before the rest.
            let capacity =
                if group.tenant.is_empty() { capacity.min(Limits::GROUP_RESERVE) } else { capacity };
            let limit = capacity.saturating_sub(group.at_hand()).max(1);
            return Some(Load { group: id, from, limit });
        }
    }

    pub(in crate::queue) fn load(
        &mut self,
        id: GroupId,
        place: Place,
        read: impl FnOnce() -> (Decoded, Sizes, u32),
    ) {
        if !self.entries.contains_key(&place.id) && !self.deleting.contains(&place.id) {
            let (message, sizes, received) = read();
            self.insert(id, place, message, sizes, received);
        }
    }

    /// Ends the turn of a group, which counts as so many rows. `from`: where its next message in the file is at the earliest, if it may
    /// have more. No message can have been pushed since the turn began, because the same thread does both.
    pub(in crate::queue) fn loaded(&mut self, id: GroupId, rows: usize, from: Option<Place>) {
        if let Some(group) = self.groups.get_mut(&id) {
            self.loading.charge(&group.tenant, rows as u64);
            group.is_loading = false;
            group.horizon = from;
        }
        self.load_if_wanted(id);
        self.forget_if_empty(id);
    }

    pub(super) fn load_if_wanted(&mut self, id: GroupId) {
        let capacity = self.capacity(id);
        if let Some(group) = self.groups.get_mut(&id)
            && group.wants_more(capacity, self.limits.group_messages)
        {
            group.is_loading = true;
            self.loading.push(&group.tenant, id, 1);
        }
    }

    /// How many messages the group may have in memory now.
    fn capacity(&self, id: GroupId) -> usize {
        let tenant = self.groups.get(&id).and_then(|group| self.tenants.get(&group.tenant));
        self.limits.group_capacity(self.entries.len(), tenant.map_or(0, |counts| counts.in_memory))
    }

    /// Adds a message that was just committed, or leaves it in the file.
    pub(in crate::queue) fn push(&mut self, id: GroupId, place: Place, message: Decoded, sizes: Sizes) {
        let group = self.groups.entry(id).or_insert_with(|| Group::of(message.as_ref().ok()));
        self.messages += 1;
        group.body_bytes += sizes.body;
        self.tenants.entry(Arc::clone(&group.tenant)).or_default().body_bytes += sizes.body;
        if group.horizon.is_some_and(|horizon| place >= horizon) {
            return;
        }
        let (at_hand, last) = (group.at_hand(), group.delayed.last().copied());
        if at_hand < self.capacity(id) {
            return self.insert(id, place, message, sizes, 0);
        }
        // Messages that are due sooner replace those that are due later; otherwise many delayed messages would keep out new ones.
        match last {
            Some(last) if last > place => {
                self.drop_entry(last.id);
                self.leave_in_file(id, last);
                self.insert(id, place, message, sizes, 0);
            }
            _ => self.leave_in_file(id, place),
        }
    }

    fn leave_in_file(&mut self, id: GroupId, place: Place) {
        if let Some(group) = self.groups.get_mut(&id) {
            group.horizon = Some(group.horizon.map_or(place, |horizon| horizon.min(place)));
        }
    }

    fn insert(&mut self, id: GroupId, place: Place, mut message: Decoded, sizes: Sizes, received: u32) {
        let Some(group) = self.groups.get_mut(&id) else { return };
        if group.tenant.is_empty()
            && let Ok(message) = &message
        {
            self.tenants.entry(Arc::clone(&group.tenant)).or_default().subtract(group);
            group.name_after(message);
            self.tenants.entry(Arc::clone(&group.tenant)).or_default().add(group);
        }
        group.in_memory += 1;
        self.tenants.entry(Arc::clone(&group.tenant)).or_default().in_memory += 1;
        group.delayed.insert(place);
        // Many large bodies must not take the room of other URLs' messages: bodies beyond the limit stay in the file.
        let without_body = has_body(&message) && self.bytes + sizes.payload > self.limits.bytes;
        if without_body {
            strip_body(&mut message);
        }
        let state = State::Delayed { deliver_at: place.deliver_at };
        let stored = received;
        let entry = Entry { message, group: id, sizes, without_body, received, stored, state };
        self.bytes += entry.bytes_here();
        self.delayed.insert(place);
        self.entries.insert(place.id, entry);
    }
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
