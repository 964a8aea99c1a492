//! Why a subscription gets an event, or does not.

use serde_json::Value;

use super::reference::{LazyJson, filter_passes};
use super::{Selector, SubscriptionIndex};
use crate::rules::event_type;
use crate::rules::filter::{Connector, Filter, Op};

/// A longer value is shown by its beginning.
const MAX_SHOWN_BYTES: usize = 1_024;

/// What becomes of an event at one subscription.
#[derive(Clone, Debug, PartialEq)]
pub enum Selection {
    Matches,
    /// The subscription is not active.
    Inactive,
    /// It asks for other types.
    OtherType,
    Refused(Refusal),
}

/// The filter that refused an event. If one of several would have been enough, the first of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    pub filter: Filter,
    /// What the event has there. `None`: it has nothing there.
    pub found: Option<Value>,
}

impl Refusal {
    /// How long it is as text.
    #[must_use]
    pub fn shown_bytes(&self) -> usize {
        let Filter { field, value, .. } = &self.filter;
        let values = [value.as_ref(), self.found.as_ref()].into_iter().flatten();
        field.len() + values.map(|value| value.to_string().len()).sum::<usize>()
    }
}

/// `body`: as it is sent to receivers. The index says whether the event matches, and the plain rule, which filter refused it.
#[must_use]
pub fn explain(one: &Selector, name: &str, body: &[u8]) -> Selection {
    if !one.active {
        return Selection::Inactive;
    }
    if !one.event_types.iter().any(|pattern| event_type::matches(pattern, name)) {
        return Selection::OtherType;
    }
    if one.filters.is_empty() || is_selected(one, name, body) {
        return Selection::Matches;
    }
    let event = LazyJson::new(body);
    let refuses = |filter: &&Filter| one.filter_connector == Connector::Or || !filter_passes(filter, &event);
    // Values that are too long to be compared are refused although the plain rule would take them.
    let Some(filter) = one.filters.iter().find(refuses).or(one.filters.first()) else {
        return Selection::Matches;
    };
    let found = match filter.op {
        Op::Changed => event.find(&format!("data.newState.{}", filter.field)),
        _ => event.find(&filter.field),
    };
    Selection::Refused(Refusal { filter: filter.clone(), found: found.map(shown) })
}

fn is_selected(one: &Selector, name: &str, body: &[u8]) -> bool {
    let mut index = SubscriptionIndex::default();
    index.insert(one);
    !index.matching(name, body).is_empty()
}

fn shown(value: &Value) -> Value {
    let text = value.to_string();
    if text.len() <= MAX_SHOWN_BYTES {
        return value.clone();
    }
    let end = (0..=MAX_SHOWN_BYTES).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    Value::String(format!("{}…", &text[..end]))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn selector(filters: Value, connector: Connector) -> Selector {
        Selector {
            id: "sub_1".into(),
            url_id: "url_1".into(),
            event_types: vec!["order.*".to_owned()],
            filters: serde_json::from_value(filters).unwrap(),
            filter_connector: connector,
            active: true,
        }
    }

    #[track_caller]
    fn refused(filters: Value, connector: Connector, data: Value) -> Option<(Value, Option<Value>)> {
        let body = json!({"id": "e", "type": "order.paid", "data": data}).to_string();
        match explain(&selector(filters, connector), "order.paid", body.as_bytes()) {
            Selection::Matches => None,
            Selection::Refused(Refusal { filter, found }) => Some((json!(filter), found)),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_filter_that_refuses_is_named_with_what_it_found() {
        let filters =
            json!([{"field": "data.a", "op": "eq", "value": 1}, {"field": "data.b", "op": "gt", "value": 5}]);
        let (first, second) = (filters[0].clone(), filters[1].clone());
        let and = |data| refused(filters.clone(), Connector::And, data);
        assert_eq!(and(json!({"a": 1, "b": 6})), None);
        assert_eq!(and(json!({"a": 1, "b": 5})), Some((second, Some(json!(5)))));
        assert_eq!(and(json!({"b": 5})), Some((first.clone(), None)));
        let or = |data| refused(filters.clone(), Connector::Or, data);
        assert_eq!(or(json!({"b": 6})), None);
        assert_eq!(or(json!({"a": "x", "b": 5})), Some((first, Some(json!("x")))));
        let changed = json!([{"field": "status", "op": "changed"}]);
        let data = json!({"oldState": {"status": 3}, "newState": {"status": 3}});
        assert_eq!(
            refused(changed.clone(), Connector::And, data),
            Some((changed[0].clone(), Some(json!(3))))
        );
    }

    #[test]
    fn what_asks_for_another_type_or_is_inactive_says_so() {
        let one = selector(json!([]), Connector::And);
        assert_eq!(explain(&one, "order.paid", b"{}"), Selection::Matches);
        assert_eq!(explain(&one, "invoice.paid", b"{}"), Selection::OtherType);
        assert_eq!(explain(&Selector { active: false, ..one }, "order.paid", b"{}"), Selection::Inactive);
    }

    #[test]
    fn a_long_value_is_cut_and_one_that_is_not_compared_is_named() {
        let filters = json!([{"field": "data.a", "op": "contains", "value": "x"}]);
        let (_, found) = refused(filters.clone(), Connector::And, json!({"a": "y".repeat(5_000)})).unwrap();
        assert_eq!(found.unwrap().as_str().unwrap().chars().count(), MAX_SHOWN_BYTES + 1);
        assert!(refused(filters, Connector::And, json!({"a": "x".repeat(70_000)})).is_some());
    }
}
