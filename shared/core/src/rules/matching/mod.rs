//! Which subscriptions want an event, found without asking each of them.
//!
//! Event types are followed through a tree of segments. At its leaves, subscriptions whose filters demand that a field equals a
//! value are kept under that value, so that ten thousand that differ in one customer's number cost one look-up. What is found
//! this way is asked in full: the index may offer too many, never too few.

mod leaf;
mod scalar;
#[cfg(test)]
mod tests;
mod types;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use leaf::Place;
use types::TypeTree;

use super::filter::{self, Connector, Filter};
use super::json_path::LazyJson;
use crate::ids::{SubscriptionId, UrlId};

/// Which events a subscription selects, and where they go.
#[derive(Clone, Debug, PartialEq)]
pub struct Selector {
    pub id: SubscriptionId,
    pub url_id: UrlId,
    pub event_types: Vec<String>,
    pub filters: Vec<Filter>,
    pub filter_connector: Connector,
    /// An inactive subscription selects nothing.
    pub active: bool,
}

/// A tenant's active subscriptions. Cloned only when it changes while an event is being matched with it.
#[derive(Clone, Default)]
pub struct SubscriptionIndex {
    types: TypeTree,
    /// Where each stands, so that it is found again when it leaves.
    places: HashMap<SubscriptionId, Vec<(String, Place)>>,
}

impl SubscriptionIndex {
    #[must_use]
    pub fn len(&self) -> usize {
        self.places.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Takes the place of the one with the same id. One that is not active only leaves.
    pub fn insert(&mut self, subscription: &Arc<Selector>) {
        self.remove(&subscription.id);
        if !subscription.active {
            return;
        }
        let patterns: BTreeSet<&String> = subscription.event_types.iter().collect();
        let places = patterns.into_iter().map(|pattern| {
            let place = self.types.edit(pattern, |leaf| leaf.insert(subscription));
            (pattern.clone(), place)
        });
        let places = places.collect();
        self.places.insert(subscription.id.clone(), places);
    }

    pub fn remove(&mut self, id: &SubscriptionId) {
        for (pattern, place) in self.places.remove(id).unwrap_or_default() {
            self.types.edit(&pattern, |leaf| leaf.remove(id, &place));
        }
    }

    /// Those that select this event, in the order of their ids. The body is only parsed if there are filters.
    #[must_use]
    pub fn matching(&self, event_type: &str, body: &[u8]) -> Vec<Arc<Selector>> {
        let json = LazyJson::new(body);
        let mut wanted = self.candidates(event_type, &json);
        wanted.retain(|s| filter::passes(&s.filters, s.filter_connector, &json));
        wanted.into_iter().map(Arc::clone).collect()
    }

    /// All that select the event, and as few others as possible without evaluating filters.
    fn candidates(&self, event_type: &str, json: &LazyJson<'_>) -> Vec<&Arc<Selector>> {
        let mut found = Vec::new();
        self.types.visit(event_type, &mut |leaf| leaf.collect(json, &mut found));
        // Each leaf is in order, so this merges a few runs.
        found.sort_by(|a, b| a.id.cmp(&b.id));
        found.dedup_by(|a, b| a.id == b.id);
        found
    }
}
