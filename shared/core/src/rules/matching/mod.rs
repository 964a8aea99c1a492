//! Which subscriptions want an event, found without asking each of them.
//!
//! Event types are followed through a tree of segments. At its leaves, subscriptions whose filters demand that a field equals a
//! value are kept under that value, so that ten thousand that differ in one customer's number cost one look-up. What is found
//! this way is asked in full: the index may offer too many, never too few. The event is walked once for all filters.

mod condition;
mod found;
mod leaf;
mod paths;
#[cfg(test)]
mod reference;
mod scalar;
mod segment_tree;
mod size;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use condition::{Condition, paths_of};
use leaf::{Leaf, Place};
use paths::{Event, Paths};
use segment_tree::{Node, split};
pub use size::index_bytes;

use super::event_type;
use super::filter::{Connector, Filter};
use crate::ids::{SubscriptionId, UrlId};

/// Stands alone for all types, and in a pattern for any one segment.
const STAR: &str = "*";

/// Which events a subscription selects, and where they go.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Selector {
    pub id: SubscriptionId,
    pub url_id: UrlId,
    pub event_types: Vec<String>,
    pub filters: Vec<Filter>,
    pub filter_connector: Connector,
    /// An inactive subscription selects nothing.
    pub active: bool,
}

/// An active subscription, as the index keeps it.
#[derive(Debug)]
pub struct Member {
    pub id: SubscriptionId,
    pub url_id: UrlId,
    connector: Connector,
    conditions: Box<[Condition]>,
}

/// Where a subscription stands, so that it is found again when it leaves.
#[derive(Clone)]
struct Placed {
    places: Box<[(Box<str>, Place)]>,
    /// The fields that its filters look at.
    paths: Box<[Box<str>]>,
    bytes: u64,
}

/// A tenant's active subscriptions. Cloned only when it changes while an event is being matched with it.
#[derive(Clone, Default)]
pub struct SubscriptionIndex {
    /// Of `*` alone, which means names of any length.
    all: Leaf,
    types: Node<Box<Leaf>>,
    paths: Paths,
    placed: HashMap<SubscriptionId, Placed>,
    bytes: u64,
}

impl SubscriptionIndex {
    #[must_use]
    pub fn len(&self) -> usize {
        self.placed.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.placed.is_empty()
    }

    /// How much memory it takes at the most.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Takes the place of the one with the same id. One that is not active only leaves.
    pub fn insert(&mut self, selector: &Selector) {
        self.remove(&selector.id);
        if !selector.active {
            return;
        }
        let conditions = selector.filters.iter().map(|filter| Condition::new(filter, &mut self.paths));
        let member = Arc::new(Member {
            id: selector.id.clone(),
            url_id: selector.url_id.clone(),
            connector: selector.filter_connector,
            conditions: conditions.collect(),
        });
        let patterns: BTreeSet<&str> = selector.event_types.iter().map(String::as_str).collect();
        let places = patterns.into_iter().map(|pattern| {
            let place = self.edit(pattern, |leaf| leaf.insert(&member));
            (pattern.into(), place)
        });
        let places = places.collect();
        let paths = selector.filters.iter().flat_map(paths_of).map(String::into_boxed_str).collect();
        let bytes = index_bytes(selector);
        self.bytes += bytes;
        self.placed.insert(selector.id.clone(), Placed { places, paths, bytes });
    }

    pub fn remove(&mut self, id: &SubscriptionId) {
        let Some(placed) = self.placed.remove(id) else { return };
        self.bytes -= placed.bytes;
        for (pattern, place) in &placed.places {
            self.edit(pattern, |leaf| leaf.remove(id, place));
        }
        for path in &placed.paths {
            self.paths.remove(path);
        }
    }

    fn edit<R>(&mut self, pattern: &str, act: impl FnOnce(&mut Leaf) -> R) -> R {
        if pattern == STAR {
            return act(&mut self.all);
        }
        self.types.edit(pattern, |slot| {
            let leaf = slot.get_or_insert_default();
            let result = act(leaf);
            if leaf.is_empty() {
                *slot = None;
            }
            result
        })
    }

    /// Starts to look for those that select this event.
    #[must_use]
    pub fn search<'i, 'e>(&'i self, event_type: &str, body: &'e [u8]) -> Search<'i, 'e> {
        let mut leaves = Vec::new();
        if event_type::matches(STAR, event_type) {
            leaves.push(&self.all);
        }
        visit(&self.types, event_type, &mut leaves);
        // The body is only looked into if there are filters.
        let has_filters = leaves.iter().any(|leaf| leaf.has_filters());
        let event = if has_filters { self.paths.find(body) } else { Event::default() };
        let mut candidates = Vec::new();
        for leaf in leaves {
            leaf.collect(&event, &mut candidates);
        }
        // Each leaf is in order, so this merges a few runs.
        candidates.sort_by(|a, b| a.id.cmp(&b.id));
        candidates.dedup_by(|a, b| a.id == b.id);
        Search { candidates, next: 0, event, matched: Vec::new() }
    }

    /// Those that select this event, in the order of their ids, found in one go.
    #[must_use]
    pub fn matching(&self, event_type: &str, body: &[u8]) -> Vec<Arc<Member>> {
        let mut search = self.search(event_type, body);
        while !search.step(usize::MAX) {}
        search.matched
    }
}

/// Every leaf whose pattern matches this name.
fn visit<'a>(node: &'a Node<Box<Leaf>>, name: &str, leaves: &mut Vec<&'a Leaf>) {
    let (first, others) = split(name);
    for child in [node.child(first), node.child(STAR)].into_iter().flatten() {
        match others {
            Some(others) => visit(child, others, leaves),
            None => leaves.extend(child.value.as_deref()),
        }
    }
}

/// A search among the subscriptions that may want an event: all that select it, and as few others as possible. It is done in
/// steps, because ten thousand subscriptions may have fifty filters each.
pub struct Search<'i, 'e> {
    candidates: Vec<&'i Arc<Member>>,
    next: usize,
    event: Event<'e>,
    matched: Vec<Arc<Member>>,
}

impl Search<'_, '_> {
    /// Asks further candidates, with about so much work, counted in comparisons of short values. `true`: all were asked.
    pub fn step(&mut self, work: usize) -> bool {
        let mut done = 0;
        while let Some(candidate) = self.candidates.get(self.next) {
            if done >= work {
                return false;
            }
            done += 1;
            let mut ask = |condition: &Condition| {
                done = done.saturating_add(condition.cost(&self.event));
                condition.passes(&self.event)
            };
            let passes = match candidate.connector {
                Connector::And => candidate.conditions.iter().all(&mut ask),
                Connector::Or => candidate.conditions.is_empty() || candidate.conditions.iter().any(&mut ask),
            };
            if passes {
                self.matched.push(Arc::clone(candidate));
            }
            self.next += 1;
        }
        true
    }

    /// Those that select the event, in the order of their ids, once all candidates were asked.
    #[must_use]
    pub fn matched(self) -> Vec<Arc<Member>> {
        debug_assert_eq!(self.next, self.candidates.len(), "the search is over");
        self.matched
    }
}
