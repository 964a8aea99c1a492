use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::ids::UrlId;
use crate::rules::event_type;
use crate::rules::filter::{Connector, Filter, Op};

fn subscription(number: u16, event_types: &[&str], filters: Vec<Filter>) -> Selector {
    let mut random = [0; 16];
    random[..2].copy_from_slice(&number.to_be_bytes());
    Selector {
        id: SubscriptionId::new(random),
        url_id: UrlId::of("https://example.com/"),
        event_types: event_types.iter().map(|&t| t.to_owned()).collect(),
        filters,
        filter_connector: Connector::And,
        active: true,
    }
}

fn filter(field: &str, op: Op, value: Value) -> Filter {
    Filter { field: field.to_owned(), op, value: Some(value) }
}

fn index_of(subscriptions: impl IntoIterator<Item = Selector>) -> SubscriptionIndex {
    let mut index = SubscriptionIndex::default();
    for subscription in subscriptions {
        index.insert(&Arc::new(subscription));
    }
    index
}

#[test]
fn of_ten_thousand_that_differ_in_one_value_only_one_is_asked() {
    let to_customer = |n: u16| {
        let customer = filter("data.customer", Op::Eq, json!(format!("c-{n}")));
        // Both come first, and are the same for every subscription.
        let same = filter("data.kind", Op::Eq, json!("order"));
        subscription(n, &["order.created"], vec![filter("data.total", Op::Gt, json!(1)), same, customer])
    };
    let index = index_of((0..10_000).map(to_customer));
    let event = json!({"type": "order.created", "data": {"kind": "order", "customer": "c-7", "total": 2}});
    let body = event.to_string();
    let asked = index.candidates("order.created", &LazyJson::new(body.as_bytes())).len();
    assert!(asked <= 3, "{asked} were asked");
    let found = index.matching("order.created", body.as_bytes());
    assert_eq!(found.iter().map(|s| &s.id).collect::<Vec<_>>(), [&to_customer(7).id]);
}

#[test]
fn of_ten_thousand_types_only_one_is_asked() {
    let types: Vec<String> = (0..10_000).map(|n| format!("shop{}.order{n}.created", n % 10)).collect();
    let index = index_of((0..10_000).map(|n| subscription(n, &[&types[usize::from(n)]], Vec::new())));
    assert_eq!(index.candidates(&types[77], &LazyJson::new(b"{}")).len(), 1);
    assert_eq!(index.candidates("shop1.order1", &LazyJson::new(b"{}")).len(), 0);
}

#[test]
fn a_star_alone_does_not_mean_our_own_events() {
    let index = index_of([
        subscription(1, &["*"], Vec::new()),
        subscription(2, &["*.url.*"], Vec::new()),
        subscription(3, &["holdfast.url.disabled", "holdfast.*.disabled"], Vec::new()),
    ]);
    assert_eq!(index.matching("holdfast.url.disabled", b"{}").len(), 2);
    assert_eq!(index.matching("holdfast", b"{}").len(), 1);
    assert_eq!(index.matching("a.url.c", b"{}").len(), 2);
}

#[test]
fn nothing_is_left_of_what_was_removed() {
    let eq = || vec![filter("data.a", Op::Eq, json!(1)), filter("data.b", Op::Eq, json!(2))];
    let mut either = subscription(2, &["a.b.c", "*"], eq());
    either.filter_connector = Connector::Or;
    let all = [subscription(1, &["a.*.c", "a.b", "a.b"], eq()), either, subscription(3, &["a"], Vec::new())];
    let mut index = index_of(all.clone());
    assert_eq!(index.len(), 3);
    for subscription in &all {
        index.remove(&subscription.id);
    }
    assert!(index.is_empty() && index.types.is_empty());
}

/// Asks every subscription about every event.
fn naive(all: &BTreeMap<SubscriptionId, Selector>, name: &str, body: &[u8]) -> Vec<SubscriptionId> {
    let wants = |s: &&Selector| {
        s.active
            && s.event_types.iter().any(|pattern| event_type::matches(pattern, name))
            && filter::passes(&s.filters, s.filter_connector, &LazyJson::new(body))
    };
    all.values().filter(wants).map(|s| s.id.clone()).collect()
}

