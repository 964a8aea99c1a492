//! How much memory a subscription takes in the index.

use serde_json::Value;

use super::Selector;
use super::leaf::MAX_ALTERNATIVES;
use crate::rules::filter::Connector;

/// The subscription itself: its ids, and its entry among the subscriptions.
const PER_SUBSCRIPTION: usize = 600;
/// A pattern of event types: its leaf, and what finds it again.
const PER_PATTERN: usize = 420;
/// A segment of a pattern or of a path, without its text.
const PER_SEGMENT: usize = 160;
/// A filter, without its path and its value.
const PER_FILTER: usize = 360;
/// A subscription in a leaf, under one field and value.
const PER_DEMAND: usize = 260;

/// The most bytes of memory that this subscription takes, whatever else is in the index. A test compares it with what the
/// allocator gives.
#[must_use]
pub fn index_bytes(selector: &Selector) -> u64 {
    let patterns: usize = selector.event_types.iter().map(|pattern| PER_PATTERN + name_bytes(pattern)).sum();
    let filters: usize = selector
        .filters
        .iter()
        .map(|filter| {
            let value = filter.value.as_ref().map_or(0, value_bytes);
            // `changed` looks at two fields. The filter itself and its parsed form both hold the value.
            PER_FILTER + 2 * (PER_SEGMENT * 2 + name_bytes(&filter.field)) + 2 * value
        })
        .sum();
    let places = match selector.filter_connector {
        Connector::And => 1,
        Connector::Or => MAX_ALTERNATIVES,
    };
    let demands = selector.event_types.len() * selector.filters.len().min(places) * PER_DEMAND;
    (PER_SUBSCRIPTION + patterns + filters + demands) as u64
}

/// A name in a tree of segments, and once more as a whole.
fn name_bytes(name: &str) -> usize {
    (name.split('.').count()) * PER_SEGMENT + 2 * name.len()
}

fn value_bytes(value: &Value) -> usize {
    const NODE: usize = 96;
    NODE + match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(value_bytes).sum(),
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| NODE + name.len() + value_bytes(value)).sum()
        }
    }
}
