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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::ids::UrlId;
    use crate::rules::filter::{Filter, Op};

    fn bytes(event_types: &[&str], filters: &[(&str, Value)], filter_connector: Connector) -> u64 {
        let filter = |(field, value): &(&str, Value)| Filter {
            field: (*field).to_owned(),
            op: Op::Eq,
            value: Some(value.clone()).filter(|value| !value.is_null()),
        };
        index_bytes(&Selector {
            id: "sub_1".into(),
            url_id: UrlId::of("https://example.com/"),
            event_types: event_types.iter().map(|&name| name.to_owned()).collect(),
            filters: filters.iter().map(filter).collect(),
            filter_connector,
            active: true,
        })
    }

    #[test]
    fn each_part_of_a_subscription_has_its_price() {
        let (and, or) = (Connector::And, Connector::Or);
        let nothing = bytes(&[], &[], and);
        assert_eq!(nothing, 600);
        assert_eq!(bytes(&["abc"], &[], and) - nothing, 420 + 160 + 2 * 3);
        assert_eq!(bytes(&["a.bc", "d"], &[], or) - nothing, (420 + 2 * 160 + 2 * 4) + (420 + 160 + 2));
        // A filter that is not asked for a value, on a field of two segments.
        let filter = 360 + 2 * (2 * 160 + 2 * 160 + 2 * 4);
        assert_eq!(bytes(&[], &[("ab.c", json!(null))], and) - nothing, filter);
        for (value, price) in [
            (json!(true), 96),
            (json!(1.5), 96),
            (json!("abcde"), 96 + 5),
            (json!([1, "ab"]), 96 + 96 + 98),
            (json!({"abc": false, "d": [null]}), 96 + (96 + 3 + 96) + (96 + 1 + 2 * 96)),
        ] {
            let with_value = bytes(&[], &[("ab.c", value.clone())], and) - nothing;
            assert_eq!(with_value - filter, 2 * price, "{value}");
        }
    }

    #[test]
    fn a_subscription_pays_for_each_place_where_it_is_found() {
        let filters = vec![("ab.c", json!(null)); 6];
        // Types, filters, connector, and in how many places that is.
        for (types, filter_count, connector, places) in [
            (3, 0, Connector::And, 0),
            (1, 1, Connector::And, 1),
            (3, 6, Connector::And, 3),
            (1, 3, Connector::Or, 3),
            (2, 6, Connector::Or, 2 * 4),
        ] {
            let (types, filters) = (vec!["a"; types], &filters[..filter_count]);
            let parts = bytes(&types, &[], connector) + bytes(&[], filters, connector);
            assert_eq!(bytes(&types, filters, connector) + 600 - parts, 260 * places, "{connector:?}");
        }
    }
}
