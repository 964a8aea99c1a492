use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::ids::UrlId;
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
        index.insert(&subscription);
    }
    index
}

fn filter_of(field: &str, op: &str, value: Value) -> Filter {
    serde_json::from_value(json!({"field": field, "op": op, "value": value})).unwrap()
}

/// Whether a subscription with these filters gets this event.
fn passes(filters: &[Filter], connector: Connector, event: &str) -> bool {
    let mut asking = subscription(1, &["*"], filters.to_vec());
    asking.filter_connector = connector;
    !index_of([asking]).matching("order.created", event.as_bytes()).is_empty()
}

#[test]
fn each_op_looks_into_the_event() {
    let event = json!({"type": "order.changed", "data": {
        "total": 12.5, "tags": ["new", "eu"], "at": "2024-01-01T00:00:00+02:00", "name": "Ada", "none": null,
        "oldState": {"status": "open", "same": 1}, "newState": {"status": "paid", "same": 1}}});
    for (field, op, value, expected) in [
        ("data.total", "eq", json!(12.5), true),
        ("data.total", "gt", json!(12), true),
        ("data.total", "lte", json!(12), false),
        ("data.total", "eq", json!("12.5"), false),
        ("data.missing", "eq", json!(1), false),
        ("data.missing", "ne", json!(1), true),
        ("data.tags", "contains", json!("eu"), true),
        ("data.tags.0", "eq", json!("new"), true),
        ("data.name", "contains", json!("da"), true),
        ("data.at", "lt", json!("2023-12-31T23:00:00Z"), true),
        ("data.none", "exists", json!(null), true),
        ("data.none", "exists", json!(false), false),
        ("data.none", "eq", json!(null), true),
        ("data.newState.status", "eq", json!("paid"), true),
        ("status", "changed", json!(null), true),
        ("same", "changed", json!(null), false),
        ("type", "eq", json!("order.changed"), true),
    ] {
        let f = filter_of(field, op, value);
        assert_eq!(passes(std::slice::from_ref(&f), Connector::And, &event.to_string()), expected, "{f:?}");
    }
}

#[test]
fn connectors_join_filters() {
    let event = r#"{"data": {"a": 1}}"#;
    let both = [filter_of("data.a", "eq", json!(1)), filter_of("data.a", "eq", json!(2))];
    assert!(!passes(&both, Connector::And, event));
    assert!(passes(&both, Connector::Or, event));
    assert!(passes(&[], Connector::Or, event) && passes(&[], Connector::And, event));
}

#[test]
fn several_places_of_one_list_can_be_asked_for() {
    let event = r#"{"data": {"list": [10, 11, 12, 13]}}"#;
    let at = |place: usize, value: u32| filter_of(&format!("data.list.{place}"), "eq", json!(value));
    assert!(passes(&[at(0, 10), at(1, 11), at(3, 13)], Connector::And, event));
    assert!(!passes(&[at(0, 10), at(1, 12)], Connector::And, event));
}

