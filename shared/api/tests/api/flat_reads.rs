//! What a call reads does not grow with the store: a thousand deliveries and a hundred thousand, or a million, cost the same.
//!
//! Every `GET` of the OpenAPI document is made with every combination of its filters, and the store counts what it reads. Each read of the
//! port is answered by a key or an index (`shared/embedded/src/store/plan_tests.rs` checks that of SQLite), so the costs are flat if the
//! counts are.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use holdfast_core::ports::{IndexQuery, Store};
use holdfast_core::records::{ListIndex, Record};
use holdfast_sim::{Bulk, CountingStore, Reads};
use serde_json::Value;

use crate::world::World;

const FEW: usize = 1_000;
const MANY: usize = 100_000;
/// Sets how many `MANY` are.
const VARIABLE: &str = "HOLDFAST_DELIVERIES";

/// What one call may read, with the largest page: the scan limit, and what belongs to each entry that was found.
const MAX_READS: Reads = Reads { calls: 1_100, records: 4_500, entries: 7_000 };
/// The same of a list without a filter: each of a hundred deliveries has a few records.
const MAX_UNFILTERED: Reads = Reads { calls: 110, records: 1_200, entries: 0 };

struct Scene {
    world: World,
    store: Arc<CountingStore>,
    bulk: Bulk,
    document: Value,
}

impl Scene {
    async fn with(deliveries: usize) -> Scene {
        let world = World::new();
        let bulk = Bulk {
            tenant: "default".into(),
            urls: deliveries / 10,
            deliveries,
            now: world.engine().clock().now(),
            // A tenth of the live ones has expired.
            span: Duration::from_secs(60 * 3_600),
        };
        let mut records = bulk.records().peekable();
        while records.peek().is_some() {
            let some: Vec<Record> = records.by_ref().take(1_000).collect();
            assert_eq!(world.store.put_each(some).await.unwrap(), []);
        }
        drop(records);
        let document = world.get("/openapi.json").await.expect(StatusCode::OK);
        let (world, store) = world.with_counted_reads();
        Scene { world, store, bulk, document }
    }

    /// An id for the last part of a path such as `/v1/urls/{id}`.
    fn id(&self, path: &str) -> Option<String> {
        let partition = "replays#default";
        match path {
            "/v1/deliveries/{id}" => Some(self.bulk.delivery_id(4)),
            "/v1/events/{id}" => Some(Bulk::WIDE_EVENT.to_owned()),
            // Busy, disabled, with parked deliveries.
            "/v1/urls/{id}" => Some(self.bulk.url_id(1).to_string()),
            "/v1/subscriptions/{id}" => Some(self.bulk.subscription_id(1).to_string()),
            "/v1/tenants/{id}" => Some("default".to_owned()),
            "/v1/replays/{id}" => {
                let query = IndexQuery::of(ListIndex::ByState, partition, 1);
                let page = holdfast_sim::block_on(self.world.store.query_index(query)).unwrap();
                page.items.into_iter().find_map(|found| match found.record {
                    Record::Replay(replay) => Some(replay.id.to_string()),
                    _ => None,
                })
            }
            _ => None,
        }
    }

    /// What to ask for in a parameter: nothing, or one of these values.
    fn values(&self, parameter: &Value) -> Vec<Option<String>> {
        let resolved = |value: &Value| match value["$ref"].as_str() {
            Some(reference) => self.document.pointer(&reference[1..]).unwrap().clone(),
            None => value.clone(),
        };
        let parameter = resolved(parameter);
        let schema = resolved(&parameter["schema"]);
        let given: Vec<String> = match (parameter["name"].as_str().unwrap(), schema["enum"].as_array()) {
            (_, Some(values)) => values.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            ("event", _) => vec![self.bulk.event_id(2), Bulk::WIDE_EVENT.to_owned()],
            // One with very many deliveries, and all URLs.
            ("url", _) => {
                vec![self.bulk.url_id(2).to_string(), self.bulk.url(2), "https://customer-9*".to_owned()]
            }
            ("subscription", _) => vec![self.bulk.subscription_id(2).to_string()],
            ("since", _) => vec!["2025-12-30T00:00:00Z".to_owned()],
            ("until", _) => vec!["2025-12-31T00:00:00Z".to_owned()],
            ("delivery", _) => vec![self.bulk.delivery_id(4)],
            ("type", _) => vec!["order.created".to_owned(), "order.paid".to_owned()],
            ("subject", _) => vec!["order-1".to_owned()],
            ("minutes", _) => vec!["1440".to_owned()],
            _ => Vec::new(),
        };
        let optional = parameter["required"] != true;
        optional.then_some(None).into_iter().chain(given.into_iter().map(Some)).collect()
    }

