//! Measures how much memory subscriptions take in the index. In a binary of its own, because it counts what the allocator gives.

use holdfast_core::ids::{SubscriptionId, UrlId};
use holdfast_core::rules::event_type::{MAX_SEGMENT_LEN, MAX_SEGMENTS};
use holdfast_core::rules::filter::{Connector, Filter, Op};
use holdfast_core::rules::matching::{Selector, SubscriptionIndex, index_bytes};
use peak_alloc::PeakAlloc;
use serde_json::{Value, json};

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// What allocators need besides: a header, and sizes rounded up. On average, and with a margin.
const ALLOCATOR_OVERHEAD_PERCENT: usize = 30;
/// How many bytes of index one byte of a subscription may cost at the most.
const MAX_BYTES_PER_BYTE: u64 = 200;
const SUBSCRIPTIONS: u16 = 200;

/// Event types and filters of subscription number n.
type Shape = fn(u16) -> (Vec<String>, Vec<Filter>);

fn selector(n: u16, shape: Shape, connector: Connector) -> Selector {
    let (event_types, filters) = shape(n);
    let mut random = [0; 16];
    random[..2].copy_from_slice(&n.to_be_bytes());
    Selector {
        id: SubscriptionId::new(random),
        url_id: UrlId::of(&format!("https://example.com/{n}")),
        event_types,
        filters,
        filter_connector: connector,
        active: true,
    }
}

fn filter(field: String, op: Op, value: Value) -> Filter {
    Filter { field, op, value: Some(value) }
}

/// The 100 patterns of a subscription, each with segments of its own.
fn patterns(n: u16, segments: usize, length: usize) -> Vec<String> {
    let segment =
        |p: u16, s: usize| format!("{:0length$}", u64::from(n) * 10_000 + u64::from(p) * 100 + s as u64);
    (0..100).map(|p| (0..segments).map(|s| segment(p, s)).collect::<Vec<_>>().join(".")).collect()
}

/// As a subscriber sends it.
fn posted_bytes(selector: &Selector) -> u64 {
    json!({"url": "https://example.com/0000", "event_types": selector.event_types, "filters": selector.filters})
        .to_string()
        .len() as u64
}

#[test]
fn no_subscription_takes_more_memory_than_it_is_charged_for() {
    let shapes: [(&str, Shape); 10] = [
        ("one type", |n| (vec![format!("order.created{n}")], vec![])),
        ("100 patterns of the most segments", |n| (patterns(n, MAX_SEGMENTS, 7), vec![])),
        ("100 patterns of the longest segments", |n| (patterns(n, MAX_SEGMENTS, MAX_SEGMENT_LEN), vec![])),
        ("100 patterns of one segment", |n| (patterns(n, 1, 1), vec![])),
        ("100 patterns that differ in their last segment", |n| {
            ((0..100).map(|p| format!("{}{n}.{p}", "a.".repeat(MAX_SEGMENTS - 2))).collect(), vec![])
        }),
        ("100 patterns, one equality", |n| {
            (patterns(n, 1, 1), vec![filter(format!("data.f{n}"), Op::Eq, json!(n))])
        }),
        ("100 patterns, 50 equalities", |n| {
            (patterns(n, 1, 1), (0..50).map(|f| filter(format!("{n}.{f}"), Op::Eq, json!(f))).collect())
        }),
        ("100 patterns, 4 equalities", |n| {
            (patterns(n, 1, 1), (0..4).map(|f| filter(format!("{n}.{f}"), Op::Eq, json!(f))).collect())
        }),
        ("50 changes of the longest paths", |n| {
            let path = |f| format!("{}{n}-{f}", "a.".repeat(MAX_SEGMENTS - 1));
            (vec![format!("t{n}")], (0..50).map(|f| filter(path(f), Op::Changed, json!(null))).collect())
        }),
        ("50 comparisons with lists and texts", |n| {
            let value = |f: usize| {
                if f.is_multiple_of(2) { json!([[1, 2], {"a": [null]}]) } else { json!("x".repeat(200)) }
            };
            (
                vec!["*".to_owned()],
                (0..50).map(|f| filter(format!("d{n}.{f}"), Op::Contains, value(f))).collect(),
            )
        }),
    ];
    for (name, shape) in shapes {
        for connector in [Connector::And, Connector::Or] {
            let selectors: Vec<Selector> =
                (0..SUBSCRIPTIONS).map(|n| selector(n, shape, connector)).collect();
            let charged: u64 = selectors.iter().map(index_bytes).sum();
            let posted: u64 = selectors.iter().map(posted_bytes).sum();
            let before = ALLOCATOR.current_usage();
            let mut index = SubscriptionIndex::default();
            for selector in &selectors {
                index.insert(selector);
            }
            let given = ALLOCATOR.current_usage() - before;
            let taken = (given + given * ALLOCATOR_OVERHEAD_PERCENT / 100) as u64;
            println!(
                "{name}, {connector:?}: posted {posted}, taken {taken}, charged {charged}; {} bytes a byte",
                taken / posted
            );
            assert_eq!(index.bytes(), charged);
            assert!(
                taken <= charged,
                "{name}, {connector:?}: {taken} bytes are taken, {charged} are charged"
            );
            assert!(charged <= posted * MAX_BYTES_PER_BYTE, "{name}, {connector:?}: {charged} for {posted}");
            for selector in &selectors {
                index.remove(&selector.id);
            }
            assert!(index.is_empty());
        }
    }
}
