//! The subscriptions to one pattern of event types, indexed by the values that their filters demand.

use std::collections::HashMap;
use std::sync::Arc;

use super::Selector;
use super::scalar::Scalar;
use crate::ids::SubscriptionId;
use crate::rules::filter::{Connector, Filter, Op};
use crate::rules::json_path::LazyJson;

#[derive(Clone, Default)]
pub(super) struct Leaf {
    /// Whose filters demand no equality: every event of the type is a candidate.
    asked: Members,
    /// By field, and by a value that it has if the event is wanted.
    by_value: HashMap<String, HashMap<Scalar, Members>>,
}

/// In the order of their ids.
#[derive(Clone, Default)]
struct Members(Vec<Arc<Selector>>);

/// Where a subscription is in a leaf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Asked,
    /// Under each of these fields and values.
    Under(Vec<(String, Scalar)>),
}

impl Leaf {
    pub(super) fn is_empty(&self) -> bool {
        self.asked.0.is_empty() && self.by_value.is_empty()
    }

    pub(super) fn insert(&mut self, subscription: &Arc<Selector>) -> Place {
        let place = self.place_for(&subscription.filters, subscription.filter_connector);
        match &place {
            Place::Asked => self.asked.insert(subscription),
            Place::Under(demands) => {
                for (field, value) in demands {
                    let values = self.by_value.entry(field.clone()).or_default();
                    values.entry(value.clone()).or_default().insert(subscription);
                }
            }
        }
        place
    }

    /// Joined by `and`, one equality is enough to be found by: the one that has the fewest others beside it. Joined by `or`,
    /// every filter must be one.
    fn place_for(&self, filters: &[Filter], connector: Connector) -> Place {
        let mut demands: Vec<_> = filters.iter().filter_map(demand_of).collect();
        match connector {
            Connector::And => match demands.into_iter().min_by_key(|demand| self.beside(demand)) {
                Some(rarest) => Place::Under(vec![rarest]),
                None => Place::Asked,
            },
            Connector::Or if demands.is_empty() || demands.len() < filters.len() => Place::Asked,
            Connector::Or => {
                demands.dedup();
                Place::Under(demands)
            }
        }
    }

    fn beside(&self, (field, value): &(String, Scalar)) -> usize {
        let members = self.by_value.get(field).and_then(|values| values.get(value));
        members.map_or(0, |members| members.0.len())
    }

    pub(super) fn remove(&mut self, id: &SubscriptionId, place: &Place) {
        let Place::Under(demands) = place else {
            self.asked.remove(id);
            return;
        };
        for (field, value) in demands {
            let Some(values) = self.by_value.get_mut(field) else { continue };
            if let Some(members) = values.get_mut(value) {
                members.remove(id);
                if members.0.is_empty() {
                    values.remove(value);
                }
            }
            if values.is_empty() {
                self.by_value.remove(field);
            }
        }
    }

    pub(super) fn collect<'a>(&'a self, json: &LazyJson<'_>, found: &mut Vec<&'a Arc<Selector>>) {
        found.extend(&self.asked.0);
        for (field, values) in &self.by_value {
            let value = json.find(field).and_then(Scalar::of);
            if let Some(members) = value.and_then(|value| values.get(&value)) {
                found.extend(&members.0);
            }
        }
    }
}

/// What must stand where, if this filter says so.
fn demand_of(filter: &Filter) -> Option<(String, Scalar)> {
    if filter.op != Op::Eq {
        return None;
    }
    Some((filter.field.clone(), Scalar::of(filter.value.as_ref()?)?))
}

impl Members {
    fn insert(&mut self, subscription: &Arc<Selector>) {
        match self.0.binary_search_by(|s| s.id.cmp(&subscription.id)) {
            Ok(at) => self.0[at] = Arc::clone(subscription),
            Err(at) => self.0.insert(at, Arc::clone(subscription)),
        }
    }

    fn remove(&mut self, id: &SubscriptionId) {
        if let Ok(at) = self.0.binary_search_by(|s| s.id.cmp(id)) {
            self.0.remove(at);
        }
    }
}