    /// Every combination of the parameters of a call, as query strings.
    fn queries(&self, call: &Value) -> Vec<String> {
        let mut queries = vec![String::new()];
        for parameter in call["parameters"].as_array().into_iter().flatten() {
            let name = parameter["name"].as_str().unwrap_or_default();
            let values = self.values(parameter);
            if parameter["$ref"] == "#/components/parameters/limit" {
                queries.iter_mut().for_each(|query| query.push_str("&limit=100"));
            } else if !name.is_empty() && values.iter().any(Option::is_some) {
                queries = queries
                    .iter()
                    .flat_map(|query| {
                        values.iter().map(move |value| match value {
                            Some(value) => format!("{query}&{name}={}", value.replace(':', "%3A")),
                            None => query.clone(),
                        })
                    })
                    .collect();
            }
        }
        queries
    }

    /// Makes a call and returns its answer, `None` if the filters do not go together, and what it read.
    async fn measure(&self, path: &str) -> (Option<Value>, Reads) {
        let before = self.store.reads();
        let answer = self.world.get(path).await;
        let reads = self.store.reads() - before;
        if answer.status == StatusCode::BAD_REQUEST {
            return (None, reads);
        }
        (Some(answer.expect(StatusCode::OK)), reads)
    }

    /// Makes every `GET` and returns what the dearest of them read, and how many were answered.
    async fn measure_all(&self) -> (Reads, usize) {
        let (mut most, mut answered) = (Reads::default(), 0);
        for (path, item) in self.document["paths"].as_object().unwrap() {
            let Some(call) = item.get("get").filter(|_| path.starts_with("/v1/")) else { continue };
            let path = match path.contains('{') {
                true => match self.id(path) {
                    Some(id) => path.replace("{id}", &id).replace("{tenant}", &id),
                    None => continue,
                },
                false => path.clone(),
            };
            for query in self.queries(call) {
                let asked = format!("{path}?{}", query.trim_start_matches('&'));
                let (mut answer, mut reads) = self.measure(&asked).await;
                let is_filtered = !query.trim_start_matches("&limit=100").is_empty();
                for _ in 0..2 {
                    let Some(found) = answer.take() else { break };
                    answered += 1;
                    assert!(within(reads, MAX_READS), "{asked} read {reads:?}");
                    if found["items"].is_array() && !is_filtered {
                        assert!(within(reads, MAX_UNFILTERED), "{asked} read {reads:?}");
                    }
                    (most.calls, most.records) =
                        (most.calls.max(reads.calls), most.records.max(reads.records));
                    most.entries = most.entries.max(reads.entries);
                    let Some(next) = found["next"].as_str().filter(|_| path != "/v1/attempts") else { break };
                    (answer, reads) = self.measure(&format!("{asked}&cursor={next}")).await;
                }
            }
        }
        (most, answered)
    }
}

fn within(reads: Reads, most: Reads) -> bool {
    reads.calls <= most.calls && reads.records <= most.records && reads.entries <= most.entries
}

#[tokio::test]
async fn no_call_reads_more_of_a_large_store_than_of_a_small_one() {
    let many = std::env::var_os(VARIABLE).map_or(MANY, |many| many.to_str().unwrap().parse().unwrap());
    let (_, answered) = Scene::with(FEW).await.measure_all().await;
    assert!(answered > 200, "only {answered} calls were answered");
    let (most, answered_by_many) = Scene::with(many).await.measure_all().await;
    assert!(answered_by_many >= answered, "{answered_by_many} of {answered} calls were answered");
    // The bounds are not far from the truth, so that a change that reads twice as much is noticed.
    assert!(most.records * 2 > MAX_READS.records && most.calls * 2 > MAX_READS.calls, "{most:?}");
}
