//! Why a subscription gets an event, or does not.

use serde_json::Value;

use super::Selector;
use super::condition::Condition;
use super::paths::{Event, Paths, Walk};
use super::search::take;
use crate::rules::event_type;
use crate::rules::filter::{Connector, Filter};

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

/// The filters of one subscription, in the form in which the index asks them.
pub struct Explainer<'s> {
    one: &'s Selector,
    paths: Paths,
    conditions: Vec<Condition>,
}

impl<'s> Explainer<'s> {
    #[must_use]
    pub fn new(one: &'s Selector) -> Explainer<'s> {
        let mut paths = Paths::default();
        let conditions = one.filters.iter().map(|filter| Condition::new(filter, &mut paths)).collect();
        Explainer { one, paths, conditions }
    }

    /// Starts to look for what becomes of this event. `body`: as it is sent to receivers.
    #[must_use]
    pub fn ask<'a>(&'a self, name: &str, body: &'a [u8]) -> Explaining<'a> {
        let selection = if !self.one.active {
            Some(Selection::Inactive)
        } else if !self.one.event_types.iter().any(|pattern| event_type::matches(pattern, name)) {
            Some(Selection::OtherType)
        } else if self.one.filters.is_empty() {
            Some(Selection::Matches)
        } else {
            None
        };
        Explaining { explainer: self, walk: Some(self.paths.walk(body)), event: None, next: 0, selection }
    }
}

/// The search for the filter that refuses an event. It is done in steps, like that for the subscriptions that want it.
pub struct Explaining<'a> {
    explainer: &'a Explainer<'a>,
    /// While the event is looked into.
    walk: Option<Walk<'a, 'a>>,
    /// `None`: the event was not looked into yet.
    event: Option<Event<'a>>,
    /// Filters before this one have been asked.
    next: usize,
    /// `None`: it is not known yet.
    selection: Option<Selection>,
}

impl Explaining<'_> {
    /// Goes on until the work is used up, which is counted in comparisons of short values. `true`: the search is over.
    pub fn step(&mut self, work: &mut usize) -> bool {
        if self.selection.is_none() {
            self.selection = self.find(work);
        }
        self.selection.is_some()
    }

    /// `None`: the search is not over.
    #[must_use]
    pub fn selection(self) -> Option<Selection> {
        self.selection
    }

    fn find(&mut self, work: &mut usize) -> Option<Selection> {
        if let Some(mut walk) = self.walk.take() {
            if !walk.step(work) {
                self.walk = Some(walk);
                return None;
            }
            self.event = Some(walk.found());
        }
        let Explainer { one, conditions, .. } = self.explainer;
        let event = self.event.get_or_insert_default();
        // One filter that passes is enough for `or`, and one that does not for the opposite of `and`.
        let settles = one.filter_connector == Connector::Or;
        while let Some(condition) = conditions.get(self.next) {
            if *work == 0 {
                return None;
            }
            take(work, condition.cost(event));
            if condition.passes(event) == settles {
                break;
            }
            self.next += 1;
        }
        let is_settled = self.next < conditions.len();
        let refusing = if settles { 0 } else { self.next };
        Some(if is_settled == settles {
            Selection::Matches
        } else {
            refused(self.explainer, refusing, event)
        })
    }
}

fn refused(explainer: &Explainer<'_>, at: usize, event: &Event<'_>) -> Selection {
    let (filter, condition) = (&explainer.one.filters[at], &explainer.conditions[at]);
    let found = event.get(condition.slot()).map(|found| found.shown(MAX_SHOWN_BYTES));
    Selection::Refused(Refusal { filter: filter.clone(), found })
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

    fn explain(one: &Selector, name: &str, body: &[u8]) -> Selection {
        let explainer = Explainer::new(one);
        let mut explaining = explainer.ask(name, body);
        // As little at a time as there can be.
        while !explaining.step(&mut 1) {}
        explaining.selection().unwrap()
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

    /// Fifty filters that looked at every item of a list of 300,000 took two seconds.
    #[test]
    fn a_long_list_is_not_compared_and_a_step_ends_when_its_work_is_used_up() {
        let wanted: Vec<Value> = (0..50)
            .map(|n| json!({"field": "data.v", "op": "contains", "value": format!("2026-01-01T00:00:00.{n}Z")}))
            .collect();
        let one = selector(json!(wanted), Connector::Or);
        let short = json!({"data": {"v": vec![""; 20_000]}}).to_string();
        let explainer = Explainer::new(&one);
        let mut explaining = explainer.ask("order.paid", short.as_bytes());
        let steps = (1..).find(|_| explaining.step(&mut 5_000)).unwrap();
        assert!((10..100).contains(&steps), "each of the filters looks at 60 kB: {steps}");
        let long = json!({"data": {"v": vec![""; 300_000]}}).to_string();
        let Selection::Refused(Refusal { found, .. }) = explain(&one, "order.paid", long.as_bytes()) else {
            panic!("it is too long to be compared");
        };
        assert!(found.unwrap().as_str().unwrap().ends_with('…'));
    }
}
