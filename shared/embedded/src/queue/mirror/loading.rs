//! Which messages are in memory: how they come in, from a commit or from the file, and which stay in the file.

use std::sync::Arc;

use bytes::Bytes;
use holdfast_core::records::{FirstAttempt, Message};

use super::Mirror;
use crate::queue::entry::{Decoded, Entry, Load, Place, Sizes, State};
use crate::queue::group::{Group, GroupId};

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
            // As long as it is not known whose messages they are, only one, which tells: the first ones of other groups come before the
            // rest, and what a tenant may have in memory is not exceeded by groups that are not known to be its own.
            let capacity = if group.tenant.is_empty() { 1 } else { capacity };
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
        self.limits.group_capacity(self.units, tenant.map_or(0, |counts| counts.in_memory))
    }

    /// Adds a message that was just committed, or leaves it in the file.
    pub(in crate::queue) fn push(&mut self, id: GroupId, place: Place, message: Decoded, sizes: Sizes) {
        self.groups.entry(id).or_insert_with(|| Group::of(message.as_ref().ok()));
        let was_unknown = self.name_if_unknown(id, &message);
        let Some(group) = self.groups.get_mut(&id) else { return };
        if was_unknown && group.is_loading {
            // It need not wait behind all groups whose tenants are not known yet.
            self.loading.push(&group.tenant, id, 1);
        }
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

    /// Learns from a message whose group it is. Returns whether that was not known.
    fn name_if_unknown(&mut self, id: GroupId, message: &Decoded) -> bool {
        let (Some(group), Ok(message)) = (self.groups.get_mut(&id), message) else { return false };
        if !group.tenant.is_empty() {
            return false;
        }
        self.tenants.entry(Arc::clone(&group.tenant)).or_default().subtract(group);
        group.name_after(message);
        self.tenants.entry(Arc::clone(&group.tenant)).or_default().add(group);
        true
    }

    fn insert(&mut self, id: GroupId, place: Place, mut message: Decoded, sizes: Sizes, received: u32) {
        self.name_if_unknown(id, &message);
        let Some(group) = self.groups.get_mut(&id) else { return };
        group.in_memory += 1;
        self.tenants.entry(Arc::clone(&group.tenant)).or_default().in_memory += 1;
        group.delayed.insert(place);
        // Many large bodies must not take the room of other URLs' messages: bodies beyond the limit stay in the file.
        let without_body = has_body(&message) && self.bytes + sizes.in_memory() > self.limits.bytes;
        if without_body {
            strip_body(&mut message);
        }
        let state = State::Delayed { deliver_at: place.deliver_at };
        let stored = received;
        let entry = Entry { message, group: id, sizes, without_body, received, stored, state };
        self.bytes += entry.bytes_here();
        self.units += sizes.units();
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

#[cfg(test)]
mod tests {
    use holdfast_core::ids::UrlId;
    use holdfast_core::time::Timestamp;

    use super::*;
    use crate::options::Options;
    use crate::queue::group::Limits;

    const SIZES: Sizes = Sizes { payload: 100, body: 0, body_is_stored: false };

    fn message(tenant: &str, url: &str) -> Message {
        Message::Probe { tenant: tenant.into(), url_id: UrlId::of(url) }
    }

    fn place(id: i64) -> Place {
        Place { deliver_at: Timestamp::from_millis(1), id }
    }

    /// As it is after a restart: so many groups with 20 messages each in the file, and room for few messages.
    fn opened(groups: i64) -> Mirror {
        let options = Options { memory_messages: 200, group_messages: 50, ..Options::default() };
        let mut mirror = Mirror::new(Limits::new(&options, 64));
        (1..=groups).for_each(|id| mirror.add_group(GroupId(id), 20, 0));
        mirror
    }

    /// Loads as many messages of one tenant as are wanted, for each group 20 at most.
    fn load_all(mirror: &mut Mirror) {
        while let Some(load) = mirror.next_load() {
            let GroupId(group) = load.group;
            let first = if load.from == Place::START { group * 1_000 } else { load.from.id };
            let end = (first + load.limit as i64).min(group * 1_000 + 20);
            for id in first..end {
                mirror.load(load.group, place(id), || (Ok(message("a", "u")), SIZES, 0));
            }
            let more = end < group * 1_000 + 20;
            mirror.loaded(load.group, (end - first) as usize, more.then(|| place(end)));
        }
    }

    #[test]
    fn after_a_restart_a_tenant_with_many_groups_has_no_more_in_memory_than_before() {
        let mut mirror = opened(500);
        assert_eq!(mirror.next_load().map(|load| load.limit), Some(1), "one message tells whose they are");
        let mut mirror = opened(500);
        load_all(&mut mirror);
        // Half of the messages are for one tenant, twice as many with the reserves of its groups, and then one of each group.
        assert!((500..=900).contains(&mirror.entries.len()), "{}", mirror.entries.len());
    }

    #[test]
    fn a_new_message_of_a_group_in_the_file_has_it_loaded_before_those_that_are_not_known() {
        let mut mirror = opened(500);
        mirror.push(GroupId(400), place(999_999), Ok(message("victim", "u")), SIZES);
        let groups: Vec<_> = (0..3)
            .filter_map(|_| {
                let load = mirror.next_load()?;
                mirror.loaded(load.group, 1, Some(place(7)));
                Some(load.group)
            })
            .collect();
        assert!(groups.contains(&GroupId(400)), "{groups:?}");
    }
}
