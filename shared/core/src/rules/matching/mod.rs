//! Which subscriptions want an event, found without asking each of them.
//!
//! Event types are followed through a tree of segments. At its leaves, subscriptions whose filters demand that a field equals a
//! value are kept under that value, so that ten thousand that differ in one customer's number cost one look-up. What is found
//! this way is asked in full: the index may offer too many, never too few. The event is walked once for all filters.

mod condition;
mod explain;
mod found;
mod leaf;
mod paths;
#[cfg(any(test, fuzzing))]
pub(super) mod reference;
mod scalar;
mod search;
mod segment_tree;
mod size;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use condition::{Condition, paths_of};
pub use explain::{Explainer, Refusal, Selection};
use leaf::{Leaf, Place};
use paths::Paths;
pub use search::Search;
use segment_tree::Node;
pub use size::index_bytes;

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

impl Member {
    fn has_filters(&self) -> bool {
        !self.conditions.is_empty()
    }
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
    pub fn search<'i, 'e>(&'i self, event_type: &'e str, body: &'e [u8]) -> Search<'i, 'e> {
        Search::new(self, event_type, body)
    }

    /// Those that select this event, in the order of their ids, found in one go.
    #[must_use]
    pub fn matching(&self, event_type: &str, body: &[u8]) -> Vec<Arc<Member>> {
        let mut search = self.search(event_type, body);
        let mut work = usize::MAX;
        while !search.step(&mut work) {
            work = usize::MAX;
        }
        search.matched()
    }
}