#[test]
fn what_cannot_be_represented_does_not_hide_the_rest() {
    let x_is_1 = filter_of("data.x", "eq", json!(1));
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    for beside in ["1e999", r#""\ud800""#, deep.as_str(), "1234567890123456789012345678901234567890"] {
        let event = format!(r#"{{"data":{{"beside":{beside},"x":1}}}}"#);
        assert!(passes(std::slice::from_ref(&x_is_1), Connector::And, &event), "{beside}");
        let exists = filter_of("data.beside", "exists", json!(true));
        assert!(passes(&[exists], Connector::And, &event), "{beside}");
    }
}

#[test]
fn a_key_that_cannot_be_represented_does_not_hide_its_neighbours() {
    let event = r#"{"data": {"\ud800": 2, "a": 1, "b": {"x": 1}, "b": 5}}"#;
    assert!(passes(&[filter_of("data.a", "eq", json!(1))], Connector::And, event));
    assert!(
        !passes(&[filter_of("data.b.x", "exists", json!(true))], Connector::And, event),
        "the last one counts"
    );
}

#[test]
fn what_is_too_long_to_be_compared_still_exists_and_can_change() {
    let long = "x".repeat(70_000);
    let event = format!(
        r#"{{"data": {{"a": "{long}", "oldState": {{"s": "{long}"}}, "newState": {{"s": "{long}y"}}}}}}"#
    );
    for (field, op, value, expected) in [
        ("data.a", "exists", json!(true), true),
        ("data.a", "eq", json!(long), false),
        ("data.a", "ne", json!(long), true),
        ("data.a", "contains", json!("x"), false),
        ("s", "changed", json!(null), true),
    ] {
        assert_eq!(passes(&[filter_of(field, op, value)], Connector::And, &event), expected, "{field} {op}");
    }
    let many: Vec<usize> = (0..2_000).collect();
    let event = json!({"data": {"a": many}}).to_string();
    for (value, expected) in [(999, true), (1_000, false)] {
        let contains = filter_of("data.a", "contains", json!(value));
        assert_eq!(passes(&[contains], Connector::And, &event), expected, "{value}");
    }
}

#[test]
fn a_search_stops_when_its_work_is_done_and_goes_on_from_there() {
    let index =
        index_of((0..100).map(|n| subscription(n, &["*"], vec![filter("data.n", Op::Gte, json!(n)); 10])));
    let body = br#"{"data": {"n": 49}}"#;
    let mut search = index.search("a", body);
    let mut steps = 1;
    while !search.step(&mut 100) {
        steps += 1;
    }
    assert!((5..=20).contains(&steps), "{steps} steps");
    assert_eq!(search.matched().len(), 50);
    assert_eq!(index.matching("a", body).len(), 50);
}

/// All levels of a large event were scanned in one go, and as if that took no time.
#[test]
fn a_large_event_is_walked_through_level_by_level() {
    const DEPTH: usize = 15;
    let path = vec!["a"; DEPTH].join(".") + ".b";
    let index = index_of([subscription(1, &["*"], vec![filter(&path, Op::Eq, json!(1))])]);
    let large = format!(r#"{{"b": 1, "c": [{}0]}}"#, "[],".repeat(20_000));
    let body = format!("{}{large}{}", r#"{"a":"#.repeat(DEPTH), "}".repeat(DEPTH));
    let mut search = index.search("a", body.as_bytes());
    let mut steps = 1;
    while !search.step(&mut 500) {
        steps += 1;
    }
    assert!(steps > DEPTH, "{steps} steps");
    assert_eq!(search.matched().len(), 1);
    let work = work_of(&index, "a", &body);
    assert!((body.len() * DEPTH / 100..body.len() * DEPTH / 50).contains(&work), "{work}");
}

/// How much work a search takes in one step.
fn work_of(index: &SubscriptionIndex, event_type: &str, body: &str) -> usize {
    let mut left = 1_000_000;
    assert!(index.search(event_type, body.as_bytes()).step(&mut left));
    1_000_000 - left
}

/// Turns between tenants are as fair as this count is exact.
#[test]
fn the_work_of_a_search_is_counted() {
    let of = |count: u16, types: &[&str], filters: &[Filter]| {
        index_of((0..count).map(|n| subscription(n, types, filters.to_vec())))
    };
    let eq = [filter("data.n", Op::Eq, json!(1))];
    let contains = [filter("data.text", Op::Contains, json!("x"))];
    let changed = [filter("text", Op::Changed, json!(null))];
    let text = "y".repeat(158);
    let long =
        json!({"data": {"text": text, "oldState": {"text": text}, "newState": {"text": text}}}).to_string();
    // The event and the objects in it that are scanned.
    let scan = |bytes: usize| 1 + bytes / 64;
    let in_data = long.len() / 64 + scan(long.len()) + scan(long.len() - r#"{"data":}"#.len());
    let in_states = in_data + 2 * scan(text.len() + r#"{"text":""}"#.len());
    // The root of the tree, the leaf of `*` alone, and then what each of them adds.
    for (what, index, body, work) in [
        ("nothing", of(0, &["a"], &[]), "{}", 2 + 1),
        ("another type", of(9, &["b"], &[]), "{}", 2 + 1),
        ("8 in a leaf", of(8, &["a"], &[]), "{}", 2 + 1 + (1 + 8 / 4) + 8),
        ("8 in two leaves", of(8, &["a", "*"], &[]), "{}", 2 + (1 + 8 / 4) * 2 + 8),
        ("11 in a leaf", of(11, &["a"], &[]), "{}", 2 + 1 + (1 + 11 / 4) + 11),
        ("a value that nothing has", of(8, &["a"], &eq), "{}", 1 + 2 + 1 + 1),
        ("a value that is another", of(8, &["a"], &eq), r#"{"data":{"n":2}}"#, 2 + 2 + 1 + (1 + 1)),
        ("a value", of(8, &["a"], &eq), r#"{"data":{"n":1}}"#, 2 + 2 + 1 + (1 + 1 + 8 / 4) + 8 * (1 + 1)),
        ("a missing text", of(4, &["a"], &contains), "{}", 1 + 2 + 1 + 2 + 4 * (1 + 1)),
        ("a text", of(4, &["a"], &contains), &long, in_data + 2 + 1 + 2 + 4 * (1 + 1 + 160 / 16)),
        ("two texts", of(4, &["a"], &changed), &long, in_states + 2 + 1 + 2 + 4 * (1 + 2 * (1 + 160 / 16))),
    ] {
        assert_eq!(work_of(&index, "a", body), work, "{what}");
    }
}

/// Each time when there are twice as many as there were distinct ones, and not after every leaf.
#[test]
fn candidates_are_made_distinct_rarely() {
    let patterns = ["*", "a.a", "a.*", "*.a", "*.*"];
    let index = index_of((0..4_200).map(|n| subscription(n, &patterns, Vec::new())));
    let leaves = 5 * (1 + 4_200 / 4);
    let compacted = 4_200 + 3 * 4_200 + 3 * 4_200;
    assert_eq!(work_of(&index, "a.a", "{}"), 3 * 2 + leaves + compacted + 4_200);
}

#[test]
fn up_to_four_alternatives_are_found_by_their_values() {
    let asked_of = |alternatives: usize, others: &[Filter]| {
        let mut filters: Vec<Filter> =
            (0..alternatives).map(|n| filter("data.n", Op::Eq, json!(n))).collect();
        filters.extend_from_slice(others);
        let mut one = subscription(1, &["a"], filters);
        one.filter_connector = Connector::Or;
        asked(&index_of([one]), "a", br#"{"data":{"n":77}}"#)
    };
    assert_eq!((1..=6).map(|n| asked_of(n, &[])).collect::<Vec<_>>(), [0, 0, 0, 0, 1, 1]);
    assert_eq!(asked_of(0, &[]), 1, "without filters every event is wanted");
    assert_eq!(asked_of(2, &[filter("data.n", Op::Gt, json!(5))]), 1, "another filter may want it");
}

#[test]
fn values_up_to_64_kib_are_compared() {
    let kib_64 = 64 * 1024;
    for (length, is_compared) in [(kib_64 - 2, true), (kib_64 - 1, false)] {
        let text = "x".repeat(length);
        let event = format!(r#"{{"data": {{"a": "{text}"}}}}"#);
        let equal = filter_of("data.a", "eq", json!(text));
        assert_eq!(passes(&[equal], Connector::And, &event), is_compared, "{length}");
    }
}

/// How many subscriptions are asked about an event.
fn asked(index: &SubscriptionIndex, event_type: &str, body: &[u8]) -> usize {
    let mut search = index.search(event_type, body);
    while !search.step(&mut 100) {}
    search.candidates.len()
}

/// Every pattern of so many segments that has `a` or `*` in each place: all match the same name.
fn patterns_with_stars(segments: u32) -> Vec<String> {
    let pattern = |bits: u32| {
        let segment = |place: u32| if bits & (1 << place) == 0 { "a" } else { "*" };
        (0..segments).map(segment).collect::<Vec<_>>().join(".")
    };
    (0..1 << segments).map(pattern).collect()
}

#[test]
fn following_the_type_is_done_in_steps_too() {
    let patterns = patterns_with_stars(10);
    let of = |chunk: &[String], n| {
        subscription(n, &chunk.iter().map(String::as_str).collect::<Vec<_>>(), Vec::new())
    };
    let index = index_of(patterns.chunks(100).zip(0..).map(|(chunk, n)| of(chunk, n)));
    let event_type = ["a"; 10].join(".");
    let mut search = index.search(&event_type, b"{}");
    let mut steps = 1;
    while !search.step(&mut 100) {
        steps += 1;
    }
    // 1,023 nodes that lead on, and 1,024 leaves.
    assert!((25..=60).contains(&steps), "{steps} steps");
    assert_eq!(search.candidates.len(), 11, "each subscription is asked once");
    assert_eq!(search.matched().len(), 11);
}

#[test]
fn many_candidates_are_made_distinct_while_they_are_collected() {
    let patterns = patterns_with_stars(6);
    let patterns: Vec<&str> = patterns.iter().map(String::as_str).collect();
    let index = index_of((0..200).map(|n| subscription(n, &patterns, Vec::new())));
    let mut search = index.search("a.a.a.a.a.a", b"{}");
    let mut most = 0;
    while !search.step(&mut 1) {
        most = most.max(search.candidates.len());
    }
    assert!(most < 5_000, "{most} of 12,800 at once");
    assert_eq!(search.matched().len(), 200);
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
    let asked = asked(&index, "order.created", body.as_bytes());
    assert!(asked <= 3, "{asked} were asked");
    let found = index.matching("order.created", body.as_bytes());
    assert_eq!(found.iter().map(|s| &s.id).collect::<Vec<_>>(), [&to_customer(7).id]);
}

/// The body may be long, and only filters need it.
#[test]
fn an_event_is_looked_into_only_for_filters() {
    let exists = || vec![filter("data.a", Op::Exists, json!(true))];
    let mut index = index_of([subscription(1, &["*"], Vec::new())]);
    assert!(!index.all.has_filters());
    index.insert(&subscription(2, &["*"], exists()));
    assert!(index.all.has_filters() && !index.all.has_values());
    index.insert(&subscription(3, &["*"], vec![filter("data.a", Op::Eq, json!(1))]));
    assert!(index.all.has_filters() && index.all.has_values());
    for number in [2, 3] {
        index.remove(&subscription(number, &["*"], Vec::new()).id);
    }
    assert!(!index.all.has_filters() && !index.all.has_values());
}

#[test]
fn of_ten_thousand_types_only_one_is_asked() {
    let types: Vec<String> = (0..10_000).map(|n| format!("shop{}.order{n}.created", n % 10)).collect();
    let index = index_of((0..10_000).map(|n| subscription(n, &[&types[usize::from(n)]], Vec::new())));
    assert_eq!(asked(&index, &types[77], b"{}"), 1);
    assert_eq!(asked(&index, "shop1.order1", b"{}"), 0);
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
    assert!(!index.is_empty());
    for (number, subscription) in all.iter().enumerate() {
        assert_eq!(index.bytes(), all[number..].iter().map(index_bytes).sum::<u64>());
        index.remove(&subscription.id);
    }
    assert!(index.is_empty() && index.types.is_empty() && index.all.is_empty() && index.paths.is_empty());
    assert_eq!(index.bytes(), 0);
}

/// Asks every subscription about every event.
fn naive(all: &BTreeMap<SubscriptionId, Selector>, name: &str, body: &[u8]) -> Vec<SubscriptionId> {
    all.values().filter(|s| reference::selects(s, name, body)).map(|s| s.id.clone()).collect()
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
                    index.insert(&one);
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
