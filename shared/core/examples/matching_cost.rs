//! Prints what it costs to find those who want an event among ten thousand subscriptions: `cargo run --release -p holdfast-core
//! --example matching_cost`.

use std::hint::black_box;
use std::time::{Duration, Instant};

use holdfast_core::ids::{SubscriptionId, UrlId};
use holdfast_core::rules::filter::{Connector, Filter, Op};
use holdfast_core::rules::matching::{Selector, SubscriptionIndex};
use serde_json::{Value, json};

const SUBSCRIPTIONS: u16 = 10_000;
const ROUND: u32 = 20;
const LONG_ENOUGH: Duration = Duration::from_millis(300);

/// What subscription number n asks for.
type Shape = fn(u16) -> (String, Vec<Filter>);

fn main() {
    let shapes: [(&str, Shape); 10] = [
        ("each a type of its own", |n| (format!("order.created{n}"), Vec::new())),
        ("one type, each a customer of its own", |n| (of_all(), vec![customer(n)])),
        ("one type, each a customer of its own and a total", |n| {
            (of_all(), vec![filter("data.total", Op::Gt, json!(1)), customer(n)])
        }),
        ("one segment by star, each a customer of its own", |n| ("order.*".to_owned(), vec![customer(n)])),
        ("one type, each a total of its own (all are asked)", |n| {
            (of_all(), vec![filter("data.total", Op::Gt, json!(n))])
        }),
        ("one type, each a word in a text of its own", |n| {
            (of_all(), vec![filter("data.note", Op::Contains, json!(format!("word{n}")))])
        }),
        ("one type, each an item of a list", |n| {
            (of_all(), vec![filter("data.tags", Op::Contains, json!(format!("tag{n}")))])
        }),
        ("one type, each a change", |n| {
            (of_all(), vec![filter(&format!("status{}", n % 10), Op::Changed, json!(null))])
        }),
        ("one type, each a field that exists", |n| {
            (of_all(), vec![filter(&format!("data.field{n}"), Op::Exists, json!(true))])
        }),
        ("one type, no filter (all want it)", |_| (of_all(), Vec::new())),
    ];
    let body = json!({
        "id": "evt_1", "type": "order.created7", "timestamp": "2026-01-01T00:00:00.000Z",
        "data": {"customer": "c-7", "total": 12.5, "note": "some words ".repeat(100),
            "tags": (0..100).map(|n| format!("tag{n}")).collect::<Vec<_>>(),
            "oldState": {"status1": "open", "status2": 1}, "newState": {"status1": "paid", "status2": 1}, "lines": [{"sku": "a", "count": 2}, {"sku": "b", "count": 1}]},
    });
    let body = body.to_string();
    println!("{:<55} {:>10} {:>12}", "10,000 subscriptions", "matched", "us per event");
    for (name, shape) in shapes {
        let index = index_of(shape);
        let matched = index.matching("order.created7", body.as_bytes()).len();
        let each = time_of(|| index.matching(black_box("order.created7"), black_box(body.as_bytes())));
        println!("{name:<55} {matched:>10} {:>12.2}", each.as_secs_f64() * 1e6);
    }
}

fn of_all() -> String {
    "order.created7".to_owned()
}

fn filter(field: &str, op: Op, value: Value) -> Filter {
    Filter { field: field.to_owned(), op, value: Some(value) }
}

fn customer(n: u16) -> Filter {
    filter("data.customer", Op::Eq, json!(format!("c-{n}")))
}

fn index_of(shape: Shape) -> SubscriptionIndex {
    let mut index = SubscriptionIndex::default();
    for n in 0..SUBSCRIPTIONS {
        let (event_type, filters) = shape(n);
        let mut random = [0; 16];
        random[..2].copy_from_slice(&n.to_be_bytes());
        index.insert(&Selector {
            id: SubscriptionId::new(random),
            url_id: UrlId::of("https://example.com/"),
            event_types: vec![event_type],
            filters,
            filter_connector: Connector::And,
            active: true,
        });
    }
    index
}

#[expect(clippy::disallowed_methods, reason = "it measures")]
fn time_of<T>(mut act: impl FnMut() -> T) -> Duration {
    let (began, mut rounds) = (Instant::now(), 0);
    loop {
        for _ in 0..ROUND {
            black_box(act());
        }
        rounds += ROUND;
        let took = began.elapsed();
        if took >= LONG_ENOUGH {
            return took / rounds;
        }
    }
}
