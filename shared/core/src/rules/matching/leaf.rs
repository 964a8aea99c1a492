//! The subscriptions to one pattern of event types, indexed by the values that their filters demand.

use std::collections::HashMap;
use std::sync::Arc;

use super::Member;
use super::condition::Condition;
use super::paths::{Event, Slot};
use crate::ids::SubscriptionId;
use crate::rules::filter::Connector;

/// A subscription with more equalities joined by `or` is asked about every event: it would take too much memory to be found by each
/// of them, for every one of its patterns.
pub(super) const MAX_ALTERNATIVES: usize = 4;

#[derive(Clone, Default)]
pub(super) struct Leaf {
    /// Whose filters demand no equality: every event of the type is a candidate.
    asked: Members,
    /// How many of these have filters.
    asked_with_filters: u32,
    /// The fields in `by_value`, with how many subscriptions are found by each.
    fields: HashMap<Slot, u32>,
    /// By field and hash of the value that it has if the event is wanted.
    by_value: HashMap<(Slot, u64), Members>,
}

/// In the order of their ids.
#[derive(Clone, Default)]
struct Members(Vec<Arc<Member>>);

/// Where a subscription is in a leaf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Asked,
    /// Under each of these fields and values.
    Under(Box<[(Slot, u64)]>),
}

impl Leaf {
    pub(super) fn is_empty(&self) -> bool {
        self.asked.0.is_empty() && self.by_value.is_empty()
    }

    /// Whether the event itself has to be looked into.
    pub(super) fn has_filters(&self) -> bool {
        self.has_values() || self.asked_with_filters > 0
    }

    /// Whether subscriptions are found by the values that the event has.
    pub(super) fn has_values(&self) -> bool {
        !self.fields.is_empty()
    }

    pub(super) fn insert(&mut self, member: &Arc<Member>) -> Place {
        let place = self.place_for(&member.conditions, member.connector);
        match &place {
            Place::Asked => {
                self.asked.insert(member);
                self.asked_with_filters += u32::from(member.has_filters());
            }
            Place::Under(demands) => {
                for (slot, hash) in demands {
                    self.by_value.entry((*slot, *hash)).or_default().insert(member);
                    *self.fields.entry(*slot).or_default() += 1;
                }
            }
        }
        place
    }

    /// Joined by `and`, one equality is enough to be found by: the one that has the fewest others beside it. Joined by `or`,
    /// every filter must be one.
    fn place_for(&self, conditions: &[Condition], connector: Connector) -> Place {
        let mut demands: Vec<_> = conditions.iter().filter_map(Condition::demand).collect();
        match connector {
            Connector::And => {
                let beside = |demand: &(Slot, u64)| self.by_value.get(demand).map_or(0, |m| m.0.len());
                match demands.into_iter().min_by_key(beside) {
                    Some(rarest) => Place::Under(Box::new([rarest])),
                    None => Place::Asked,
                }
            }
            Connector::Or
                if demands.is_empty()
                    || demands.len() < conditions.len()
                    || demands.len() > MAX_ALTERNATIVES =>
            {
                Place::Asked
            }
            Connector::Or => {
                demands.sort_unstable();
                demands.dedup();
                Place::Under(demands.into())
            }
        }
    }

    pub(super) fn remove(&mut self, id: &SubscriptionId, place: &Place) {
        let Place::Under(demands) = place else {
            let removed = self.asked.remove(id);
            self.asked_with_filters -= u32::from(removed.is_some_and(|member| member.has_filters()));
            return;
        };
        for demand in demands {
            if let Some(members) = self.by_value.get_mut(demand) {
                members.remove(id);
                if members.0.is_empty() {
                    self.by_value.remove(demand);
                }
            }
            if let Some(count) = self.fields.get_mut(&demand.0) {
                *count -= 1;
                if *count == 0 {
                    self.fields.remove(&demand.0);
                }
            }
        }
    }

    pub(super) fn collect<'a>(&'a self, event: &Event<'_>, found: &mut Vec<&'a Arc<Member>>) {
        found.extend(&self.asked.0);
        // The event's fields are few, and a leaf may have very many.
        for (slot, value) in event.fields().filter(|(slot, _)| self.fields.contains_key(slot)) {
            if let Some(members) = value.hash().and_then(|hash| self.by_value.get(&(slot, hash))) {
                found.extend(&members.0);
            }
        }
    }
}

impl Members {
    fn insert(&mut self, member: &Arc<Member>) {
        match self.0.binary_search_by(|known| known.id.cmp(&member.id)) {
            Ok(at) => self.0[at] = Arc::clone(member),
            Err(at) => {
                // Most have one member, and need no room for more.
                if self.0.is_empty() {
                    self.0.reserve_exact(1);
                }
                self.0.insert(at, Arc::clone(member));
            }
        }
    }

    fn remove(&mut self, id: &SubscriptionId) -> Option<Arc<Member>> {
        let at = self.0.binary_search_by(|known| known.id.cmp(id)).ok()?;
        Some(self.0.remove(at))
    }
}