#[derive(Clone, Debug)]
enum Step {
    Insert(Box<Selector>),
    Remove(u16),
    Ask { name: String, body: String },
}

/// Few names and few values, so that many match.
fn segment() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["a", "b", "holdfast", "url"])
}

fn pattern() -> impl Strategy<Value = String> {
    let part = prop_oneof![3 => segment(), 2 => Just("*")];
    prop::collection::vec(part, 1..4).prop_map(|parts| parts.join("."))
}

fn name() -> impl Strategy<Value = String> {
    prop::collection::vec(segment(), 1..4).prop_map(|parts| parts.join("."))
}

/// Values as they are written in JSON: the same number and the same time in several forms, and such as cannot be represented.
const VALUES: [&str; 22] = [
    "null",
    "true",
    "1",
    "1.0",
    "10e-1",
    "0",
    "-0.0",
    "9007199254740992",
    "9007199254740993",
    "9007199254740992.0",
    "18446744073709551615",
    "1234567890123456789012345678901234567890",
    "1e999",
    r#""1e999""#,
    r#""a""#,
    r#""\u0061""#,
    r#""\ud800""#,
    r#""2024-01-01T00:00:00Z""#,
    r#""2024-01-01T01:00:00.000+01:00""#,
    "[1]",
    r#"{"x": 1, "x": "a"}"#,
    "[[1.0], null]",
];

fn value() -> impl Strategy<Value = &'static str> {
    prop::sample::select(VALUES.to_vec())
}

fn any_filter() -> impl Strategy<Value = Filter> {
    let fields =
        ["data.x", "data.y", "data.x.0", "data.y.x", "x", "type", "data.oldState", "data.newState.x"];
    let ops = [Op::Eq, Op::Ne, Op::Gt, Op::Gte, Op::Lt, Op::Lte, Op::Contains, Op::Changed, Op::Exists];
    let op = prop_oneof![prop::sample::select(ops.to_vec()), Just(Op::Eq)];
    let value = value().prop_map(|text| serde_json::from_str::<Value>(text).ok());
    (prop::sample::select(fields.to_vec()), op, value).prop_map(|(field, op, value)| Filter {
        field: field.to_owned(),
        op,
        value,
    })
}

fn any_subscription() -> impl Strategy<Value = Selector> {
    let filters = prop::collection::vec(any_filter(), 0..4);
    let patterns = prop::collection::vec(pattern(), 1..4);
    (0_u16..12, patterns, filters, any::<bool>(), prop::bool::weighted(0.9)).prop_map(
        |(number, patterns, filters, or, active)| {
            let patterns: Vec<&str> = patterns.iter().map(String::as_str).collect();
            let mut made = subscription(number, &patterns, filters);
            made.filter_connector = if or { Connector::Or } else { Connector::And };
            made.active = active;
            made
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    let ask = (name(), [value(), value(), value(), value()]).prop_map(|(name, [x, y, old, new])| {
        let states = format!(r#""oldState":{{"x":{old}}},"newState":{{"x":{new}}}"#);
        let body = format!(r#"{{"id":"e","type":"{name}","data":{{"x":{x},"y":{y},{states}}}}}"#);
        Step::Ask { name, body }
    });
    prop_oneof![
        4 => any_subscription().prop_map(|s| Step::Insert(Box::new(s))),
        1 => (0_u16..12).prop_map(Step::Remove),
        4 => ask,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn finds_what_asking_each_of_them_finds(steps in prop::collection::vec(step(), 1..60)) {
        let mut all = BTreeMap::new();
        let mut index = SubscriptionIndex::default();
        for step in steps {
            match step {
                Step::Insert(one) => {
                    index.insert(&Arc::new((*one).clone()));
                    all.insert(one.id.clone(), *one);
                }
                Step::Remove(number) => {
                    let id = subscription(number, &["a"], Vec::new()).id;
                    index.remove(&id);
                    all.remove(&id);
                }
                Step::Ask { name, body } => {
                    let found = index.matching(&name, body.as_bytes());
                    let found: Vec<_> = found.iter().map(|s| s.id.clone()).collect();
                    prop_assert_eq!(found, naive(&all, &name, body.as_bytes()), "{} {}", name, body);
                }
            }
        }
    }
}
